package kolucmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/paditui"
	"kolu/daemon/padi"
	"kolu/internal/loopback"
)

// newForward carries ports of a host here.
func newForward(env *cli.Env, f *paditui.Face, connect paditui.Connect) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "forward HOST PORT[:LOCALPORT]...",
		Short: "Carry ports of a host's loopback to this machine, until interrupted",
		Long: `Carry ports of a host's loopback to this machine, until interrupted. A program on the host that listens on 127.0.0.1 or ::1 is then
reached at the same address here. The bytes go through the host's padi, so sshd need not allow forwarding.

Without LOCALPORT the local port has the same number where that is free, else another; what it is is printed, one line a port. It
is listened on for this machine only. Nothing need listen on the host yet.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ep, words, err := forwardTarget(f, cmd, args)
			if err != nil {
				return err
			}
			wanted, err := parsePorts(words)
			if err != nil {
				return err
			}
			c, err := connect(cmd.Context(), env, ep)
			if err != nil {
				return err
			}
			defer c.Close()
			far, ok := c.Workspace.(padi.Forwarder)
			if !ok {
				return padi.ErrNoForward
			}
			run := &forwarding{env: env, host: ep.Host, far: far, json: asJSON, slots: make(chan struct{}, forwardsAtOnce)}
			return run.run(cmd.Context(), wanted)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a port")
	return cmd
}

// forwardTarget tells the host from the ports: the host is the first argument, or what --host says.
func forwardTarget(f *paditui.Face, cmd *cobra.Command, args []string) (client.Endpoint, []string, error) {
	ep, err := f.Endpoint()
	if err != nil && !strings.HasPrefix(err.Error(), "--ssh is only") {
		return ep, nil, err
	}
	if !ep.Remote() {
		if ep.Socket != "" || ep.StateRoot != "" {
			return ep, nil, errors.New("forward is for a host; --socket and --state-root name a daemon of this machine")
		}
		if strings.HasPrefix(args[0], "-") || strings.TrimSpace(args[0]) == "" {
			return ep, nil, fmt.Errorf("%q is no host", args[0])
		}
		ep.Host, args = args[0], args[1:]
		if ssh := cmd.Flag("ssh"); ssh != nil {
			ep.SSH = ssh.Value.String()
		}
	}
	if len(args) == 0 {
		return ep, nil, fmt.Errorf("which port? `kolu forward %s 8080`", ep.Host)
	}
	return ep, args, nil
}

// forwardPort is one port to carry; local is 0 where any will do.
type forwardPort struct{ remote, local int }

func parsePorts(words []string) ([]forwardPort, error) {
	var ports []forwardPort
	taken := map[int]string{}
	for _, word := range words {
		remote, local, both := strings.Cut(word, ":")
		p := forwardPort{}
		var err error
		if p.remote, err = parsePort(word, remote); err != nil {
			return nil, err
		}
		if both {
			if p.local, err = parsePort(word, local); err != nil {
				return nil, err
			}
			if other, ok := taken[p.local]; ok {
				return nil, fmt.Errorf("%s and %s both want port %d here", other, word, p.local)
			}
			taken[p.local] = word
		}
		ports = append(ports, p)
	}
	return ports, nil
}

func parsePort(word, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || !loopback.Valid(n) || text[0] == '+' {
		return 0, fmt.Errorf("%q: a port is a number from 1 to 65535, with :LOCALPORT behind it for another one here", word)
	}
	return n, nil
}

const (
	// forwardsAtOnce is how many connections one command carries at once; more wait to be accepted.
	forwardsAtOnce = 256
	// complainEvery is how often one port may say what goes wrong.
	complainEvery = time.Second
)

// forwarding is one run of the verb.
type forwarding struct {
	env   *cli.Env
	host  string
	far   padi.Forwarder
	json  bool
	slots chan struct{}
	loops loops
}

// carried is one port with its listener here.
type carried struct {
	forwardPort
	listener *loopback.Listener

	mu   sync.Mutex
	said time.Time
}

func (f *forwarding) run(ctx context.Context, wanted []forwardPort) error {
	var ports []*carried
	defer func() {
		for _, p := range ports {
			p.listener.Close()
		}
	}()
	for _, w := range wanted {
		p, err := f.listen(w)
		if err != nil {
			return err
		}
		ports = append(ports, p)
	}
	for _, p := range ports {
		if err := f.print(p); err != nil {
			return err
		}
	}
	return f.carry(ctx, ports)
}

func (f *forwarding) listen(w forwardPort) (*carried, error) {
	var l *loopback.Listener
	var err error
	if w.local != 0 {
		l, err = loopback.Listen(w.local)
	} else {
		l, err = loopback.ListenNear(w.remote)
	}
	if errors.Is(err, loopback.ErrTaken) && w.local != 0 {
		return nil, fmt.Errorf("%w — leave out :%d for a free one", err, w.local)
	}
	if err != nil {
		return nil, err
	}
	return &carried{forwardPort: w, listener: l}, nil
}

type forwardLine struct {
	Host      string   `json:"host"`
	Port      int      `json:"port"`
	LocalPort int      `json:"localPort"`
	Addresses []string `json:"addresses"`
}

func (f *forwarding) print(p *carried) error {
	if f.json {
		return cli.JSON(f.env.Stdout, forwardLine{f.host, p.remote, p.listener.Port(), p.listener.Addresses()})
	}
	_, err := fmt.Fprintf(f.env.Stdout, "localhost:%d -> %s:%d\n", p.listener.Port(), cli.Clean(f.host), p.remote)
	return err
}

// carry carries connections until ctx ends, which is success, or the line to padi is lost for good.
func (f *forwarding) carry(ctx context.Context, ports []*carried) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var work sync.WaitGroup
	defer work.Wait()
	for _, p := range ports {
		work.Go(func() { f.accept(ctx, p, &work, end) })
	}
	<-ctx.Done()
	for _, p := range ports {
		p.listener.Close()
	}
	if lost, ok := errors.AsType[*lineLost](context.Cause(ctx)); ok {
		return lost.error
	}
	return nil // whoever asked has stopped
}

// lineLost ends the command.
type lineLost struct{ error }

func (f *forwarding) accept(ctx context.Context, p *carried, work *sync.WaitGroup, end context.CancelCauseFunc) {
	for {
		select {
		case f.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		work.Go(func() {
			defer func() { <-f.slots }()
			if err := f.connection(ctx, p, conn); err != nil {
				end(&lineLost{err})
			}
		})
	}
}

// connection carries one. Its error is one that all further connections would have too.
func (f *forwarding) connection(ctx context.Context, p *carried, near *net.TCPConn) error {
	came := near.RemoteAddr().String()
	looped := f.loops.near(came)
	defer f.loops.gone(came)
	began := time.Now()
	conn, err := f.far.Forward(ctx, p.remote)
	if err == nil {
		left := conn.LocalAddr().String()
		looped = f.loops.far(left, began) || looped
		defer f.loops.gone(left)
	}
	if looped {
		near.Close()
		if err == nil {
			conn.Close()
		}
		return fmt.Errorf("port %d of %s is one that this command listens on itself: %s is this machine — name another port here, as %d:%d",
			p.remote, f.host, f.host, p.remote, p.remote%60000+1024)
	}
	if err != nil {
		near.SetLinger(0)  // refused here as it was there
		defer near.Close() // whoever sees it end can read why
		return f.judge(ctx, p, err)
	}
	far, ok := conn.(loopback.Half)
	if !ok {
		conn.Close()
		near.Close()
		return errors.New("the connection to padi has no half-close")
	}
	stop := context.AfterFunc(ctx, func() {
		near.Close()
		far.Close()
	})
	defer stop()
	loopback.Splice(near, far, nil, nil)
	return nil
}

// judge says what befell one connection, at most once a second, and returns what ends the command.
func (f *forwarding) judge(ctx context.Context, p *carried, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, padi.ErrPortClosed):
		p.complain(func() {
			f.env.Errorf("%s: connection refused: nothing listens on port %d there", cli.Clean(f.host), p.remote)
		})
		return nil
	case padi.Code(err) != "internal" && !errors.Is(err, padi.ErrNoForward):
		p.complain(func() { f.env.Errorf("%s: port %d: %v", cli.Clean(f.host), p.remote, err) })
		return nil
	}
	return f.explain(p, err)
}

func (f *forwarding) explain(p *carried, err error) error {
	if errors.Is(err, padi.ErrNoForward) {
		return fmt.Errorf("the padi on %s is of a build that forwards no ports — it is left alone; it ends with its terminals, and a newer one starts", f.host)
	}
	return fmt.Errorf("forward port %d of %s: %w", p.remote, f.host, err)
}

func (p *carried) complain(say func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.said) >= complainEvery {
		p.said = now
		say()
	}
}

// loops finds out that a port over there is a listener of this very command, as when the host is this machine: then a connection that
// padi makes arrives here from the address that padi made it from. Another machine's address may be the same by chance, which takes
// two in a row to be believed.
type loops struct {
	mu    sync.Mutex
	nears map[string]time.Time // when a connection from that address came
	fars  map[string]time.Time // when padi had made one from there
	last  time.Time
}

const (
	// madeLately is how long after padi's answer its own connection may be accepted here.
	madeLately = time.Second
	// inARow is how close two matches are that are no chance.
	inARow = time.Second
)

// near notes a connection that came from an address, and reports whether padi is known to have made it.
func (l *loops) near(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nears == nil {
		l.nears, l.fars = map[string]time.Time{}, map[string]time.Time{}
	}
	l.nears[from] = time.Now()
	made, known := l.fars[from]
	return known && time.Since(made) < madeLately && l.match()
}

// far notes a connection that padi made from an address since began, and reports whether it came here.
func (l *loops) far(from string, began time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fars[from] = time.Now()
	came, known := l.nears[from]
	return known && !came.Before(began) && l.match()
}

func (l *loops) match() bool {
	again := time.Since(l.last) < inARow
	l.last = time.Now()
	return again
}

func (l *loops) gone(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.nears, address)
	delete(l.fars, address)
}
