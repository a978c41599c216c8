package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

// scripted is a detector that says what a test tells it.
type scripted struct {
	mu       sync.Mutex
	paths    []string
	sessions []agents.Session
	err      error
	facts    agents.Facts
	view     agents.View
	screen   bool
	looks    int
}

func (d *scripted) Kind() string { return "claude-code" }
func (d *scripted) Paths(agents.Subject, *agents.Session) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks++
	return d.paths
}
func (d *scripted) Sessions(agents.Subject) ([]agents.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions, d.err
}
func (d *scripted) Read(agents.Subject, agents.Session) (agents.Facts, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.facts, nil
}
func (d *scripted) View(kaval.Screen) agents.View {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.view
}
func (d *scripted) NeedsScreen(agents.Facts) bool { return d.screen }

func (d *scripted) set(change func(*scripted)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *scripted) looked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.looks
}

// follow runs a tracker over a detector in a bubble.
func follow(t *testing.T, d agents.Detector, log *slog.Logger) (*agents.Tracker, func()) {
	tracker := agents.New(agents.Options{
		Detectors: []agents.Detector{d}, Changed: func(padi.TerminalID) {}, Log: log,
		Screen: func(context.Context, padi.TerminalID) (kaval.Screen, error) { return kaval.Screen{}, nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { tracker.Run(ctx) })
	return tracker, func() { cancel(); wg.Wait() }
}

func front(id padi.TerminalID) kaval.Terminal {
	return kaval.Terminal{ID: id, PID: 1, ForegroundPID: 2, ForegroundProcess: "claude", LastCommand: "claude"}
}

func pass() { time.Sleep(2 * time.Second); synctest.Wait() }

// TestUnreadableHolds: what cannot be read keeps what was known, with a word about it; what is not there lets go of it.
func TestUnreadableHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{sessions: []agents.Session{{ID: uuid}}, facts: agents.Facts{State: padi.Thinking}}
		tracker, stop := follow(t, d, slog.New(slog.DiscardHandler))
		defer stop()
		tracker.See(front("t"))
		pass()
		d.set(func(d *scripted) { d.err = errors.New("database is locked") })
		tracker.Active("t")
		pass()
		if a, r := tracker.Agent("t"); a.SessionID != uuid || a.State != padi.Thinking || r == nil {
			t.Errorf("while it is locked: %+v, %+v", a, r)
		}
		if x, _ := tracker.Explain("t"); !strings.Contains(fmt.Sprint(x.Evidence), "database is locked") {
			t.Errorf("explained as %+v", x)
		}
		d.set(func(d *scripted) { d.err, d.sessions = nil, nil })
		tracker.Active("t")
		pass()
		if a, _ := tracker.Agent("t"); a.SessionID != "" || a.State != padi.Unknown || a.Reason == "" {
			t.Errorf("without a session: %+v", a)
		}
	})
}

// TestEndedLetsGo: a terminal that ended, or whose agent did, frees its conversation, and nothing that was under way takes it back.
func TestEndedLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{sessions: []agents.Session{{ID: uuid}}}
		tracker, stop := follow(t, d, slog.New(slog.DiscardHandler))
		defer stop()
		has := func(id padi.TerminalID) bool {
			a, _ := tracker.Agent(id)
			return a != nil && a.SessionID == uuid
		}
		tracker.See(front("a"))
		pass()
		tracker.See(front("b"))
		pass()
		if !has("a") || has("b") {
			t.Errorf("a %v, b %v: it is a's", has("a"), has("b"))
		}
		tracker.Active("a")
		tracker.Forget("a")
		tracker.Active("a")
		tracker.Active("b")
		pass()
		if has("a") || !has("b") {
			t.Errorf("a %v, b %v: it is free", has("a"), has("b"))
		}
		shell := front("b")
		shell.ForegroundPID, shell.ForegroundProcess = 1, "bash"
		tracker.See(shell)
		tracker.See(front("c"))
		pass()
		if !has("c") {
			t.Error("b's agent ended and its conversation is not free")
		}
	})
}

