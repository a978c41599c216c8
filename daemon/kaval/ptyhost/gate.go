package ptyhost

import (
	"context"
	"errors"
	"sync"
)

// gate lets steps pass while it is open. Closing it waits for those under way, so that whoever closed it sees none half done.
type gate struct {
	mu     sync.Mutex
	inside int
	shut   chan struct{} // while it is closed; closed when it opens
	empty  chan struct{} // while a close waits; closed when nobody is inside
}

// errAside says that what a step waited for came before the gate opened.
var errAside = errors.New("stepped aside")

// enter waits until the gate is open and begins a step, which leave ends. A wait also ends with ctx or, with errAside, with aside.
func (g *gate) enter(ctx context.Context, aside <-chan struct{}) error {
	for {
		g.mu.Lock()
		shut := g.shut
		if shut == nil {
			g.inside++
		}
		g.mu.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-aside:
			return errAside
		case <-ctx.Done():
			select {
			case <-aside: // it came first, maybe
				return errAside
			default:
				return ctx.Err()
			}
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// close lets nobody in any more and waits until nobody is inside. It stays closed even when ctx ends first.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
	var empty chan struct{}
	if g.inside > 0 {
		if g.empty == nil {
			g.empty = make(chan struct{})
		}
		empty = g.empty
	}
	g.mu.Unlock()
	if empty == nil {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open lets everyone in again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}
