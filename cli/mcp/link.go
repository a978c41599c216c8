package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"

	"kolu/internal/fault"
)

// link is the one connection that all calls share. It dials when a call needs it and forgets a connection that broke.
type link struct {
	dial func(ctx context.Context) (Conn, error)
	turn chan struct{} // held by the one caller that may dial

	mu     sync.Mutex
	conn   Conn
	closed bool
}

func newLink(dial func(ctx context.Context) (Conn, error)) *link {
	return &link{dial: dial, turn: make(chan struct{}, 1)}
}

// lostError says that the connection broke under a call.
type lostError struct{ err error }

func (e *lostError) Error() string {
	return fmt.Sprintf("the connection to padi broke during this call, so whether it took effect is not known: %v. "+
		"kolu mcp goes on; the next call connects again", e.err)
}
func (e *lostError) Unwrap() error { return e.err }

// use runs fn with the connection. A connection that broke under fn is dropped; what padi answered never drops it.
func (l *link) use(ctx context.Context, fn func(context.Context, Conn) error) error {
	conn, err := l.get(ctx)
	if err != nil {
		return err
	}
	err = fn(ctx, conn)
	if err != nil && ctx.Err() == nil && broken(err) {
		l.drop(conn)
		return &lostError{err}
	}
	return err
}

func (l *link) get(ctx context.Context) (Conn, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	l.mu.Lock()
	conn, closed := l.conn, l.closed
	l.mu.Unlock()
	if closed {
		return nil, errors.New("kolu mcp is ending")
	}
	if conn != nil {
		return conn, nil
	}
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close() // nobody is left to use it
		return nil, errors.New("kolu mcp is ending")
	}
	l.conn = conn
	return conn, nil
}

func (l *link) drop(conn Conn) {
	l.mu.Lock()
	if l.conn == conn {
		l.conn = nil
	}
	l.mu.Unlock()
	_ = conn.Close() // it is broken already
}

func (l *link) close() {
	l.mu.Lock()
	conn := l.conn
	l.conn, l.closed = nil, true
	l.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // the process ends with it
	}
}

// broken reports whether an error is about the connection rather than an answer that came over it.
func broken(err error) bool {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
