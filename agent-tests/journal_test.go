package agenttests

import (
	"context"
	"sync"
	"testing"
	"time"

	"kolu/agent-tests/agentstub"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/workspace"
)

// limit is how long anything may take on a loaded machine.
const limit = 90 * time.Second

func runWorkspace(t *testing.T, w *workspace.Workspace) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { // ends with the cleanup below
		defer close(done)
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// entry is what a record said at one time.
type entry struct {
	at  time.Time
	rec padi.Record
}

// journal is every record that the workspace published.
type journal struct {
	mu      sync.Mutex
	entries []entry
	more    chan struct{} // closed and replaced with each entry
}

func follow(t *testing.T, w *workspace.Workspace) *journal {
	j := &journal{more: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { // ends with the cleanup below
		defer close(done)
		for ev, err := range w.Watch(ctx) {
			if err != nil {
				return
			}
			if ev.Record != nil {
				j.add(*ev.Record)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return j
}

func (j *journal) add(r padi.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry{time.Now(), r})
	close(j.more)
	j.more = make(chan struct{})
}

// after are the entries from the nth on, their count, and what tells of more.
func (j *journal) after(n int) ([]entry, int, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entries[n:], len(j.entries), j.more
}

// terminal is one with an agent in it.
type terminal struct {
	*world
	id padi.TerminalID
}

// mark is a place in the journal.
func (e terminal) mark() int {
	_, n, _ := e.log.after(0)
	return n
}

// until waits for a record from a mark on, or for the record that holds now, and gives it with its time.
func (e terminal) until(mark int, what string, ok func(padi.Record) bool) entry {
	e.t.Helper()
	deadline := time.After(limit)
	seen := mark
	if mark < 0 {
		seen = e.mark()
		if r, err := e.w.Terminal(e.t.Context(), e.id); err == nil && ok(r) {
			return entry{time.Now(), r}
		}
	}
	for {
		entries, n, more := e.log.after(seen)
		for _, en := range entries {
			if en.rec.ID == e.id && ok(en.rec) {
				return en
			}
		}
		seen = n
		select {
		case <-more:
		case <-deadline:
			e.fail("never: " + what)
		}
	}
}

// fail says what the terminal shows and what its agent is said to do.
func (e terminal) fail(what string) {
	e.t.Helper()
	screen, _ := e.w.Screen(e.t.Context(), e.id, kaval.ScreenRequest{})
	x, _ := e.w.Explain(e.t.Context(), e.id)
	e.t.Fatalf("%s\nagent %+v\nevidence %+v\nscreen:\n%s", what, x.Agent, x.Evidence, screen.Text)
}

func in(bucket padi.Bucket) func(padi.Record) bool {
	return func(r padi.Record) bool { return r.Agent != nil && r.Agent.State.Bucket() == bucket }
}

// never fails if the terminal's agent was in a bucket between a mark and now.
func (e terminal) never(mark int, bucket padi.Bucket, what string) {
	e.t.Helper()
	entries, _, _ := e.log.after(mark)
	for _, en := range entries {
		if en.rec.ID == e.id && in(bucket)(en.rec) {
			e.t.Errorf("%s, and it was said to be %s, by its %s", what, bucket, en.rec.Agent.Source)
			return
		}
	}
}

// event waits for an event of the model server after a time.
func (e *world) event(after time.Time, what string, ok func(agentstub.Event) bool) time.Time {
	e.t.Helper()
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		for _, ev := range e.stub.Events() {
			at := time.UnixMicro(int64(ev.T * 1000))
			if at.After(after) && ev.What == what && (ok == nil || ok(ev)) {
				return at
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	e.t.Fatalf("the model server never had %s", what)
	return time.Time{}
}