// TestDriftIsLoudOnce: an agent that writes what is not known here is one line in the log, not one a look.
func TestDriftIsLoudOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &scripted{sessions: []agents.Session{{ID: uuid}}, facts: agents.Facts{Version: "9.9", Drift: "status dreaming", Again: 100 * time.Millisecond}}
		tracker, stop := follow(t, d, slog.New(slog.NewTextHandler(&log, nil)))
		tracker.See(front("a"))
		pass()
		a, _ := tracker.Agent("a")
		if a.State != padi.Unknown || a.Reason != "status dreaming" {
			t.Errorf("%+v", a)
		}
		stop()
		if n := strings.Count(log.String(), "dreaming"); n != 1 || !strings.Contains(log.String(), "9.9") {
			t.Errorf("%d lines: %s", n, log.String())
		}
	})
}

// TestNobodyIsLookedFor: without an agent in front no file is looked at.
func TestNobodyIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{}
		tracker, stop := follow(t, d, slog.New(slog.DiscardHandler))
		defer stop()
		shell := front("t")
		shell.ForegroundPID, shell.ForegroundProcess = 1, "bash"
		tracker.See(shell)
		tracker.Active("t")
		pass()
		if n := d.looked(); n != 0 {
			t.Errorf("looked %d times", n)
		}
		tracker.See(front("t"))
		pass()
		if d.looked() == 0 {
			t.Error("never looked")
		}
	})
}

// TestAwaitingHoldsOverNews: what the files tell in the meantime, a new title say, does not take back what the screen asks.
func TestAwaitingHoldsOverNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{sessions: []agents.Session{{ID: uuid}}, facts: agents.Facts{State: padi.ToolUse}, screen: true,
			view: agents.View{State: padi.AwaitingUser, Asks: "permission"}}
		tracker, stop := follow(t, d, slog.New(slog.DiscardHandler))
		defer stop()
		tracker.See(front("t"))
		pass()
		d.set(func(d *scripted) { d.facts.Summary = "a new title" })
		tracker.Active("t")
		pass()
		if a, _ := tracker.Agent("t"); a.State != padi.AwaitingUser || a.Summary != "a new title" {
			t.Errorf("%+v", a)
		}
		d.set(func(d *scripted) { d.view = agents.View{} })
		tracker.Active("t")
		pass()
		if a, _ := tracker.Agent("t"); a.State != padi.ToolUse {
			t.Errorf("answered: %+v", a)
		}
	})
}

// TestBusyFile has a file that is written to without a pause: it is read all the same, and its last word is not missed.
func TestBusyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	d := &scripted{paths: []string{path}, sessions: []agents.Session{{ID: uuid}}, facts: agents.Facts{State: padi.Waiting}}
	tracker, stop := follow(t, d, slog.New(slog.DiscardHandler))
	defer stop()
	tracker.See(front("t"))
	deadline := time.Now().Add(60 * time.Second)
	states := map[padi.AgentState]bool{}
	for i := 0; !states[padi.Thinking]; i++ {
		if err := os.WriteFile(path, []byte(strings.Repeat("x", i%7)), 0o600); err != nil {
			t.Fatal(err)
		}
		if i == 50 {
			d.set(func(d *scripted) { d.facts.State = padi.Thinking })
		}
		if a, _ := tracker.Agent("t"); a != nil {
			states[a.State] = true
		}
		if time.Now().After(deadline) {
			t.Fatalf("while it is written to: %v", states)
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.set(func(d *scripted) { d.facts.State = padi.ToolUse }) // as if in the very moment of the last write
	for a, _ := tracker.Agent("t"); a.State != padi.ToolUse; a, _ = tracker.Agent("t") {
		if time.Now().After(deadline) {
			t.Fatalf("the last word was missed: %+v", a)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
