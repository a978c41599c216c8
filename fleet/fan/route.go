package fan

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"

	"kolu/fleet/ssh"
)

// hops bounds how many jump hosts before jump hosts are looked at.
const hops = 4

// SSH looks routes up in the ssh configuration that an environment means, as os.Environ gives it.
func SSH(environ []string) func(ctx context.Context, target string) (Route, error) {
	o := ssh.Options{Env: environ}
	r := &resolver{
		resolve: func(ctx context.Context, target string) (ssh.Resolved, error) { return ssh.Resolve(ctx, target, o) },
		known:   map[string]*lookup{},
	}
	r.self, _ = os.Hostname() // without it, it is one more door
	return func(ctx context.Context, target string) (Route, error) { return r.route(ctx, target, hops) }
}

// resolver keeps what it was told, since many hosts have the same jump host.
type resolver struct {
	resolve func(ctx context.Context, target string) (ssh.Resolved, error)
	self    string // this machine's name

	mu    sync.Mutex
	known map[string]*lookup
}

type lookup struct {
	done chan struct{}
	res  ssh.Resolved
	err  error
}

// look is what is known of a target, or is being looked up for another one, or else is looked up.
func (r *resolver) look(ctx context.Context, target string) (ssh.Resolved, error) {
	r.mu.Lock()
	l, ok := r.known[target]
	if !ok {
		l = &lookup{done: make(chan struct{})}
		r.known[target] = l
	}
	r.mu.Unlock()
	if !ok {
		l.res, l.err = r.resolve(ctx, target)
		close(l.done)
		return l.res, l.err
	}
	select {
	case <-l.done:
		return l.res, l.err
	case <-ctx.Done():
		return ssh.Resolved{}, context.Cause(ctx)
	}
}

func (r *resolver) route(ctx context.Context, target string, depth int) (Route, error) {
	res, err := r.look(ctx, target)
	if err != nil {
		return Route{}, err
	}
	own := strings.ToLower(net.JoinHostPort(loopback(res.HostName), res.Port))
	before := ""
	var route Route
	switch {
	case res.Jump != "":
		before = res.Jump + " "
		route.Doors = r.jumps(ctx, res.Jump, depth)
	case res.Proxy != "":
		route.Doors = []string{"command " + res.Proxy}
	}
	// The same address behind another jump host is another machine's.
	route.Doors = append(route.Doors, before+r.door(own, res.Port))
	route.Login = strings.Join([]string{res.User, own, res.Jump, res.Proxy}, "\x00")
	if byName(res.Jump) || byName(res.Proxy) {
		route.Login = ""
	}
	return route, nil
}

// loopback is one word for the usual spellings of this machine's own address, and any other name as it is.
func loopback(name string) string {
	switch strings.ToLower(strings.Trim(name, "[]")) {
	case "localhost", "127.0.0.1", "::1", "localhost.localdomain", "ip6-localhost":
		return "localhost"
	}
	return name
}

// door is what sees the handshakes of an address: this machine's own name is its loopback's sshd. Whether it is the same login is not
// known, since the name may be another machine's by now; the daemon tells.
func (r *resolver) door(own, port string) string {
	if self := net.JoinHostPort(strings.ToLower(r.self), port); r.self != "" && own == self {
		return net.JoinHostPort("localhost", port)
	}
	return own
}

// byName reports whether a proxy depends on the name that the user typed, so that another name may lead elsewhere.
func byName(proxy string) bool {
	return strings.Contains(proxy, "%n") || strings.Contains(proxy, "%k")
}

// jumps are the doors of jump hosts: of each itself, and of those before the first.
func (r *resolver) jumps(ctx context.Context, list string, depth int) []string {
	var doors []string
	for i, hop := range strings.Split(list, ",") {
		hop = asTarget(strings.TrimSpace(hop))
		if depth == 0 {
			return append(doors, hop)
		}
		route, err := r.route(ctx, hop, depth-1)
		switch {
		case err != nil:
			doors = append(doors, hop)
		case i == 0:
			doors = append(doors, route.Doors...)
		default:
			doors = append(doors, route.Doors[len(route.Doors)-1])
		}
	}
	return doors
}

// asTarget writes a jump host, user@name:port, as a host argument.
func asTarget(hop string) string {
	if _, err := ssh.ParseTarget(hop); err == nil || strings.HasPrefix(hop, "ssh://") {
		return hop
	}
	return "ssh://" + hop
}
