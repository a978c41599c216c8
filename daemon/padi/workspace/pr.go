package workspace

import (
	"context"
	"sync"
	"time"

	"kolu/daemon/padi"
)

const (
	// prEvery is how often a pull request is asked for, prIdle how often at most once nothing moves there.
	prEvery = 30 * time.Second
	prIdle  = 5 * time.Minute
	// prLimit bounds one question, prAtOnce how many are under way.
	prLimit  = 15 * time.Second
	prAtOnce = 4
	// prKeep is how long what is known of a branch that no terminal is on is kept at least.
	prKeep = time.Minute
)

// Forge tells of pull requests; forge.GitHub is one.
type Forge interface {
	// Supports reports whether a remote is the forge's. It is quick.
	Supports(remote string) bool
	// PullRequest finds that of a branch. What went wrong is in the answer.
	PullRequest(ctx context.Context, remote, branch string) padi.PR
}

// prKey is what a pull request belongs to. Terminals on the same branch share one.
type prKey struct{ remote, branch string }

// prAsk is what is known of one, and when to ask again.
type prAsk struct {
	pr    padi.PR
	born  time.Time
	next  time.Time
	pause time.Duration
	busy  bool
}

// prSensor keeps the pull requests of the records true. The registry's lock may be held when its own is taken, never the other way round.
type prSensor struct {
	forge Forge // nil where none is asked
	kick  chan struct{}
	mu    sync.Mutex
	asks  map[prKey]*prAsk
}

func newPRSensor(forge Forge) *prSensor {
	return &prSensor{forge: forge, kick: make(chan struct{}, 1), asks: map[prKey]*prAsk{}}
}

// keyOf is what the pull request of a checkout belongs to; ok reports that it can have one.
func keyOf(git *padi.Git) (key prKey, ok bool) {
	if git == nil || git.RemoteURL == "" || git.Branch == "" || git.Branch == "HEAD" {
		return prKey{}, false
	}
	return prKey{git.RemoteURL, git.Branch}, true
}

// of is the pull request of a checkout as far as it is known; one that was not asked for yet is pending, and asked for. It never blocks.
func (s *prSensor) of(git *padi.Git) padi.PR {
	if s.forge == nil || git == nil || !s.forge.Supports(git.RemoteURL) {
		return padi.PR{Kind: "unsupported"}
	}
	key, ok := keyOf(git)
	if !ok {
		return padi.PR{Kind: "absent"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ask := s.asks[key]
	if ask == nil {
		now := time.Now()
		ask = &prAsk{pr: padi.PR{Kind: "pending"}, born: now, next: now, pause: prEvery}
		s.asks[key] = ask
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
	return ask.pr
}

// run asks until ctx ends. live gives what the terminals are on, told is given each answer.
func (s *prSensor) run(ctx context.Context, live func() map[prKey]bool, told func(prKey, padi.PR)) {
	if s.forge == nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, prAtOnce)
	for {
		s.prune(live())
		due, wait := s.due()
		for _, key := range due {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				s.ask(ctx, key, told)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-time.After(wait):
		}
	}
}

// prune forgets what no terminal is on. What is new stays: the terminal it is for may not show it yet.
func (s *prSensor) prune(live map[prKey]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, ask := range s.asks {
		if !live[key] && !ask.busy && time.Since(ask.born) > prKeep {
			delete(s.asks, key)
		}
	}
}

// due takes what is to be asked now, and gives the time until there is more.
func (s *prSensor) due() (keys []prKey, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = prIdle
	for key, ask := range s.asks {
		left := time.Until(ask.next)
		switch {
		case ask.busy:
		case left <= 0:
			ask.busy = true
			keys = append(keys, key)
		default:
			wait = min(wait, left)
		}
	}
	return keys, wait
}

func (s *prSensor) ask(ctx context.Context, key prKey, told func(prKey, padi.PR)) {
	limited, cancel := context.WithTimeout(ctx, prLimit)
	defer cancel()
	pr := s.forge.PullRequest(limited, key.remote, key.branch)
	if ctx.Err() != nil {
		return
	}
	s.answered(key, pr)
	told(key, pr)
	select {
	case s.kick <- struct{}{}: // the next time to wait for has changed
	default:
	}
}

// answered asks again soon while something moves, and ever later while nothing does.
func (s *prSensor) answered(key prKey, pr padi.PR) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ask := s.asks[key]
	if ask == nil {
		return
	}
	if samePR(ask.pr, pr) && pr.Checks != "pending" {
		ask.pause = min(2*ask.pause, prIdle)
	} else {
		ask.pause = prEvery
	}
	ask.pr, ask.busy, ask.next = pr, false, time.Now().Add(ask.pause)
}

func samePR(a, b padi.PR) bool {
	return a.Kind == b.Kind && a.Code == b.Code && a.Number == b.Number && a.State == b.State && a.Checks == b.Checks && a.Title == b.Title
}

// prKeys are what the pull requests of running terminals belong to.
func (r *registry) prKeys() map[prKey]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := map[prKey]bool{}
	for _, e := range r.entries {
		if key, ok := keyOf(e.rec.Git); ok && e.rec.State == padi.Active {
			keys[key] = true
		}
	}
	return keys
}

// prSeen folds an answer into the terminals that are on that branch now.
func (r *registry) prSeen(key prKey, pr padi.PR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.order {
		e := r.entries[id]
		if on, ok := keyOf(e.rec.Git); !ok || on != key || e.rec.State != padi.Active {
			continue
		}
		before := e.rec
		e.rec.PR = pr
		r.publishChange(e, before)
	}
}
