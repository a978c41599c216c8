package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"kolu/internal/fault"
)

const (
	tcpWithin       = 10 * time.Second
	handshakeWithin = 15 * time.Second
	authWithin      = 60 * time.Second // a hardware key waits for a touch
	aliveEvery      = 15 * time.Second
	aliveWithin     = 30 * time.Second
	maxHops         = 8
)

// dialNative connects without the ssh program, as the configuration says.
func (o *Options) dialNative(ctx context.Context, t Target) (*Conn, error) {
	conf, err := o.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	c := &Conn{kind: Native, first: make(chan *session, 1), heard: o.notices()}
	defer c.heard.end()
	if err := o.connect(ctx, c, conf, nil); err != nil {
		for _, closer := range c.closers {
			closer.Close()
		}
		return nil, err
	}
	c.work.Go(c.keepAlive)
	if path := o.forwardedAgent(conf); path != "" {
		c.lendAgent(path)
	}
	return c, nil
}

// connect fills c.client with a login at the target of conf. What must be closed with it, hops included, goes to c.closers. seen are
// the jump hosts whose way leads through this target.
func (o *Options) connect(ctx context.Context, c *Conn, conf *config, seen []string) error {
	wire, err := o.wire(ctx, c, conf, seen)
	if err != nil {
		return err
	}
	client, err := o.login(ctx, c, conf, wire)
	if err != nil {
		wire.Close()
		return err
	}
	c.client = client
	return nil
}

// wire makes the byte stream to the server: through jump hosts, through a ProxyCommand, or straight.
func (o *Options) wire(ctx context.Context, c *Conn, conf *config, seen []string) (net.Conn, error) {
	addr := net.JoinHostPort(strings.Trim(conf.hostname(), "[]"), conf.port())
	if jump := conf.first("proxyjump"); jump != "" && jump != "none" {
		return o.jump(ctx, c, conf.expand(jump), addr, seen)
	}
	if command := conf.first("proxycommand"); command != "" && command != "none" {
		return o.proxy(ctx, conf, command, c.heard)
	}
	d := net.Dialer{Timeout: tcpWithin}
	wire, err := d.DialContext(ctx, "tcp", addr)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, netFault(err)
	}
	return wire, nil
}

func netFault(err error) error {
	f := &fault.Error{Code: fault.Unreachable, Stage: "connect", Who: fault.Host, Err: err, Detail: err.Error(),
		Remedy: "check that the host is up and that sshd listens there"}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		f.Code, f.Stage, f.Detail = fault.Unresolved, "resolve", "no address for the name: "+dns.Name
		f.Remedy = "check the spelling, or the Host entry in ~/.ssh/config"
		return f
	}
	for errno, text := range map[syscall.Errno]string{syscall.ECONNREFUSED: "connection refused", syscall.EHOSTUNREACH: "no route to host",
		syscall.ENETUNREACH: "network is unreachable", syscall.ETIMEDOUT: "connection timed out"} {
		if errors.Is(err, errno) {
			f.Detail = text
		}
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		f.Detail = "connection timed out"
	}
	return f
}

func atHop(err error, hop string) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return fmt.Errorf("at the hop %s: %w", hop, err)
	}
	mine := *f // it may be others' too
	f = &mine
	if f.Who != fault.Hop {
		f.Detail = fmt.Sprintf("at the hop %s: %s", hop, f.Detail)
		f.Remedy = strings.ReplaceAll(f.Remedy, "HOST", hop)
	}
	if f.Who != fault.Local {
		f.Who = fault.Hop
	}
	return f
}

// login does the handshake and the authentication on a wire.
func (o *Options) login(ctx context.Context, c *Conn, conf *config, wire net.Conn) (*xssh.Client, error) {
	keys := o.keys(ctx, conf)
	hosts := newHostKeys(conf)
	a := &attempt{wire: wire, keys: keys, hosts: hosts, conf: conf, heard: c.heard}
	defer a.watch(ctx)()
	conn, chans, reqs, err := xssh.NewClientConn(wire, net.JoinHostPort(conf.hostname(), conf.port()), a.config())
	c.warnings = append(c.warnings, slicesOf(conf.warnings, hosts.warnings, keys.warnings)...)
	if err != nil {
		keys.Close()
		return nil, o.loginFault(ctx, a, err)
	}
	c.closers = append(c.closers, keys)
	return xssh.NewClient(conn, chans, reqs), nil
}

