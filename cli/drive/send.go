package drive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"kolu/daemon/kaval"
)

// Writer is the part of both contracts that a send needs.
type Writer interface {
	Write(ctx context.Context, id kaval.TerminalID, in kaval.Input) error
}

// writeGrace is what a daemon's own deadline gets on top for the line.
const writeGrace = time.Second

// Write sends a payload in one write. A program that does not read, and a daemon that does not answer, end it after
// kaval.WriteDeadline with an error that says so. Over a lasting line it waits for the line as long as the user likes, and the writer
// has limits of its own for what is no fault of the line.
func Write(ctx context.Context, w Writer, id kaval.TerminalID, p Payload) error {
	limit := kaval.WriteDeadline + writeGrace
	if l, ok := w.(interface{ Lasting() bool }); ok && l.Lasting() {
		limit = math.MaxInt64
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := w.Write(bounded, id, kaval.Input{Data: p.Data})
	if err == nil {
		return nil
	}
	unanswered := ctx.Err() == nil && bounded.Err() != nil
	if errors.Is(err, kaval.ErrStalled) { // it knows how much was taken
		return fmt.Errorf("write to terminal %s stalled — no acknowledgement within %dms: %w", id.Short(), kaval.WriteDeadline.Milliseconds(), err)
	}
	if unanswered {
		return fmt.Errorf("write to terminal %s stalled — no acknowledgement within %dms, so part of it may have arrived: %w",
			id.Short(), kaval.WriteDeadline.Milliseconds(), err)
	}
	return err
}

// Sent is what a send reports as JSON.
type Sent struct {
	ID    kaval.TerminalID `json:"id"`
	Bytes int              `json:"bytes"`
	Paste bool             `json:"paste"`
	Keys  []string         `json:"keys"`
}

// Sent is the report of a payload that was written.
func (p Payload) Sent(id kaval.TerminalID) Sent {
	keys := p.Keys
	if keys == nil {
		keys = []string{}
	}
	return Sent{ID: id, Bytes: len(p.Data), Paste: p.Paste, Keys: keys}
}

// Trailer is the line for people.
func (p Payload) Trailer(id kaval.TerminalID) string {
	line := fmt.Sprintf("— sent %d byte(s) to %s", len(p.Data), id.Short())
	if p.Paste {
		line += " · pasted"
	}
	if len(p.Keys) > 0 {
		line += " · keys: " + strings.Join(p.Keys, ", ")
	}
	return line
}

// SendFlagError explains the flag that send used to have.
func SendFlagError(err error) error {
	if strings.Contains(err.Error(), "--submit") {
		return errors.New("--submit is gone: press Enter as a send of its own, after the text has settled (send <id> --key Enter)")
	}
	return err
}
