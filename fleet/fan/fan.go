// Package fan asks many hosts at once. It knows how many may be dialled at a time, how long a host may be silent, and which names are
// one machine; what is asked of each host, and how the answers look, is the caller's. cli/client calls it; it dials nothing itself.
// Start reading at [Each].
//
// # Limits
//
// An sshd drops some of many logins that come at once, and so does a jump host, so each of them sees at most eight at a time
// from us, and there are at most 64 over all. They are about dialling: whoever has connected leaves the queue, so that watches of
// any number of hosts go on side by side.
package fan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"kolu/fleet/inventory"
	"kolu/internal/fault"
)

// The usual limits.
const (
	PerDoor = 8
	Overall = 64
	Silence = 30 * time.Second
)

// resolving is how many routes are looked up at once: each is a process.
const resolving = 4

// Route is the way to a host, as far as this machine knows it before it dials.
type Route struct {
	// Doors are what sees a handshake of ours on the way: jump hosts, a proxy, the host's own sshd.
	Doors []string
	// Login is the same for two names that lead to the same user of the same machine; empty where that is not known.
	Login string
}

// Options are the limits; the zero value has the usual ones.
type Options struct {
	PerDoor, Overall int
	Silence          time.Duration // that a host may keep while it is dialled and asked
	// Route looks up the way to what ssh is given. Nil, and an error, mean that the host is a door of its own.
	Route func(ctx context.Context, target string) (Route, error)
	// Failed is told of each host that gave no answer, as soon as that is known, one at a time.
	Failed func(inventory.Host, error)
}

// Outcome is what became of one of the hosts that Each was given.
type Outcome struct {
	// Host has in Also the names of the others that turned out to be the same machine, in the order of the hosts.
	Host inventory.Host
	// Asked is the index of the host by whose name the machine was asked.
	Asked int
	// Same reports that a host before this one is the same machine and has the answer.
	Same bool
	Err  error
}

// Each calls ask for each host, in a goroutine of its own, as soon as the limits let it, and returns when all have ended, with the
// outcomes in the order of hosts. A host that is silent for too long has its context ended, and its error is a timeout. What ends
// ctx ends them all.
func Each(ctx context.Context, hosts []inventory.Host, o Options, ask func(ctx context.Context, t *Turn) error) []Outcome {
	r := &round{Options: o.withDefaults(), ask: ask, logins: map[string]*Turn{}, daemons: map[string]*Turn{}, order: orderOf(hosts)}
	r.gate = newGate(r.Overall, r.PerDoor)
	r.routes = make(chan struct{}, resolving)
	turns := make([]*Turn, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		t := &Turn{r: r, index: i, host: h, stood: make(chan struct{}), ended: make(chan struct{})}
		turns[i] = t
		r.routes <- struct{}{} // one after another, so that of two names the first mostly comes first; route gives it back
		wg.Go(func() {
			t.err = t.run(ctx)
			close(t.ended)
			if t.err != nil {
				r.failed(t)
			}
		})
	}
	wg.Wait()
	return outcomes(turns)
}

// outcomes puts the answer of a machine where the first of its names is, whichever was the fastest.
func outcomes(turns []*Turn) []Outcome {
	out := make([]Outcome, len(turns))
	seen := map[*Turn]bool{}
	for i, t := range turns {
		asked := t.root()
		out[i] = Outcome{Host: asked.Host(), Asked: asked.index, Same: seen[asked], Err: asked.err}
		seen[asked] = true
	}
	return out
}

func orderOf(hosts []inventory.Host) map[string]int {
	order := map[string]int{}
	for _, h := range hosts {
		for _, name := range h.Names() {
			if _, ok := order[name]; !ok {
				order[name] = len(order)
			}
		}
	}
	return order
}

func (o Options) withDefaults() Options {
	if o.PerDoor == 0 {
		o.PerDoor = PerDoor
	}
	if o.Overall == 0 {
		o.Overall = Overall
	}
	if o.Silence == 0 {
		o.Silence = Silence
	}
	return o
}

// round is one call of Each.
type round struct {
	Options
	ask     func(context.Context, *Turn) error
	gate    *gate
	routes  chan struct{}
	order   map[string]int // of names
	telling sync.Mutex

	mu      sync.Mutex
	logins  map[string]*Turn // who dials a login, or did
	daemons map[string]*Turn // who asks a daemon
}

func (r *round) failed(t *Turn) {
	if r.Failed == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.Failed(t.Host(), t.err)
}

// route looks a way up, and gives back the place among the resolving.
func (r *round) route(ctx context.Context, target string) Route {
	defer func() { <-r.routes }()
	own := Route{Doors: []string{target}}
	if r.Route == nil {
		return own
	}
	route, err := r.Route(ctx, target)
	if err != nil { // the dial will say it, and better
		return own
	}
	return route
}

// Turn is one host's part of an Each.
type Turn struct {
	r     *round
	index int
	host  inventory.Host
	same  *Turn
	after []*Turn       // that wait for what becomes of this one's login
	stood chan struct{} // closed when the host was reached
	ended chan struct{}
	err   error // set before ended is closed

	mu    sync.Mutex
	stage string
	pass  *pass
	clock *time.Timer
	limit time.Duration
}

