package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"kolu/internal/peer"
)

// listener hears only processes of this user, survives errors of accept, and can drop every connection at once.
type listener struct {
	*net.UnixListener
	path  string
	inode uint64
	uid   int // of those who are heard
	log   *slog.Logger

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
	paused chan struct{} // while it accepts nobody; closed when it does again
}

// listen binds a home's socket. Whoever calls it holds the gate, so a socket there that nobody listens on is a leftover and
// is removed; anything else there is refused.
func listen(path string, log *slog.Logger) (*listener, error) {
	if err := clearStale(path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", path, bareErrno(err))
	}
	ln.SetUnlinkOnClose(false)
	l := newListener(ln, path, log)
	if err = os.Chmod(path, 0o600); err == nil {
		l.inode, err = inode(path)
	}
	if err != nil {
		ln.Close()
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	return l, nil
}

func newListener(ln *net.UnixListener, path string, log *slog.Logger) *listener {
	return &listener{UnixListener: ln, path: path, uid: os.Getuid(), log: log, conns: map[*conn]struct{}{}}
}

// pause leaves who connects in the queue of the system until resume.
func (l *listener) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused == nil {
		l.paused = make(chan struct{})
		_ = l.SetDeadline(time.Unix(1, 0)) // a closed one accepts nobody anyway
	}
}

func (l *listener) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused != nil {
		_ = l.SetDeadline(time.Time{})
		close(l.paused)
		l.paused = nil
	}
}

func (l *listener) pausing() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paused
}

func clearStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("bind %s: something that is no socket is there", path)
	}
	err = probe(path)
	for pause := pollFirst; err == nil && pause < settle; pause *= 2 { // one that was killed may listen until its last thread is gone
		time.Sleep(pause)
		err = probe(path)
	}
	switch {
	case err == nil:
		return fmt.Errorf("bind %s: another process serves it and holds no gate", path)
	case !refused(err) && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("bind %s: what is there can't be judged: %w", path, err)
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func inode(path string) (uint64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return uint64(st.Ino), nil
}

// Accept gives the next connection of this user. It fails only when the listener is closed.
func (l *listener) Accept() (net.Conn, error) {
	pause := 5 * time.Millisecond
	for {
		c, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case errors.Is(err, os.ErrDeadlineExceeded):
			if paused := l.pausing(); paused != nil {
				<-paused
			}
			continue
		case err != nil:
			l.log.Warn("accept failed", "err", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		if err := l.checkPeer(c); err != nil {
			l.log.Warn("connection refused", "err", err)
			c.Close()
			continue
		}
		return l.track(c)
	}
}

func (l *listener) checkPeer(c *net.UnixConn) error {
	uid, err := peer.UID(c)
	if err == nil && uid != l.uid {
		err = fmt.Errorf("peer is user %d", uid)
	}
	return err
}

func (l *listener) track(c *net.UnixConn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return nil, net.ErrClosed
	}
	tracked := &conn{UnixConn: c, listener: l}
	l.conns[tracked] = struct{}{}
	return tracked, nil
}

// dropAll closes every connection, those that were taken over for a stream too.
func (l *listener) dropAll() {
	l.mu.Lock()
	l.closed = true
	conns := l.conns
	l.conns = map[*conn]struct{}{}
	l.mu.Unlock()
	for c := range conns {
		c.UnixConn.Close()
	}
}

// unlink removes the socket from the file system if it is still the one that was bound here.
func (l *listener) unlink() error {
	now, err := inode(l.path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && now != l.inode) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Remove(l.path)
}

// conn leaves its listener's books when it is closed.
type conn struct {
	*net.UnixConn
	listener *listener
}

// Close closes the connection.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.UnixConn.Close()
}
