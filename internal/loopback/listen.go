package loopback

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Listener listens on one port of both families.
type Listener struct {
	port      int
	listeners []net.Listener
	accepted  chan *net.TCPConn
	closed    chan struct{}
	once      sync.Once
	work      sync.WaitGroup
}

// ErrTaken says that a port cannot be listened on, in one family at least.
var ErrTaken = errors.New("the port is taken")

// tries is how many free ports are asked for until one is free in both families.
const tries = 20

// Listen listens on a port in both families, or in none: half a port would answer for some programs and not for others. Port 0
// takes a free one. A machine without one of the families is listened to on the other.
func Listen(port int) (*Listener, error) {
	if port != 0 && !Valid(port) {
		return nil, fmt.Errorf("port %d: not a port", port)
	}
	var err error
	for range tries {
		var l *Listener
		if l, err = bind(port); err == nil {
			l.start()
			return l, nil
		}
		if port != 0 || !errors.Is(err, ErrTaken) {
			break
		}
	}
	return nil, err
}

// ListenNear listens on the port if it can be had, else on a free one.
func ListenNear(port int) (*Listener, error) {
	l, err := Listen(port)
	if err == nil || !errors.Is(err, ErrTaken) {
		return l, err
	}
	return Listen(0)
}

func bind(port int) (*Listener, error) {
	l := &Listener{port: port, accepted: make(chan *net.TCPConn), closed: make(chan struct{})}
	for _, f := range families {
		one, err := net.Listen(f.network, net.JoinHostPort(f.ip, strconv.Itoa(l.port)))
		if missing(err) {
			continue
		}
		if err != nil {
			for _, open := range l.listeners {
				open.Close()
			}
			if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
				err = fmt.Errorf("%w: %s: %w", ErrTaken, net.JoinHostPort(f.ip, strconv.Itoa(l.port)), bare(err))
			}
			return nil, err
		}
		l.port = one.Addr().(*net.TCPAddr).Port
		l.listeners = append(l.listeners, one)
	}
	if len(l.listeners) == 0 {
		return nil, errors.New("this machine has no loopback")
	}
	return l, nil
}

func bare(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

func (l *Listener) start() {
	for _, one := range l.listeners {
		l.work.Go(func() {
			for {
				conn, err := one.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil {
					if !l.pause() {
						return
					}
					continue
				}
				select {
				case l.accepted <- conn.(*net.TCPConn):
				case <-l.closed:
					conn.Close()
				}
			}
		})
	}
}

// pause waits a moment after an accept that failed, as when no file descriptors are left; false when the listener is closed.
func (l *Listener) pause() bool {
	select {
	case <-time.After(50 * time.Millisecond):
		return true
	case <-l.closed:
		return false
	}
}

// Port is the port that is listened on.
func (l *Listener) Port() int { return l.port }

// Addresses are those that are listened on.
func (l *Listener) Addresses() []string {
	var all []string
	for _, one := range l.listeners {
		all = append(all, one.Addr().String())
	}
	return all
}

// Accept gives the next connection, or net.ErrClosed after Close.
func (l *Listener) Accept() (*net.TCPConn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close stops listening. It waits until nothing of the listener is left; accepted connections stay.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		for _, one := range l.listeners {
			one.Close()
		}
	})
	l.work.Wait()
	return nil
}
