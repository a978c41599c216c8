// Package ssh is a runner on a host: it connects the way the user's own `ssh` would and runs one line per exec. Package fleet
// calls it. It knows nothing of builds, daemons or Nix.
//
// # Two transports
//
// With "master" the OpenSSH program makes the connection and we speak to its control socket in process, so everything in
// the user's ssh configuration holds: jump hosts, Match, certificates, hardware keys, GSSAPI. A live master of the user's is
// used and never stopped; else one of ours is started, which leaves after ten idle minutes. With "native"
// golang.org/x/crypto/ssh connects, told by `ssh -G` what the configuration means.
//
// Nothing here asks a question, ever: no password, no host key. Failures are *fault.Error. Start reading at [Dial].
package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"kolu/internal/fault"
)

// Kind is a transport.
type Kind string

// The transports. Auto is Master where there is an ssh program and a place for its socket, else Native.
const (
	Auto   Kind = "auto"
	Master Kind = "master"
	Native Kind = "native"
)

// Options say how to connect. The zero value is fine.
type Options struct {
	Transport Kind // empty means Auto
	// ConfigFile is the ssh configuration to use in place of the user's and the system's, as `ssh -F` takes it; empty means
	// $KOLU_SSH_CONFIG, else those.
	ConfigFile string
	Log        *slog.Logger
	// Env is the environment as os.Environ gives it, which nil means.
	Env []string
	// Notice is told each line, made printable, that ssh, a proxy or the server prints while the login goes on after it: the user may
	// have to open an address in a browser.
	Notice func(line string)
}

func (o *Options) environ() []string {
	env := o.Env
	if env == nil {
		env = os.Environ()
	}
	// No jump host may ask in a window either.
	return append(env[:len(env):len(env)], "LC_ALL=C", "SSH_ASKPASS_REQUIRE=never")
}

func (o *Options) getenv(key string) string {
	if o.Env == nil {
		return os.Getenv(key)
	}
	for i := len(o.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(o.Env[i], key+"="); ok {
			return v
		}
	}
	return ""
}

