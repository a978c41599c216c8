package front

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"kolu/internal/peer"
)

// agentLink is the path, beside the daemon's socket, where terminals find the ssh agent that a login forwards. It leads to the socket of
// the front that came last and is there as long as any front has an agent, so a terminal that is older than the login reaches the new
// one. Everything it can lead to is in the daemon's directory, which is ours alone: sshd's own sockets are in /tmp, where another user
// could put an agent of his own at the name of one that has gone.
const agentLink = "agent.sock"

// AgentSocket is where the terminals of the daemon whose socket is in dir find a forwarded agent; empty while there is none.
func AgentSocket(dir string) string {
	path := filepath.Join(dir, agentLink)
	if _, err := os.Lstat(path); err != nil {
		return ""
	}
	return path
}

// lender leads connections on a socket of its own to the agent that sshd gave this login.
type lender struct {
	dir, name string
	agent     string // sshd's socket
	listener  *net.UnixListener
	work      sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool
}

// lendAgent offers the agent of this login, if it has one, to the terminals of the daemon whose socket is in dir, until stop.
func lendAgent(dir string, getenv func(string) string) (stop func(), err error) {
	agent := getenv("SSH_AUTH_SOCK")
	if info, err := os.Stat(agent); err != nil || info.Mode().Type() != fs.ModeSocket || getenv("SSH_CONNECTION") == "" || filepath.Dir(agent) == dir {
		return func() {}, nil
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	lending(dir) // removes what was left behind
	l := &lender{dir: dir, name: fmt.Sprintf("agent-%d.sock", os.Getpid()), agent: agent, open: map[net.Conn]bool{}}
	path := filepath.Join(dir, l.name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that had our pid
		return nil, err
	}
	if l.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chmod(path, 0o600), link(l.name, filepath.Join(dir, agentLink))); err != nil {
		l.listener.Close()
		return nil, err
	}
	l.work.Go(l.serve)
	return l.stop, nil
}

// ours reports why a directory is not ours alone.
func ours(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not ours alone", dir)
	}
	return nil
}

func (l *lender) serve() {
	for {
		c, err := l.listener.AcceptUnix()
		if err != nil {
			return
		}
		if trusted(c) != nil || !l.track(c) {
			c.Close()
			continue
		}
		l.work.Go(func() {
			defer l.drop(c)
			l.lead(c)
		})
	}
}

// trusted refuses a process of another user; root can read our sockets anyway.
func trusted(c *net.UnixConn) error {
	uid, err := peer.UID(c)
	if err == nil && uid != os.Getuid() && uid != 0 {
		err = fmt.Errorf("it belongs to uid %d", uid)
	}
	return err
}

func (l *lender) lead(c *net.UnixConn) {
	agent, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: l.agent, Net: "unix"})
	if err != nil {
		return
	}
	if trusted(agent) != nil || !l.track(agent) {
		agent.Close()
		return
	}
	defer l.drop(agent)
	var both sync.WaitGroup
	both.Go(func() { io.Copy(agent, c); agent.Close() })
	both.Go(func() { io.Copy(c, agent); c.Close() })
	both.Wait()
}

// track remembers a connection, so that stop can end it; false after stop.
func (l *lender) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return false
	}
	l.open[c] = true
	return true
}

func (l *lender) drop(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// stop ends the lending. Terminals are led to another front that still lends an agent, or find nothing.
func (l *lender) stop() {
	l.listener.Close() // takes the socket away
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range open {
		c.Close()
	}
	l.work.Wait()
	shared := filepath.Join(l.dir, agentLink)
	if at, err := os.Readlink(shared); err != nil || at != l.name {
		return
	}
	if other := lending(l.dir); other == "" || link(other, shared) != nil {
		os.Remove(shared)
	}
}

// lending is the newest socket in dir behind which a front lends an agent; those that were left behind are removed.
func lending(dir string) string {
	type socket struct {
		name string
		age  int64
	}
	var live []socket
	entries, _ := os.ReadDir(dir) // none is as good as unreadable
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "agent-") || e.Type() != fs.ModeSocket {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil {
			continue
		}
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			live = append(live, socket{e.Name(), info.ModTime().UnixNano()})
		} else if errors.Is(err, syscall.ECONNREFUSED) && time.Since(info.ModTime()) > time.Minute { // else it may just begin to listen
			os.Remove(path)
		}
	}
	if len(live) == 0 {
		return ""
	}
	return slices.MaxFunc(live, func(a, b socket) int { return int(min(max(a.age-b.age, -1), 1)) }).name
}
