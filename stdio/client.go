package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Mux is the near end of a link. Its methods may be called concurrently.
type Mux struct {
	link  *link
	ping  *pinger
	close sync.Once
	done  chan struct{}
}

// Client starts the near end on a wire whose preamble has been read. It takes r and w over and closes them, where they
// are io.Closers, when the link ends.
func Client(r io.Reader, w io.Writer) (*Mux, error) { return client(r, w, usual) }

func client(r io.Reader, w io.Writer, wait patience) (*Mux, error) {
	l, err := newLink(r, w, true)
	if err != nil {
		return nil, err
	}
	m := &Mux{link: l, done: make(chan struct{})}
	first, err := l.session.OpenStream()
	if err != nil {
		l.close()
		return nil, fmt.Errorf("open ping stream: %w", err)
	}
	m.ping = newPinger(l, first, wait)
	m.ping.run()
	go func() { // ends with the session
		<-l.session.CloseChan()
		l.pipe.Close()
		l.pace.close()
		close(m.done)
	}()
	return m, nil
}

// Dial opens one connection to the daemon over there. It costs no round trip: that the daemon could not be reached shows as a
// *DialError at the first Read. ctx bounds the opening alone.
func (m *Mux) Dial(ctx context.Context) (net.Conn, error) {
	type opened struct {
		conn *stream
		err  error
	}
	ch := make(chan opened, 1)
	if m.link.session.IsClosed() {
		return nil, m.lost()
	}
	if !m.link.begin(func() { // OpenStream ends with the session, not with ctx
		s, err := m.link.session.OpenStream()
		ch <- opened{newStream(s, m.link, true), err}
	}) {
		return nil, m.lost()
	}
	select {
	case o := <-ch:
		if o.err != nil {
			return nil, m.lost()
		}
		return o.conn, nil
	case <-ctx.Done():
		m.link.begin(func() {
			if o := <-ch; o.err == nil {
				o.conn.Close()
			}
		})
		return nil, fmt.Errorf("open connection over the link: %w", context.Cause(ctx))
	}
}

func (m *Mux) lost() error {
	if err := m.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrLink, err)
	}
	return ErrLink
}

// Done is closed when the link has ended.
func (m *Mux) Done() <-chan struct{} { return m.done }

// Err says why the link ended; nil while it lives, after Close, and when the far end left in order.
func (m *Mux) Err() error {
	if !m.link.session.IsClosed() {
		return nil
	}
	if err := m.link.cause(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// RTT is the last measured round trip, zero before the first.
func (m *Mux) RTT() time.Duration { return m.ping.rtt() }

// Bytes counts what was sent and received since the banner.
func (m *Mux) Bytes() (sent, received int64) {
	return m.link.pipe.wrote.Load(), m.link.pipe.read.Load()
}

// Close ends the link and every connection on it, and waits for its goroutines.
func (m *Mux) Close() error {
	m.close.Do(func() {
		m.link.fail(errClosed)
		m.link.close()
		<-m.done
	})
	return nil
}
