package fan

import (
	"context"
	"slices"
	"sync"
)

// gate lets a number of dials go on at once, over all and through each door. Who waits goes in order of coming, except that nobody
// waits behind one whose door is full.
type gate struct {
	overall, perDoor int

	mu    sync.Mutex
	busy  int
	doors map[string]int
	queue []*pass
}

// pass is a place in the gate.
type pass struct {
	g       *gate
	doors   []string
	in      chan struct{} // closed when it was let in
	inside  bool
	through bool // the doors are taken
}

func newGate(overall, perDoor int) *gate {
	return &gate{overall: overall, perDoor: perDoor, doors: map[string]int{}}
}

// enter waits for a place. The pass is left in two steps, or in one.
func (g *gate) enter(ctx context.Context, doors []string) (*pass, error) {
	doors = slices.Compact(slices.Sorted(slices.Values(doors)))
	p := &pass{g: g, doors: doors, in: make(chan struct{})}
	g.mu.Lock()
	g.queue = append(g.queue, p)
	g.admit()
	g.mu.Unlock()
	select {
	case <-p.in:
		return p, nil
	case <-ctx.Done():
		p.leave()
		return nil, context.Cause(ctx)
	}
}

// admit lets in who fits. The caller holds the lock.
func (g *gate) admit() {
	g.queue = slices.DeleteFunc(g.queue, func(p *pass) bool {
		if g.busy >= g.overall || slices.ContainsFunc(p.doors, func(d string) bool { return g.doors[d] >= g.perDoor }) {
			return false
		}
		g.busy++
		for _, d := range p.doors {
			g.doors[d]++
		}
		p.inside, p.through = true, true
		close(p.in)
		return true
	})
}

// leaveDoors says that the handshakes are over.
func (p *pass) leaveDoors() {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.closeDoors()
	p.g.admit()
}

// leave gives the place back; it may be called again.
func (p *pass) leave() {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.closeDoors()
	if p.inside {
		p.inside = false
		p.g.busy--
	} else {
		p.g.queue = slices.DeleteFunc(p.g.queue, func(q *pass) bool { return q == p })
	}
	p.g.admit()
}

func (p *pass) closeDoors() {
	if !p.through {
		return
	}
	p.through = false
	for _, d := range p.doors {
		if p.g.doors[d]--; p.g.doors[d] == 0 {
			delete(p.g.doors, d)
		}
	}
}
