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
	r io.Reader
	w io.Writer

	in      chan []byte
	readErr error // set before in is closed
	pending []byte

	out     chan []byte
	written chan error

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
	p := &pipe{r: r, w: w, in: make(chan []byte), out: make(chan []byte), written: make(chan error),
		closed: make(chan struct{}), start: time.Now()}
	p.pumps.Go(p.pumpIn)
	p.pumps.Go(p.pumpOut)
	return p
}

// pumpIn alternates between two buffers: the reader takes the next only when it has used up the one before.
func (p *pipe) pumpIn() {
	defer close(p.in)
	bufs := [2][]byte{make([]byte, 32<<10), make([]byte, 32<<10)}
	for i := 0; ; i++ {
		buf := bufs[i%2]
		n, err := p.r.Read(buf)
		if n > 0 {
			p.read.Add(int64(n))
			p.lastRead.Store(int64(time.Since(p.start)))
			select {
			case p.in <- buf[:n]:
			case <-p.closed:
				p.readErr = errClosed
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				p.gone.Store(true)
			}
			p.readErr = err
			return
		}
	}
}

func (p *pipe) pumpOut() {
	for {
		select {
		case b := <-p.out:
			n, err := p.w.Write(b)
			p.wrote.Add(int64(n))
			p.lastWrote.Store(int64(time.Since(p.start)))
			if err != nil {
				p.gone.Store(true)
			}
			select {
			case p.written <- err:
			case <-p.closed:
				return
			}
		case <-p.closed:
			return
		}
	}
}

func (p *pipe) Read(b []byte) (int, error) {
	if len(p.pending) == 0 {
		select {
		case next, ok := <-p.in:
			if !ok {
				return 0, p.readErr
			}
			p.pending = next
		case <-p.closed:
			return 0, errClosed
		}
	}
	n := copy(b, p.pending)
	p.pending = p.pending[n:]
	return n, nil
}

// Write hands b over and waits, so that b is free again when it returns, except after Close.
func (p *pipe) Write(b []byte) (int, error) {
	own := append([]byte(nil), b...)
	select {
	case p.out <- own:
	case <-p.closed:
		return 0, errClosed
	}
	select {
	case err := <-p.written:
		if err != nil {
			return 0, err
		}
		return len(b), nil
	case <-p.closed:
		return 0, errClosed
	}
}

// Close ends both directions at once and closes what can be closed underneath.
func (p *pipe) Close() error {
	p.once.Do(func() {
		close(p.closed)
		if d, ok := p.r.(interface{ SetReadDeadline(time.Time) error }); ok {
			d.SetReadDeadline(time.Now())
		}
		// The end of input first: it is what tells the far side to leave.
		p.pumps.Go(func() { // a close may have to send something on a line that is stuck
			for _, end := range []any{p.w, p.r} {
				if c, ok := end.(io.Closer); ok {
					c.Close()
				}
			}
		})
	})
	return nil
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
