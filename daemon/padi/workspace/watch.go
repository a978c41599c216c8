package workspace

import (
	"context"
	"iter"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// maxQueue is how many events a reader may be behind before a fresh snapshot takes their place.
const maxQueue = 256

// subscriber is one reader of the roster. The registry's lock guards it.
type subscriber struct {
	queue []padi.Event
	stale bool          // a snapshot is due, and makes what is queued worthless
	wake  chan struct{} // holds one
}

func (s *subscriber) push(ev padi.Event) {
	switch {
	case s.stale:
		return
	case len(s.queue) == maxQueue:
		s.queue, s.stale = nil, true
	default:
		s.queue = append(s.queue, ev)
	}
	s.wakeUp()
}

func (s *subscriber) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Watch yields a snapshot, right after it an Activity event with the same Seq for each terminal whose output is going on, and then what
// changes. A reader that falls far behind gets a fresh snapshot instead of what it missed; it holds up nobody.
func (w *Workspace) Watch(ctx context.Context) iter.Seq2[padi.Event, error] {
	return func(yield func(padi.Event, error) bool) {
		if err := w.ready(ctx); err != nil {
			if ctx.Err() == nil {
				yield(padi.Event{}, err)
			}
			return
		}
		s := w.reg.subscribe()
		defer w.reg.unsubscribe(s)
		for {
			for _, ev := range w.reg.pull(s) {
				if !yield(ev, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-w.done:
				yield(padi.Event{}, kaval.ErrClosing)
				return
			case <-s.wake:
			}
		}
	}
}

func (r *registry) subscribe() *subscriber {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &subscriber{stale: true, wake: make(chan struct{}, 1)}
	r.subs[s] = struct{}{}
	return s
}

func (r *registry) unsubscribe(s *subscriber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.subs, s)
}

// pull takes what a reader has not seen yet.
func (r *registry) pull(s *subscriber) []padi.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !s.stale {
		events := s.queue
		s.queue = nil
		return events
	}
	s.stale = false
	at := time.Now().UnixMilli()
	events := []padi.Event{{Kind: padi.EventSnapshot, Seq: r.seq, Records: r.recordsLocked(), At: at}}
	for _, id := range r.order {
		if r.entries[id].quiet != nil {
			events = append(events, padi.Event{Kind: padi.EventActivity, ID: id, Live: true, Seq: r.seq, At: at})
		}
	}
	return events
}
