package stdio

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// leaveAfter is how long Close waits for a read or a write that it could not interrupt.
const leaveAfter = time.Second

var errClosed = errors.New("link closed")

// pipe joins r and w into one connection whose Close always ends a blocked Read and Write, which plain stdin and stdout
// do not offer. It counts what passes.
type pipe struct {
	r    io.Reader
	w    io.Writer
	ends []any // what was given: the output, then the input

	closed chan struct{}
	once   sync.Once
	pumps  sync.WaitGroup

	// gone is set when the peer ended the wire: our input ended or our output has no reader any more.
	gone atomic.Bool

	read, wrote         atomic.Int64
	lastRead, lastWrote atomic.Int64 // nanoseconds since start
	start               time.Time
}

func newPipe(r io.Reader, w io.Writer) *pipe {
	p := &pipe{ends: []any{w, r}, closed: make(chan struct{}), start: time.Now()}
	p.r, p.w = p.readEnd(r), p.writeEnd(w)
	return p
}

// Read gives what came. After Close, and when Close ends it, its error is errClosed.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		p.read.Add(int64(n))
		p.lastRead.Store(int64(time.Since(p.start)))
	}
	if errors.Is(err, io.EOF) {
		p.gone.Store(true)
	}
	return n, p.closing(err)
}

// Write puts b on the wire. After Close, and when Close ends it, its error is errClosed.
func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.wrote.Add(int64(n))
	p.lastWrote.Store(int64(time.Since(p.start)))
	err = p.closing(err)
	if err != nil && err != errClosed {
		p.gone.Store(true)
	}
	return n, err
}

func (p *pipe) closing(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-p.closed:
		return errClosed
	default:
		return err
	}
}

// Close ends both directions at once and closes what can be closed underneath.
func (p *pipe) Close() error {
	p.once.Do(func() {
		close(p.closed)
		interrupt(p.r)
		interrupt(p.w)
		p.pumps.Go(p.closeEnds) // a close may have to send something on a line that is stuck
	})
	return nil
}

// closeEnds ends what we send first: it is what tells the far side to leave.
func (p *pipe) closeEnds() {
	for _, end := range append([]any{p.w, p.r}, p.ends...) { // twice for one that is used as it was given
		if c, ok := end.(io.Closer); ok {
			c.Close()
		}
	}
}

// wait waits for both directions to end, or reports that one is stuck in a read or write that Close cannot end.
func (p *pipe) wait() bool {
	done := make(chan struct{})
	go func() { p.pumps.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(leaveAfter):
		return false
	}
}
