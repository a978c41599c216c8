package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"kolu/internal/fault"
)

// hops are the logins at jump hosts of this process. All native connections through one jump host share one.
var hops = hopPool{open: map[string]*hop{}}

type hopPool struct {
	mu   sync.Mutex
	open map[string]*hop
}

// hop is a login at a jump host, or one that is being made.
type hop struct {
	pool  *hopPool
	key   string
	name  string
	ready chan struct{} // closed when conn or err is there
	conn  *Conn
	err   error
	stop  context.CancelFunc
	users int // guarded by the pool
}

// take gives the login with a key, which dial makes if there is none; everybody who asks meanwhile has the same one, or the same error.
// Whoever took it gives it back.
func (p *hopPool) take(ctx context.Context, key, name string, dial func(context.Context) (*Conn, error)) (*hop, error) {
	p.mu.Lock()
	h := p.open[key]
	if h == nil {
		dialling, stop := context.WithCancel(context.WithoutCancel(ctx)) // it may be wanted when this caller's time is over
		h = &hop{pool: p, key: key, name: name, ready: make(chan struct{}), stop: stop}
		p.open[key] = h
		go h.run(dialling, dial) // ends with the login
	}
	h.users++
	p.mu.Unlock()
	select {
	case <-h.ready:
	case <-ctx.Done():
		h.give()
		return nil, context.Cause(ctx)
	}
	if h.err != nil {
		h.give()
		return nil, h.err
	}
	return h, nil
}

func (h *hop) run(ctx context.Context, dial func(context.Context) (*Conn, error)) {
	h.conn, h.err = dial(ctx)
	if h.err != nil {
		h.leavePool()
	}
	close(h.ready)
	if h.err == nil {
		h.conn.client.Wait()
		h.leavePool()
	}
}

func (h *hop) leavePool() {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	if h.pool.open[h.key] == h {
		delete(h.pool.open, h.key)
	}
}

// give ends the login when nobody has it any more.
func (h *hop) give() {
	h.pool.mu.Lock()
	h.users--
	last := h.users == 0
	if last && h.pool.open[h.key] == h {
		delete(h.pool.open, h.key)
	}
	h.pool.mu.Unlock()
	if !last {
		return
	}
	h.stop()
	<-h.ready
	if h.err == nil {
		h.conn.Close()
	}
}

// through connects from the jump host to addr. A login whose line does not answer is not handed out again.
func (h *hop) through(ctx context.Context, addr string) (net.Conn, error) {
	within, cancel := context.WithTimeout(ctx, tcpWithin)
	defer cancel()
	wire, err := h.conn.client.DialContext(within, "tcp", addr)
	if err == nil {
		return wire, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) && !h.conn.answers(2*time.Second) {
		h.leavePool()
		return nil, atHop(&fault.Error{Code: fault.Unreachable, Stage: "connect", Who: fault.Hop, Err: err, Detail: "it does not answer any more",
			Remedy: "see whether `ssh HOST true` returns"}, h.name)
	}
	return nil, &fault.Error{Code: fault.Unreachable, Stage: "connect", Who: fault.Host, Err: err,
		Detail: fmt.Sprintf("the jump host %s cannot reach it: %s", h.name, fault.Printable(err.Error(), 200)),
		Remedy: "check that the host is up and that the jump host may reach it"}
}

// answers reports whether the server says anything to a question within a time.
func (c *Conn) answers(within time.Duration) bool {
	answered := make(chan error, 1)
	go func() { // ends with the connection
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		return err == nil
	case <-time.After(within):
		return false
	}
}

// closeFunc is a function as an io.Closer.
type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }

// jump connects to addr from the last hop of a ProxyJump list. What must be closed with it goes to c.closers.
func (o *Options) jump(ctx context.Context, c *Conn, list, addr string, seen []string) (net.Conn, error) {
	h, err := o.hop(ctx, strings.Split(list, ","), seen)
	if err != nil {
		return nil, err
	}
	c.closers = append([]io.Closer{closeFunc(h.give)}, c.closers...)
	c.warnings = append(c.warnings, h.conn.warnings...)
	return h.through(ctx, addr)
}

// hop gives a login at the last of a list of jump hosts, each of which is reached through those before it.
func (o *Options) hop(ctx context.Context, list, seen []string) (*hop, error) {
	name := strings.TrimSpace(list[len(list)-1])
	t, err := hopTarget(name)
	if err != nil {
		return nil, atHop(err, name)
	}
	before := list[:len(list)-1]
	key := o.hopKey(t, before)
	if slices.Contains(seen, key) || len(seen)+len(list) > maxHops {
		return nil, tooManyHops()
	}
	seen = append(seen[:len(seen):len(seen)], key)
	h, err := hops.take(ctx, key, name, func(ctx context.Context) (*Conn, error) { return o.dialHop(ctx, t, before, seen) })
	if err != nil {
		return nil, atHop(err, name)
	}
	return h, nil
}

// hopKey is the same for what leads to the same jump host by the same means.
func (o *Options) hopKey(t Target, before []string) string {
	return fmt.Sprintf("%s %q %q", o.wayTo(t, before...), o.getenv("HOME"), o.getenv("SSH_AUTH_SOCK"))
}

func (o *Options) dialHop(ctx context.Context, t Target, before, seen []string) (*Conn, error) {
	conf, err := o.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	if len(before) > 0 {
		conf.values["proxyjump"] = []string{strings.Join(before, ",")}
	}
	c := &Conn{kind: Native, heard: o.notices()}
	defer c.heard.end()
	if err := o.connect(ctx, c, conf, seen); err != nil {
		for _, closer := range c.closers {
			closer.Close()
		}
		return nil, err
	}
	c.work.Go(c.keepAlive)
	return c, nil
}