// Index is the place of this turn's host among those that Each was given.
func (t *Turn) Index() int { return t.index }

// Host is the host of this turn, with all names that are known by now, in the order of the hosts.
func (t *Turn) Host() inventory.Host {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	h := t.host
	names := h.Names()
	slices.SortStableFunc(names, func(a, b string) int { return t.r.order[a] - t.r.order[b] })
	h.Name, h.Also = names[0], names[1:]
	return h
}

// Step says how far dialling is, as fleet tells it; it counts as a sign of life. Once the login stands the next one may begin.
func (t *Turn) Step(stage string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stage = stage
	if stage != "connect" && stage != "" && t.pass != nil {
		t.pass.leaveDoors()
	}
	if t.clock != nil {
		t.clock.Reset(t.limit)
	}
}

// Reached says that a daemon answers, and which one. It reports false when that daemon is asked already under another name of its
// machine: then this turn has nothing more to do. An empty identity is that of nobody else.
func (t *Turn) Reached(identity string) bool {
	t.Step("ask")
	t.mu.Lock()
	t.pass.leave()
	t.mu.Unlock()
	if other := t.r.claim(t.r.daemons, identity, t); other != nil {
		t.join(other)
		return false
	}
	t.r.mu.Lock()
	for _, f := range t.after {
		f.joinLocked(t)
	}
	t.r.mu.Unlock()
	close(t.stood)
	return true
}

// Streaming says that the rest of the turn may be silent.
func (t *Turn) Streaming() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock.Stop()
	t.clock = nil
}

// claim gives the turn that holds a key, or gives the key to t.
func (r *round) claim(held map[string]*Turn, key string, t *Turn) *Turn {
	if key == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := held[key]; other != nil && other != t {
		other.after = append(other.after, t)
		return other
	}
	held[key] = t
	return nil
}

// join makes the names of t further names of other.
func (t *Turn) join(other *Turn) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.joinLocked(other)
}

func (t *Turn) joinLocked(other *Turn) {
	t.same = other
	for _, name := range t.host.Names() {
		if !slices.Contains(other.host.Names(), name) {
			other.host.Also = append(other.host.Also[:len(other.host.Also):len(other.host.Also)], name)
		}
	}
}

func (t *Turn) run(ctx context.Context) error {
	route := t.r.route(ctx, t.host.SSH)
	for {
		other := t.r.claim(t.r.logins, route.Login, t)
		if other == nil {
			break
		}
		if done, err := t.follow(ctx, other); done {
			return err
		}
		t.r.give(route.Login, other, t)
	}
	pass, err := t.r.gate.enter(ctx, route.Doors)
	if err != nil {
		return err
	}
	defer pass.leave()
	return t.timed(ctx, pass)
}

// give hands a login whose turn ended without reaching anyone to t, unless somebody else has it by now.
func (r *round) give(login string, from, to *Turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logins[login] == from {
		r.logins[login] = to
	}
}

// follow waits for what becomes of the same login under another name. It is not done where the other name failed in a way that this
// one need not: each may have a key of its own.
func (t *Turn) follow(ctx context.Context, other *Turn) (done bool, err error) {
	select {
	case <-other.stood:
		t.join(other)
		return true, nil
	case <-other.ended:
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
	if other.hasStood() || other.err == nil { // without an error it stood, or was itself another's
		t.join(other.root())
		return true, nil
	}
	if f, ok := errors.AsType[*fault.Error](other.err); ok {
		switch f.Code {
		case fault.Unresolved, fault.Unreachable, fault.Penalised, fault.Timeout:
			return true, other.err
		}
	}
	return ctx.Err() != nil, ctx.Err()
}

func (t *Turn) hasStood() bool {
	select {
	case <-t.stood:
		return true
	default:
		return false
	}
}

func (t *Turn) root() *Turn {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	for t.same != nil {
		t = t.same
	}
	return t
}

var errSilent = errors.New("the host was silent")

// timed asks, and ends the asking when nothing came for too long.
func (t *Turn) timed(ctx context.Context, pass *pass) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t.mu.Lock()
	t.pass, t.stage, t.limit = pass, "connect", t.r.Silence
	clock := time.AfterFunc(t.limit, func() { end(errSilent) })
	t.clock = clock
	t.mu.Unlock()
	defer clock.Stop()
	err := t.r.ask(ctx, t)
	if err == nil || !errors.Is(context.Cause(ctx), errSilent) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &fault.Error{Code: fault.Timeout, Stage: t.stage, Who: fault.Host, Host: t.host.Name, Err: err,
		Detail: fmt.Sprintf("nothing came for %s (%s)", t.limit, doing(t.stage)), Remedy: "see whether `ssh " + t.host.SSH + " true` returns"}
}

func doing(stage string) string {
	switch stage {
	case "connect":
		return "while connecting"
	case "ask":
		return "while the daemon was asked"
	}
	return "at " + stage
}