func slicesOf(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// attempt is one login, and what is worth knowing when it fails.
type attempt struct {
	wire    net.Conn
	keys    *keyring
	hosts   *hostKeys
	conf    *config
	heard   *notices
	timer   *time.Timer
	late    atomic.Bool
	keyed   atomic.Bool // the host key was accepted
	methods []string    // that the server offers
}

// watch closes the wire when the login takes too long or ctx ends. Some wires have no deadlines, so a timer it is.
func (a *attempt) watch(ctx context.Context) (stop func()) {
	a.timer = time.AfterFunc(handshakeWithin, func() { a.late.Store(true); a.wire.Close() })
	stopCtx := context.AfterFunc(ctx, func() { a.wire.Close() })
	return func() { a.timer.Stop(); stopCtx() }
}

func (a *attempt) config() *xssh.ClientConfig {
	return &xssh.ClientConfig{
		User:              a.conf.login(),
		Auth:              []xssh.AuthMethod{xssh.PublicKeys(a.keys.signers...)},
		HostKeyAlgorithms: a.hosts.algorithms(),
		ClientVersion:     "SSH-2.0-kolu",
		BannerCallback: func(text string) error { // some servers say in it what the user has to do
			_, err := io.WriteString(a.heard, text+"\n")
			return err
		},
		HostKeyCallback: func(name string, remote net.Addr, key xssh.PublicKey) error {
			if err := a.hosts.check(name, remote, key); err != nil {
				return err
			}
			a.keyed.Store(true)
			a.timer.Reset(authWithin)
			return nil
		},
		AuthCallback: func(s *xssh.ClientAuthContext) (xssh.AuthMethod, error) {
			a.methods = s.AllowedMethods
			return nil, nil
		},
	}
}

func (o *Options) loginFault(ctx context.Context, a *attempt, err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := &fault.Error{Code: fault.Unreachable, Stage: "connect", Who: fault.Host, Err: err, Detail: fault.Printable(err.Error(), 300)}
	switch {
	case a.late.Load() && a.keyed.Load():
		f.Code, f.Stage, f.Detail = fault.Timeout, "auth", fmt.Sprintf("the login took longer than %s; a key may wait for a touch", authWithin)
	case a.late.Load():
		f.Detail, f.Remedy = "the server accepted the connection and then said nothing", "check the load of the host"
	case a.keyed.Load():
		o.refused(f, a)
	case strings.Contains(err.Error(), "Not allowed at this time"):
		f.Code, f.Detail = fault.Penalised, "the server refuses this address for a while after failed logins"
		f.Remedy = "wait some minutes; each further try makes it longer"
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		f.Err, f.Detail = errors.Join(ErrDropped, err), "dropped before the login"
		f.Remedy = "try again; the server may limit how many connections start at once"
		if p, ok := a.wire.(*proxyConn); ok {
			if text := fault.Printable(p.said.String(), 200); text != "" {
				f.Err, f.Detail, f.Remedy = err, "the ProxyCommand ended: "+text, "run the ProxyCommand by hand"
			}
		}
	}
	return f
}

// refused explains an authentication that failed.
func (o *Options) refused(f *fault.Error, a *attempt) {
	f.Code, f.Stage = fault.Auth, "auth"
	f.Detail = fmt.Sprintf("permission denied (%s), %d keys offered", strings.Join(a.methods, ","), len(a.keys.signers))
	f.Remedy = loginRemedy(f.Detail)
	switch {
	case len(a.keys.locked) > 0:
		f.Detail += "; " + a.keys.locked[0] + " is encrypted and not in an agent"
		f.Remedy = "ssh-add " + a.keys.locked[0]
	case len(a.keys.signers) > 5:
		f.Remedy = "set IdentitiesOnly and IdentityFile for HOST in ~/.ssh/config"
	case !a.keys.hasAgent && len(a.keys.signers) == 0:
		f.Detail += "; there is no agent (SSH_AUTH_SOCK is not set)"
	}
}

// keepAlive closes a connection whose server does not answer; over a master that is the master's work.
func (c *Conn) keepAlive() {
	ended := make(chan struct{})
	go func() { c.client.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			return
		case <-time.After(aliveEvery):
		}
		answered := make(chan struct{})
		go func() { c.client.SendRequest("keepalive@openssh.com", true, nil); close(answered) }() // ends with the connection
		select {
		case <-ended:
			return
		case <-answered:
		case <-time.After(aliveWithin):
			c.client.Close()
			return
		}
	}
}
