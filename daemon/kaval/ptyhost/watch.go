package ptyhost

import (
	"context"
	"iter"
	"time"

	"kolu/daemon/kaval"
)

// maxEvents is how many events a watcher may be behind before it is given a fresh snapshot instead.
const maxEvents = 1024

// watcher is one reader of the inventory; host.mu guards it.
type watcher struct {
	events []kaval.Event
	stale  bool // the events were dropped: begin anew with a snapshot
	ready  chan struct{}
}

// Watch yields a snapshot and then events. The inventory never waits for a watcher.
func (h *Host) Watch(ctx context.Context) iter.Seq2[kaval.Event, error] {
	return func(yield func(kaval.Event, error) bool) {
		w := &watcher{stale: true, ready: make(chan struct{}, 1)}
		moving := h.movingNow()
		h.mu.Lock()
		h.watchers[w] = struct{}{}
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			delete(h.watchers, w)
			h.mu.Unlock()
		}()
		for {
			for _, e := range h.takeEvents(w) {
				if !yield(e, nil) {
					return
				}
			}
			select {
			case <-w.ready:
			case <-h.closing:
				yield(kaval.Event{}, kaval.ErrClosing)
				return
			case <-moving:
				yield(kaval.Event{}, kaval.ErrMoving)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// takeEvents gives what a watcher has not seen.
func (h *Host) takeEvents(w *watcher) []kaval.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := w.events
	w.events = nil
	if w.stale {
		w.stale = false
		return []kaval.Event{{Kind: kaval.EventSnapshot, Terminals: h.records(), At: time.Now().UnixMilli()}}
	}
	return events
}

// publish hands an event to every watcher; h.mu is held. Once the host closes there is nothing to tell: that its terminals end
// with it must not look as if their programs had ended.
func (h *Host) publish(e kaval.Event) {
	if h.closed {
		return
	}
	for w := range h.watchers {
		if len(w.events) >= maxEvents {
			w.events, w.stale = nil, true
		}
		if !w.stale {
			w.events = append(w.events, e)
		}
		select {
		case w.ready <- struct{}{}:
		default:
		}
	}
}
