// Package stdiotest has a line that a test cuts: the two ends of package stdio over pipes, made again as often as the test likes. The
// tests of both wires use it; it knows nothing of what they carry.
package stdiotest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"kolu/stdio"
)

// Line is a line to a daemon like the one to a host, and a daemon.Redialer. What is on the way when it is cut is lost, and what has
// arrived goes on over there for a while. It may be used concurrently.
type Line struct {
	far func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	mux     *stdio.Mux
	sever   func()
	number  int
	down    bool
	changed chan struct{}
	fronts  sync.WaitGroup
}

// New gives a line that stands; far dials the daemon at its other end. It ends with the test.
func New(t *testing.T, far func(context.Context) (net.Conn, error)) *Line {
	t.Helper()
	l := &Line{far: far, changed: make(chan struct{})}
	l.Mend(t)
	t.Cleanup(func() {
		l.Cut()
		l.fronts.Wait()
	})
	return l
}

// Mend makes a new line.
func (l *Line) Mend(t *testing.T) {
	t.Helper()
	toFar, toFarW := io.Pipe()
	toNear, toNearW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	l.fronts.Go(func() {
		defer cancel()
		_ = stdio.Serve(ctx, toFar, toNearW, l.far) // how it ends is the test's doing
	})
	mux, err := stdio.Client(toNear, toFarW)
	if err != nil {
		t.Error(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mux, l.down = mux, false
	l.sever = func() {
		toNear.CloseWithError(errors.New("cut"))
		toFarW.CloseWithError(io.EOF)
		mux.Close()
	}
	l.number++
	close(l.changed)
	l.changed = make(chan struct{})
}

// Cut breaks the line.
func (l *Line) Cut() {
	l.mu.Lock()
	l.down = true
	sever := l.sever
	l.mu.Unlock()
	sever()
}

// CutEvery cuts and mends the line until stop is called, which gives how often.
func (l *Line) CutEvery(t *testing.T, d time.Duration) (stop func() int) {
	quit, cuts := make(chan struct{}), 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-time.After(d):
				l.Cut()
				l.Mend(t)
				cuts++
			case <-quit:
				return
			}
		}
	})
	return sync.OnceValue(func() int { close(quit); wg.Wait(); return cuts })
}

func (l *Line) await(ctx context.Context) (*stdio.Mux, int, error) {
	for {
		l.mu.Lock()
		mux, n, down, changed := l.mux, l.number, l.down, l.changed
		l.mu.Unlock()
		if !down {
			return mux, n, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// Up waits until the line stands and gives its number.
func (l *Line) Up(ctx context.Context) (int, error) {
	_, n, err := l.await(ctx)
	return n, err
}

// Dial opens a connection to the daemon, over the next line where this one is cut. Its error is that of ctx.
func (l *Line) Dial(ctx context.Context) (net.Conn, error) {
	for {
		mux, _, err := l.await(ctx)
		if err != nil {
			return nil, err
		}
		if conn, err := mux.Dial(ctx); err == nil || ctx.Err() != nil {
			return conn, err
		}
		<-mux.Done()
		l.mu.Lock()
		l.down = l.down || l.mux == mux
		l.mu.Unlock()
	}
}
