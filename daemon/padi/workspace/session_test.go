package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/workspace"
)

// instance names the kaval of a test.
func instance(name *string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return *name, nil }
}

func parked(id, parent padi.TerminalID) session.Terminal {
	return session.Terminal{ID: id, ParentID: parent, State: padi.Parked, CWD: "/", Intent: "of " + string(id)}
}

var claudeResume = &padi.Resume{Kind: "claude-code", SessionID: "s1", Command: "claude --resume s1"}

func restore(t *testing.T, w *workspace.Workspace, req padi.RestoreRequest) padi.Restored {
	t.Helper()
	done, err := w.Restore(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// A restore brings every record back under its id and in its place, whatever sleeps between them; a second does nothing.
func TestRestoreKeepsIdsAndOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		asleep := session.Terminal{ID: "b", State: padi.Sleeping, CWD: "/", SleptAt: 5}
		store := &memoryStore{kept: []session.Terminal{parked("a", ""), asleep, parked("c", "a"), parked("d", "gone")}}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		if _, err := w.Create(t.Context(), top()); err != nil { // which gives up nothing
			t.Fatal(err)
		}
		done := restore(t, w, padi.RestoreRequest{})
		if len(done.Terminals) != 3 || len(done.Failed) != 0 || !strings.Contains(fmt.Sprint(done.Terminals[2].Notes), "a tile of its own") {
			t.Errorf("restored %+v", done)
		}
		if got := ids(t, w); len(got) != 5 || !slices.Equal(got[:4], []padi.TerminalID{"a", "b", "c", "d"}) {
			t.Errorf("order %v", got)
		}
		a, b, c, d := one(t, w, "a"), one(t, w, "b"), one(t, w, "c"), one(t, w, "d")
		if a.State != padi.Active || a.Intent != "of a" || a.ParkedAt != 0 || b.State != padi.Sleeping || b.SleptAt != 5 || c.ParentID != "a" || d.ParentID != "" {
			t.Errorf("a %+v\nb %+v\nc %+v\nd %+v", a, b, c, d)
		}
		if again := restore(t, w, padi.RestoreRequest{}); len(again.Terminals)+len(again.Failed) != 0 || len(host.spawns) != 4 {
			t.Errorf("restored again %+v, %d spawns", again, len(host.spawns))
		}
		if unknown := restore(t, w, padi.RestoreRequest{IDs: []padi.TerminalID{"nobody"}}); len(unknown.Failed) != 1 {
			t.Errorf("of an unknown id: %+v", unknown)
		}
	})
}

// The conversation of an agent goes on, and is remembered until the agent is seen in it; one that was declined is offered no more.
func TestRestoreGoesOnWithAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		yes, no := parked("yes", ""), parked("no", "")
		yes.Resume, no.Resume = claudeResume, claudeResume
		store := &memoryStore{kept: []session.Terminal{yes, no}}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		done := restore(t, w, padi.RestoreRequest{OptOut: []padi.TerminalID{"no"}})
		if len(done.Terminals) != 2 || done.Terminals[0].Resumed != claudeResume.Command || done.Terminals[1].Resumed != "" {
			t.Fatalf("restored %+v", done)
		}
		if string(host.input) != claudeResume.Command+"\r" {
			t.Errorf("typed %q", host.input)
		}
		// The shell stands idle, and the line that was typed has not landed yet; padi is killed now.
		host.put(kaval.Terminal{ID: "yes", PID: 100, ForegroundPID: 100, ForegroundProcess: "zsh"})
		synctest.Wait()
		if err := w.Save(); err != nil {
			t.Fatal(err)
		}
		if kept := store.saved(); kept[0].Resume == nil || *kept[0].Resume != *claudeResume || kept[1].Resume != nil {
			t.Errorf("kept %+v", kept)
		}
		// It runs something else: nothing is left to go on with.
		host.put(kaval.Terminal{ID: "yes", PID: 100, ForegroundPID: 100, ForegroundProcess: "zsh", LastCommand: "ls"})
		synctest.Wait()
		if rec := one(t, w, "yes"); rec.Resume != nil {
			t.Errorf("then %+v", rec)
		}
		stop()
	})
}

// What can't be started stays parked, in the file too, and keeps nothing else from starting.
func TestARestoreThatFailsLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{kept: []session.Terminal{parked("a", ""), parked("b", "a")}}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		host.spawnErr = kaval.ErrSpawn
		done := restore(t, w, padi.RestoreRequest{IDs: []padi.TerminalID{"a"}})
		if len(done.Failed) != 1 || done.Failed[0].ID != "a" || one(t, w, "a").State != padi.Parked {
			t.Errorf("restored %+v", done)
		}
		host.spawnErr = nil
		// Its split starts all the same, and is in the roster.
		if done := restore(t, w, padi.RestoreRequest{IDs: []padi.TerminalID{"b"}}); len(done.Terminals) != 1 || one(t, w, "b").State != padi.Active {
			t.Errorf("restored %+v", done)
		}
		// One whose program ends at once was not restored.
		if done := restore(t, w, padi.RestoreRequest{}); len(done.Terminals) != 1 {
			t.Errorf("restored %+v", done)
		}
		time.Sleep(100 * time.Millisecond)
		host.exit("a", 127)
		synctest.Wait()
		if rec := one(t, w, "a"); rec.State != padi.Parked {
			t.Errorf("a is %+v", rec)
		}
		time.Sleep(time.Minute)
		host.exit("b", 0) // its user left it
		synctest.Wait()
		if _, err := w.Terminal(t.Context(), "b"); !errors.Is(err, kaval.ErrNoTerminal) {
			t.Errorf("b: %v", err)
		}
		stop()
		if kept := store.saved(); len(kept) != 1 || kept[0].ID != "a" || kept[0].State != padi.Parked {
			t.Errorf("kept %+v", kept)
		}
	})
}

