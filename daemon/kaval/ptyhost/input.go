package ptyhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/pty"
)

// Write hands bytes to the program. Writers take turns, so no two inputs mix; the reader of the output is another goroutine, so a
// program that echoes what it reads cannot lock up with its writer.
func (h *Host) Write(ctx context.Context, id kaval.TerminalID, in kaval.Input) error {
	if len(in.Data) > kaval.MaxInput {
		return kaval.Invalidf("input of %d bytes is more than %d", len(in.Data), kaval.MaxInput)
	}
	t, err := h.find(ctx, id)
	if err != nil {
		return err
	}
	return t.write(ctx, in.Data, kaval.WriteDeadline)
}

// write waits for its turn and writes, each for at most limit without any progress; 0 is no limit.
func (t *terminal) write(ctx context.Context, data []byte, limit time.Duration) error {
	if err := t.host.writes.enter(ctx, nil); err != nil {
		return cutShort(err, 0, len(data))
	}
	defer t.host.writes.leave()
	var late <-chan time.Time
	if limit > 0 {
		turn := time.NewTimer(limit)
		defer turn.Stop()
		late = turn.C
	}
	select {
	case t.lane <- struct{}{}:
		defer func() { <-t.lane }()
	case <-t.done:
		return t.goneNow()
	case <-late:
		return stalled(t.id, 0, len(data), "an earlier input is still being read")
	case <-ctx.Done():
		return cutShort(ctx.Err(), 0, len(data))
	}
	return t.writeInTurn(ctx, data, limit)
}

// writeStep is how many bytes are written under one deadline.
const writeStep = 4 << 10

func (t *terminal) writeInTurn(ctx context.Context, data []byte, limit time.Duration) error {
	if n := longestLine(data); n > pty.MaxLine && t.proc.Canonical() {
		return kaval.Invalidf("a line of %d bytes is longer than the %d that terminal %s can take while its program reads by lines; "+
			"nothing was sent", n, pty.MaxLine, t.id.Short())
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = t.proc.Master.SetWriteDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-cut // so that it cuts nobody else's write
		}
	}()
	moving := t.host.movingNow()
	for taken := 0; taken < len(data); {
		err := t.io.enter(ctx, moving)
		if errors.Is(err, errAside) {
			t.pass(data[taken:])
			return nil
		}
		n := 0
		if err == nil {
			n, err = t.writeStep(ctx, data[taken:min(len(data), taken+writeStep)], limit)
			t.io.leave()
		}
		taken += n
		if err != nil {
			return t.writeError(ctx, err, taken, len(data))
		}
	}
	return nil
}

// writeStep writes some bytes under one deadline. One that a hand-over cut short is no error.
func (t *terminal) writeStep(ctx context.Context, data []byte, limit time.Duration) (int, error) {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	t.deadline.Lock()
	if !t.held {
		_ = t.proc.Master.SetWriteDeadline(until)
	}
	t.deadline.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n, err := t.proc.Master.Write(data)
	t.deadline.Lock()
	defer t.deadline.Unlock()
	if t.held && ctx.Err() == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n, err
}

// pass leaves input to the build that takes over.
func (t *terminal) pass(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.carry = append(t.carry, data...)
}

// longestLine is the length of the longest line. A terminal that collects lines cuts one that is too long and tells nobody.
func longestLine(data []byte) int {
	longest := 0
	if len(data) <= pty.MaxLine {
		return longest
	}
	for line := range bytes.FieldsFuncSeq(data, func(r rune) bool { return r == '\n' || r == '\r' }) {
		longest = max(longest, len(line))
	}
	return longest
}

func (t *terminal) writeError(ctx context.Context, err error, taken, all int) error {
	switch {
	case ctx.Err() != nil:
		return cutShort(ctx.Err(), taken, all)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return stalled(t.id, taken, all, "the program does not read")
	}
	select {
	case <-t.exited: // the terminal went away under the write
		<-t.done
		return t.goneNow()
	case <-time.After(drainGrace):
	}
	return fmt.Errorf("write to terminal %s: %w", t.id.Short(), err)
}

func cutShort(err error, taken, all int) error {
	return &kaval.CutShortError{Taken: taken, Of: all, Err: err}
}

func stalled(id kaval.TerminalID, taken, all int, why string) error {
	return fmt.Errorf("%w: terminal %s took %d of %d bytes within %v: %s",
		kaval.ErrStalled, id.Short(), taken, all, kaval.WriteDeadline, why)
}

// goneNow is the error of a terminal that has ended.
func (t *terminal) goneNow() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return gone(t.id, t.code)
}

// replyQueue holds what a terminal answers to its program's queries until the program reads it. It is bounded: a program that
// asks and never reads gets no more answers.
type replyQueue struct {
	mu      sync.Mutex
	pending []byte
	writing bool
}

const maxReplies = 64 << 10

// reply answers the program without ever waiting for it.
func (t *terminal) reply(data []byte) {
	if len(data) == 0 {
		return
	}
	q := &t.replies
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending)+len(data) > maxReplies {
		return
	}
	q.pending = append(q.pending, data...)
	if !q.writing {
		q.writing = true
		t.host.readers.Go(t.writeReplies)
	}
}

func (t *terminal) writeReplies() {
	for {
		data := t.replies.take()
		if data == nil {
			return
		}
		// It ends by the write deadline or with the terminal, whose end closes the file under it.
		if err := t.write(context.Background(), data, kaval.WriteDeadline); err != nil {
			t.host.log.Debug("answer a program's query", "terminal", t.id, "err", err)
		}
	}
}

// take gives what is to be written, or nil when the writer is to end.
func (q *replyQueue) take() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	data := q.pending
	q.pending = nil
	q.writing = data != nil
	return data
}
