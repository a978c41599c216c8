package stdio

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// The ends of a wire. Where Close can end a Read or a Write that waits, the end is used as it is: every goroutine between a request and
// the wire costs the request a switch. Else a goroutine of its own reads or writes, and is left behind where it is stuck.

// readEnd gives r, or what reads from it and can be interrupted by closing.
func (p *pipe) readEnd(r io.Reader) io.Reader {
	r = polled(r)
	if d, ok := r.(readDeadliner); ok && d.SetReadDeadline(time.Time{}) == nil {
		return r
	}
	in := &pumpedReader{r: r, in: make(chan []byte), closed: p.closed}
	p.pumps.Go(in.pump)
	return in
}

// writeEnd gives w, or what writes to it and can be interrupted by closing.
func (p *pipe) writeEnd(w io.Writer) io.Writer {
	w = polled(w)
	if d, ok := w.(writeDeadliner); ok && d.SetWriteDeadline(time.Time{}) == nil {
		return w
	}
	if _, ok := w.(interface{ CloseEndsWrite() }); ok {
		return w
	}
	out := &pumpedWriter{w: w, out: make(chan []byte), written: make(chan error), closed: p.closed}
	p.pumps.Go(out.pump)
	return out
}

type readDeadliner interface{ SetReadDeadline(time.Time) error }
type writeDeadliner interface{ SetWriteDeadline(time.Time) error }

// interrupt ends what waits at an end that has deadlines.
func interrupt(end any) {
	if d, ok := end.(readDeadliner); ok {
		d.SetReadDeadline(time.Now())
	}
	if d, ok := end.(writeDeadliner); ok {
		d.SetWriteDeadline(time.Now())
	}
}

// polled gives a stdin or stdout that is a pipe or a socket as a file with deadlines. Others are given back as they are.
func polled[E any](end E) E {
	f, ok := any(end).(*os.File)
	if !ok || f.SetDeadline(time.Time{}) == nil {
		return end
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return end
	}
	again, err := reopen(f)
	if err != nil {
		return end
	}
	return any(again).(E)
}

// reopened is a file under a second descriptor that does not block.
type reopened struct{ *os.File }

func reopen(f *os.File) (*reopened, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if cerr := raw.Control(func(old uintptr) { fd, err = syscall.Dup(int(old)) }); cerr != nil || err != nil {
		return nil, errors.Join(cerr, err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &reopened{os.NewFile(uintptr(fd), f.Name())}, nil
}

// pumpedReader is a reader whose Read cannot be ended.
type pumpedReader struct {
	r       io.Reader
	in      chan []byte
	err     error // set before in is closed
	pending []byte
	closed  <-chan struct{}
}

// pump alternates between two buffers: the reader takes the next only when it has used up the one before.
func (p *pumpedReader) pump() {
	defer close(p.in)
	bufs := [2][]byte{make([]byte, 32<<10), make([]byte, 32<<10)}
	for i := 0; ; i++ {
		buf := bufs[i%2]
		n, err := p.r.Read(buf)
		if n > 0 {
			select {
			case p.in <- buf[:n]:
			case <-p.closed:
				p.err = errClosed
				return
			}
		}
		if err != nil {
			p.err = err
			return
		}
	}
}

func (p *pumpedReader) Read(b []byte) (int, error) {
	if len(p.pending) == 0 {
		select {
		case next, ok := <-p.in:
			if !ok {
				return 0, p.err
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

// pumpedWriter is a writer whose Write cannot be ended.
type pumpedWriter struct {
	w       io.Writer
	out     chan []byte
	written chan error
	closed  <-chan struct{}
}

func (p *pumpedWriter) pump() {
	for {
		select {
		case b := <-p.out:
			_, err := p.w.Write(b)
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

// Write hands b over and waits, so that b is free again when it returns, except after Close.
func (p *pumpedWriter) Write(b []byte) (int, error) {
	select {
	case p.out <- append([]byte(nil), b...):
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