// A terminal that its user kills while it is being restored stays away, and runs nowhere.
func TestKillDuringARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{kept: []session.Terminal{parked("a", "")}}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		synctest.Wait()
		spawning, killed := make(chan struct{}), make(chan struct{})
		host.beforeSpawn = func() { close(spawning); <-killed }
		var all sync.WaitGroup
		all.Go(func() {
			if done := restore(t, w, padi.RestoreRequest{}); len(done.Terminals)+len(done.Failed) != 0 {
				t.Errorf("restored %+v", done)
			}
		})
		<-spawning
		if _, err := w.Kill(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		close(killed)
		all.Wait()
		synctest.Wait()
		if live, _ := host.List(t.Context()); len(live) != 0 || len(ids(t, w)) != 0 || len(store.saved()) != 0 {
			t.Errorf("live %+v, roster %v, kept %v", live, ids(t, w), store.saved())
		}
	})
}

// One spawn that never answers holds up neither the others nor the saves.
func TestARestoreThatHangsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{kept: []session.Terminal{parked("hangs", ""), parked("b", "")}}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		host.hang = "hangs"
		var all sync.WaitGroup
		all.Go(func() {
			done := restore(t, w, padi.RestoreRequest{})
			if len(done.Terminals) != 1 || len(done.Failed) != 1 || !strings.Contains(done.Failed[0].Reason, "did not start within") {
				t.Errorf("restored %+v", done)
			}
		})
		time.Sleep(time.Second)
		before := store.count()
		if _, err := w.Rename(t.Context(), "b", padi.RenameRequest{Intent: "new"}); err != nil || one(t, w, "b").State != padi.Active || store.count() == before {
			t.Errorf("%v, %+v, %d saves", err, one(t, w, "b"), store.count()-before)
		}
		all.Wait()
		if rec := one(t, w, "hangs"); rec.State != padi.Parked {
			t.Errorf("%+v", rec)
		}
	})
}

// The record sleeps on disk before its programs end; waking gives the id its shell again, and a failed wake leaves it asleep.
func TestSleepAndWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		id := create(t, w, top()).ID
		states := watchStates(t, w, id)
		host.onKill = func() {
			if kept := store.saved(); len(kept) != 1 || kept[0].State != padi.Sleeping {
				t.Errorf("at the kill the file has %+v", kept)
			}
		}
		for range 2 { // the second does nothing
			if rec, err := w.Sleep(t.Context(), id); err != nil || rec.State != padi.Sleeping || rec.SleptAt == 0 || rec.PID != 0 {
				t.Fatalf("%+v, %v", rec, err)
			}
		}
		synctest.Wait()
		if live, _ := host.List(t.Context()); len(live) != 0 || one(t, w, id).State != padi.Sleeping {
			t.Errorf("live %v, %+v", live, one(t, w, id))
		}
		host.spawnErr = kaval.ErrSpawn
		if _, err := w.Wake(t.Context(), id, padi.WakeRequest{}); !errors.Is(err, kaval.ErrSpawn) || one(t, w, id).State != padi.Sleeping {
			t.Errorf("a wake that fails: %v, %+v", err, one(t, w, id))
		}
		host.spawnErr = nil
		if start, err := w.Wake(t.Context(), id, padi.WakeRequest{}); err != nil || start.ID != id || start.PID == 0 {
			t.Errorf("%+v, %v", start, err)
		}
		synctest.Wait()
		if got := states(); !slices.Equal(got, []padi.State{padi.Active, padi.Sleeping, padi.Active}) {
			t.Errorf("told of %v", got)
		}
		// A sleep that can't be written is none, and its programs go on.
		store.setFull(true)
		host.onKill = func() { t.Error("it was killed") }
		if _, err := w.Sleep(t.Context(), id); err == nil || one(t, w, id).State != padi.Active {
			t.Errorf("%v, %+v", err, one(t, w, id))
		}
		store.setFull(false)
	})
}