// program is the ssh program on the PATH of the options' environment.
func (o *Options) program() (string, error) {
	if o.Env == nil {
		return exec.LookPath("ssh")
	}
	for dir := range strings.SplitSeq(o.getenv("PATH"), string(os.PathListSeparator)) {
		if dir == "" || dir[0] != '/' {
			continue
		}
		if p, err := exec.LookPath(dir + "/ssh"); err == nil {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}

func (o *Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

func (o *Options) notice(line string) {
	if o.Notice != nil {
		o.Notice(line)
	}
}

// ErrDropped is wrapped by the fault when the server closed the connection before anything was settled, which a busy sshd
// does to some of many; trying again a little later is right.
var ErrDropped = errors.New("the connection was dropped before it stood")

// errLocal is wrapped by what only this machine keeps from having a master.
var errLocal = errors.New("no master can be had on this machine")

// Conn is a connection to a host. Its methods may be called concurrently.
type Conn struct {
	client   *xssh.Client
	kind     Kind
	shared   bool // a master that we found rather than made
	warnings []string
	host     string
	log      *slog.Logger

	heard   *notices      // while a native login goes on
	agent   bool          // the configuration says that the user's agent is forwarded to the host
	few     string        // of a master of ours: the mark that its server has trouble with several sessions
	first   chan *session // a session opened ahead, at most one
	closers []io.Closer   // closed in order after the client
	once    sync.Once
	work    sync.WaitGroup

	mu      sync.Mutex
	leaving map[chan struct{}]bool // one for each session whose end has not gone out yet
}

// Dial connects to a host. ctx bounds the dialling; the connection lives until Close.
func Dial(ctx context.Context, host string, o Options) (*Conn, error) {
	t, err := ParseTarget(host)
	if err != nil {
		return nil, err
	}
	c, err := o.dial(ctx, t)
	if err != nil {
		return nil, named(err, host)
	}
	c.host, c.log = host, o.log()
	return c, nil
}

func (o *Options) dial(ctx context.Context, t Target) (*Conn, error) {
	forwards := make(chan bool, 1)
	go func() { forwards <- o.forwardsAgent(ctx, t) != "" }() // ends soon: resolving is bounded
	c, err := o.dialKind(ctx, t)
	if err == nil {
		c.agent = <-forwards
	}
	return c, err
}

func (o *Options) dialKind(ctx context.Context, t Target) (*Conn, error) {
	kind := o.Transport
	_, err := o.program()
	switch {
	case kind == Master && err != nil:
		return nil, &fault.Error{Code: fault.Unreachable, Stage: "connect", Who: fault.Local, Err: err,
			Detail: "there is no ssh program on the PATH", Remedy: "install OpenSSH or leave out --ssh master"}
	case kind != "" && kind != Auto && kind != Master && kind != Native:
		return nil, &fault.Error{Code: fault.BadHost, Stage: "resolve", Who: fault.Local,
			Detail: fmt.Sprintf("unknown ssh transport %q", kind), Remedy: "use auto, master or native"}
	case kind == Native || err != nil:
		return o.dialNative(ctx, t)
	}
	c, err := o.dialMaster(ctx, t)
	if kind != Master && errors.Is(err, errLocal) {
		o.log().Info("no ssh master, connecting without one", "host", t.String(), "reason", err)
		return o.dialNative(ctx, t)
	}
	return c, err
}

// named puts the host into a fault, and makes one of any other error.
func named(err error, host string) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		f = &fault.Error{Code: fault.Unreachable, Stage: "connect", Who: fault.Host, Detail: err.Error(), Err: err}
		if errors.Is(err, context.DeadlineExceeded) {
			f.Code = fault.Timeout
		}
		if errors.Is(err, context.Canceled) {
			f.Code, f.Who, f.Detail = fault.Interrupted, fault.Local, "cancelled"
		}
	}
	f.Host = host
	f.Remedy = strings.ReplaceAll(f.Remedy, "HOST", host)
	return f
}

// Kind is the transport, Master or Native.
func (c *Conn) Kind() Kind { return c.kind }

// Shared reports that the connection goes over a master that was there before.
func (c *Conn) Shared() bool { return c.shared }

// Warnings are what the user should know about how the connection came to be.
func (c *Conn) Warnings() []string { return c.warnings }

// DialUnix opens a connection to a unix socket on the host. It fails where the server allows no forwarding, and over a master:
// when a server refuses a channel that was opened through an OpenSSH 9.2 master this way, the master later closes another
// session in its place, or loses the whole connection.
func (c *Conn) DialUnix(ctx context.Context, path string) (net.Conn, error) {
	if c.kind == Master {
		return nil, fmt.Errorf("dial %s on %s over an ssh master: %w", path, c.host, errors.ErrUnsupported)
	}
	conn, err := c.client.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("dial %s on %s: %w", path, c.host, err)
	}
	return conn, nil
}

// farewell is how long Close waits for the ends of sessions to go out. A master that has something to hand to a client which has
// gone forgets to end its sessions for it, and their commands would wait for input for ever.
const farewell = 250 * time.Millisecond

func (c *Conn) leave(ch xssh.Channel) {
	out := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving == nil {
		c.leaving = map[chan struct{}]bool{}
	}
	c.leaving[out] = true
	go func() {
		ch.Close()
		close(out)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.leaving, out)
	}()
}

func (c *Conn) farewells() {
	c.mu.Lock()
	leaving := slices.Collect(maps.Keys(c.leaving))
	c.mu.Unlock()
	late := time.After(farewell)
	for _, out := range leaving {
		select {
		case <-out:
		case <-late:
			return
		}
	}
}

// Close ends the connection and everything that was started over it. A master stays.
func (c *Conn) Close() error {
	var err error
	c.once.Do(func() {
		c.farewells()
		err = c.client.Close()
		for _, closer := range c.closers {
			closer.Close()
		}
		c.client.Wait()
		c.work.Wait()
	})
	return err
}
