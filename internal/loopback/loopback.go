// Package loopback connects to, listens on and joins TCP ports of this machine's loopback, both families of it. The two ends of a
// forwarded port are made of it; what lies between them it does not know.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The addresses of the loopback, in the order in which they are tried.
var families = [...]struct{ network, ip string }{{"tcp4", "127.0.0.1"}, {"tcp6", "::1"}}

// dialWithin bounds one family: a loopback answers at once unless the program behind the port is stuck.
const dialWithin = 5 * time.Second

// ErrClosed says that nothing listens on the port.
var ErrClosed = errors.New("nothing listens on the port")

// Valid reports whether n is a port that can be connected to.
func Valid(n int) bool { return n > 0 && n <= 65535 }

// Dialer connects to ports and remembers which family of the loopback answered. The zero value is ready.
type Dialer struct {
	mu    sync.Mutex
	known map[int]int // the family by port
}

// maxKnown bounds what is remembered; beyond it everything is forgotten, which costs one refused connection each.
const maxKnown = 512

// Dial connects to a port on 127.0.0.1 or ::1. When nothing listens on either the error wraps ErrClosed.
func (d *Dialer) Dial(ctx context.Context, port int) (*net.TCPConn, error) {
	if !Valid(port) {
		return nil, fmt.Errorf("port %d: not a port", port)
	}
	first := d.family(port)
	var other error
	for i := range families {
		n := (first + i) % len(families)
		conn, err := dial(ctx, n, port)
		if err == nil {
			d.remember(port, n)
			return conn, nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !missing(err) && other == nil {
			other = err
		}
	}
	if other != nil {
		return nil, other
	}
	return nil, fmt.Errorf("port %d: %w (tried 127.0.0.1 and ::1)", port, ErrClosed)
}

func dial(ctx context.Context, family, port int) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	f := families[family]
	conn, err := new(net.Dialer).DialContext(ctx, f.network, net.JoinHostPort(f.ip, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// missing reports that this machine has no such family.
func missing(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EPROTONOSUPPORT) ||
		errors.Is(err, syscall.ENETUNREACH)
}

func (d *Dialer) family(port int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[port]
}

func (d *Dialer) remember(port, family int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxKnown {
		d.known = map[int]int{}
	}
	d.known[port] = family
}

// Half is a connection that can end one direction.
type Half interface {
	net.Conn
	CloseWrite() error
}

// Splice carries bytes both ways between two connections until both directions have ended, and closes both. The end of one
// direction is passed on as such. When one breaks, the other is ended at once; a TCP connection is then reset, so that a transfer
// which broke is not taken for a whole one. fromA and fromB are readers that may hold bytes read ahead; nil is the connection.
func Splice(a, b Half, fromA, fromB io.Reader) {
	defer a.Close()
	defer b.Close()
	var both sync.WaitGroup
	both.Go(func() { pass(a, b, fromB, a, b) })
	pass(b, a, fromA, a, b)
	both.Wait()
}

func pass(dst, src Half, from io.Reader, a, b Half) {
	if from == nil {
		from = src
	}
	_, err := io.Copy(dst, from)
	if err == nil && dst.CloseWrite() == nil {
		return
	}
	abort(a)
	abort(b)
}

func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