// watchStates collects the states that a watcher sees of a terminal, each change once.
func watchStates(t *testing.T, w *workspace.Workspace, id padi.TerminalID) func() []padi.State {
	t.Helper()
	var mu sync.Mutex
	var seen []padi.State
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ev, err := range w.Watch(ctx) {
			if err != nil {
				return
			}
			recs := ev.Records
			if ev.Record != nil {
				recs = append(recs, *ev.Record)
			}
			mu.Lock()
			for _, rec := range recs {
				if rec.ID == id && (len(seen) == 0 || seen[len(seen)-1] != rec.State) {
					seen = append(seen, rec.State)
				}
			}
			mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	synctest.Wait()
	return func() []padi.State {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// Padi ended between the save of a sleep and the kill: the next one ends what still runs, and the record sleeps on.
func TestWhatWasPutToSleepIsEndedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(kaval.Terminal{ID: "a", CWD: "/"})
		store := &memoryStore{kept: []session.Terminal{{ID: "a", State: padi.Sleeping, CWD: "/", SleptAt: 1}}}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		synctest.Wait()
		if live, _ := host.List(t.Context()); len(live) != 0 || one(t, w, "a").State != padi.Sleeping {
			t.Errorf("live %v, %+v", live, one(t, w, "a"))
		}
	})
}

// A terminal that is missing has truly ended if kaval is the one of the session; else it went with its kaval, and so it did if
// nobody knows.
func TestWhichKavalTheSessionWasOf(t *testing.T) {
	for name, tt := range map[string]struct {
		saved, now string
		want       int
	}{
		"the same": {"1@1", "1@1", 0}, "another at the same address": {"1@1", "2@2", 1}, "an older file, without it": {"", "2@2", 1}, "a kaval that does not say": {"1@1", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &memoryStore{kaval: tt.saved, kept: []session.Terminal{{ID: "a", State: padi.Active, CWD: "/"}}}
				w, stop := run(t, workspace.Options{Kaval: newFake(), Store: store, Instance: instance(&tt.now)})
				got := ids(t, w)
				stop()
				if len(got) != tt.want || len(store.saved()) != tt.want {
					t.Errorf("roster %v, kept %+v", got, store.saved())
				}
				if tt.want == 1 && (store.saved()[0].State != padi.Parked || store.kaval != tt.now) {
					t.Errorf("kept %+v of %q", store.saved(), store.kaval)
				}
			})
		})
	}
}

// While another kaval is put in the place of the one there is, its terminals end: that is no news and nothing is saved of it. Of two
// who do that at once, the first to finish thaws nothing for the other.
func TestFreezeIsByToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		id := create(t, w, top()).ID
		one, two := w.Freeze(), w.Freeze()
		if kept := store.saved(); len(kept) != 1 || kept[0].State != padi.Parked {
			t.Fatalf("at the freeze the file has %+v", kept)
		}
		saves := store.count()
		host.put(kaval.Terminal{ID: id, CWD: "/late"})
		host.exit(id, 137)
		one()
		one() // a second time is none
		time.Sleep(5 * time.Second)
		if got := ids(t, w); len(got) != 1 || store.count() != saves {
			t.Errorf("frozen, the roster is %v and there were %d saves", got, store.count()-saves)
		}
		two()
		time.Sleep(5 * time.Second)
		if kept := store.saved(); len(kept) != 1 || kept[0].ID != id || kept[0].State != padi.Parked || store.count() == saves {
			t.Errorf("then the file has %+v", kept)
		}
	})
}

// Starting fresh keeps a way back, and is refused where there is none.
func TestForgetKeepsABackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{kept: []session.Terminal{parked("a", ""), {ID: "z", State: padi.Sleeping, CWD: "/"}}}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		synctest.Wait()
		store.setFull(true)
		if _, err := w.Forget(t.Context()); err == nil || len(ids(t, w)) != 2 {
			t.Errorf("without a backup: %v, %v", err, ids(t, w))
		}
		store.setFull(false)
		gone, err := w.Forget(t.Context())
		if err != nil || gone.Count != 1 || gone.Backup == "" || !slices.Equal(ids(t, w), []padi.TerminalID{"z"}) {
			t.Fatalf("%+v, %v, %v", gone, err, ids(t, w))
		}
		back, err := w.Recall(t.Context(), gone.Backup)
		if err != nil || len(back.Parked) != 1 || back.Parked[0].ID != "a" || back.Parked[0].Intent != "of a" || back.Known != 1 {
			t.Errorf("%+v, %v", back, err)
		}
		if done := restore(t, w, padi.RestoreRequest{}); len(done.Terminals) != 1 || one(t, w, "a").State != padi.Active {
			t.Errorf("%+v", done)
		}
		if _, err := w.Recall(t.Context(), "../session.json"); !errors.Is(err, padi.ErrNoBackup) {
			t.Errorf("a name of another file: %v", err)
		}
	})
}

// A terminal that was made a moment before padi ended is in no session; it is adopted, whatever its id looks like.
func TestOrphansAreAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(kaval.Terminal{ID: "not a uuid", CWD: "/x"})
		store := &memoryStore{kaval: "1@1"}
		now := "1@1"
		w, stop := run(t, workspace.Options{Kaval: host, Store: store, Instance: instance(&now)})
		if rec := one(t, w, "not a uuid"); rec.State != padi.Active {
			t.Errorf("%+v", rec)
		}
		stop()
		if kept := store.saved(); len(kept) != 1 || kept[0].CWD != "/x" {
			t.Errorf("kept %+v", kept)
		}
	})
}
