package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"kolu/cli"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// WaitFrame is the one JSON answer of a wait on a command line; flat, with what belongs to the outcome.
type WaitFrame struct {
	Host        string           `json:"host,omitempty"` // where several hosts were asked
	ID          kaval.TerminalID `json:"id"`
	Result      kaval.Outcome    `json:"result"`
	Fired       string           `json:"fired,omitempty"`
	ElapsedMS   *int64           `json:"elapsedMs,omitempty"`
	MatchedLine *string          `json:"matchedLine,omitempty"`
	Agent       *padi.Agent      `json:"agent,omitempty"`
	Screen      *string          `json:"screen,omitempty"`
	ExitCode    *int             `json:"exitCode,omitempty"`
	Offset      *int64           `json:"offset,omitempty"`
	Error       string           `json:"error,omitempty"`
	Code        string           `json:"code,omitempty"` // of the error, where a host was not reached
}

// Outcomes beside those of a daemon: a signal ended the wait; or it could not be waited for, and the frame has the error.
const (
	Interrupted kaval.Outcome = "interrupted"
	Failed      kaval.Outcome = "failed"
)

// Flat is the frame of a kaval's answer.
func Flat(res kaval.WaitResult) WaitFrame {
	f := WaitFrame{ID: res.ID, Result: res.Result}
	switch res.Result {
	case kaval.Met:
		f.Fired, f.ElapsedMS, f.Offset = res.Fired, &res.ElapsedMS, &res.Offset
		if res.Fired == "match" {
			f.MatchedLine = &res.MatchedLine
		}
	case kaval.Timeout, kaval.Gone:
		f.ElapsedMS, f.ExitCode = &res.ElapsedMS, res.ExitCode
	}
	return f
}

// WaitReport prints how a wait ended and gives the error with the exit code for it.
type WaitReport struct {
	Self           string // the command, as it is called
	Stdout, Stderr io.Writer
	JSON           bool
	// MetJSON, where it is set, takes the place of the frame for a wait that was met.
	MetJSON func(WaitFrame) any
	// For is what the wait was for, in the message of a timeout.
	For string
}

// Exit codes of a wait.
const (
	ExitTimeout     = 2
	ExitGone        = 3
	ExitInterrupted = 130
)

// Report takes what a wait gave. A wait that was interrupted, whose terminal ended before it began, or whose daemon went is an
// outcome too.
func (w WaitReport) Report(ctx context.Context, id kaval.TerminalID, f WaitFrame, err error) error {
	switch {
	case err != nil && Signalled(ctx):
		f = WaitFrame{ID: id, Result: Interrupted}
	case errors.Is(err, kaval.ErrGone):
		f = WaitFrame{ID: id, Result: kaval.Gone}
	case err != nil:
		err = fmt.Errorf("wait for %s: %w", id.Short(), err)
		return errors.Join(w.frame(WaitFrame{ID: id, Result: unanswered(err), Error: cli.Clean(err.Error())}), err)
	case f.Result == kaval.Closed:
		f.Error = closing(id.Short())
	}
	if err := w.frame(f); err != nil {
		return err
	}
	return w.outcome(id, f)
}

// unanswered is the outcome of a wait that an error ended: what a daemon refused has failed, else it or the line to it went.
func unanswered(err error) kaval.Outcome {
	switch padi.Code(err) {
	case "internal", "closing", "kaval-down":
		return kaval.Closed
	}
	return Failed
}

func closing(short string) string {
	return fmt.Sprintf("the daemon is going away under %s, which still runs — wait again", short)
}

// frame prints the one frame where JSON is wanted.
func (w WaitReport) frame(f WaitFrame) error {
	if !w.JSON {
		return nil
	}
	return w.json(f)
}

func (w WaitReport) json(f WaitFrame) error {
	if f.Result == kaval.Met && w.MetJSON != nil {
		return WriteJSON(w.Stdout, w.MetJSON(f))
	}
	return WriteJSON(w.Stdout, f)
}

func (w WaitReport) outcome(id kaval.TerminalID, f WaitFrame) error {
	short := id.Short()
	switch f.Result {
	case kaval.Met:
		if !w.JSON {
			w.note("%s", MetLine(short, f))
		}
		return nil
	case kaval.Timeout:
		return cli.Exit(ExitTimeout, fmt.Errorf("timed out after %dms waiting for %s (%s)", elapsed(f), short, w.missed()))
	case kaval.Gone:
		return cli.Exit(ExitGone, fmt.Errorf("%s exited before the condition was met — its terminal is gone", short))
	case Interrupted:
		w.note("interrupted; %s left running", short)
		return cli.Exit(ExitInterrupted, nil)
	case kaval.Closed:
		return errors.New(closing(short))
	}
	return fmt.Errorf("unknown outcome %q of a wait: the daemon is newer than this client", f.Result)
}

func (w WaitReport) missed() string {
	if w.For != "" {
		return "its agent never was " + w.For
	}
	return "output never met the condition"
}

func (w WaitReport) note(format string, args ...any) {
	fmt.Fprintf(w.Stderr, "— %s\n", fmt.Sprintf(format, args...))
}

// MetLine says in a line what a wait was met by; name is how the line calls the terminal.
func MetLine(name string, f WaitFrame) string {
	switch {
	case f.Agent != nil:
		return fmt.Sprintf("%s reached %s · %s %s", name, f.Agent.State.Bucket(), AgentName(f.Agent.Kind), f.Agent.State)
	case f.Fired == "match" && f.MatchedLine != nil:
		return fmt.Sprintf("%s matched %q after %dms", name, *f.MatchedLine, elapsed(f))
	}
	return fmt.Sprintf("%s output idle after %dms", name, elapsed(f))
}

func elapsed(f WaitFrame) int64 {
	if f.ElapsedMS == nil {
		return 0
	}
	return *f.ElapsedMS
}

// AgentName is an agent's kind as people call it.
func AgentName(kind string) string {
	if kind == "claude-code" {
		return "claude"
	}
	return kind
}

// Signalled reports whether a signal ended ctx.
func Signalled(ctx context.Context) bool {
	_, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](context.Cause(ctx))
	return ok
}

// WriteJSON prints a value as JSON with an indent of two.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
