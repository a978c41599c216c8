package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/workspace"
)

// memoryStore keeps a session in memory.
type memoryStore struct {
	mu    sync.Mutex
	kept  []session.Terminal
	kaval string
	saves int
	err   error
	full  bool // no save succeeds
	ring  [][]session.Terminal
}

func (m *memoryStore) Load() (session.Saved, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return session.Saved{Terminals: m.kept, Kaval: m.kaval}, m.err
}

func (m *memoryStore) Save(s session.Saved) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return syscall.ENOSPC
	}
	m.kept, m.kaval, m.saves = s.Terminals, s.Kaval, m.saves+1
	return nil
}

func (m *memoryStore) Path() string { return "" }

func (m *memoryStore) Backup() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return "", syscall.ENOSPC
	}
	m.ring = append(m.ring, m.kept)
	return fmt.Sprint(len(m.ring) - 1), nil
}

func (m *memoryStore) Backups() (list []padi.Backup, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, ts := range m.ring {
		list = append(list, padi.Backup{Name: fmt.Sprint(i), Kind: "session", Terminals: len(ts)})
	}
	return list, nil
}

func (m *memoryStore) Recall(name string) ([]session.Terminal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, ts := range m.ring {
		if name == fmt.Sprint(i) {
			return ts, nil
		}
	}
	return nil, padi.ErrNoBackup
}

// saved is what a next padi would find.
func (m *memoryStore) saved() []session.Terminal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}

func (m *memoryStore) setFull(full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full = full
}

func (m *memoryStore) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// run starts a workspace over a host for the length of a synctest bubble's test; stop ends it and waits.
func run(t *testing.T, opt workspace.Options) (w *workspace.Workspace, stop func()) {
	t.Helper()
	opt.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	w = workspace.New(opt)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // it lives while the test cleans up
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w, func() {
		cancel()
		wg.Wait()
	}
}

func one(t *testing.T, w *workspace.Workspace, id padi.TerminalID) padi.Record {
	t.Helper()
	rec, err := w.Terminal(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func ids(t *testing.T, w *workspace.Workspace) []padi.TerminalID {
	t.Helper()
	recs, err := w.Terminals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []padi.TerminalID
	for _, r := range recs {
		out = append(out, r.ID)
	}
	return out
}

func top() padi.CreateRequest { return padi.CreateRequest{Placement: padi.Placement{Toplevel: true}} }

func create(t *testing.T, w *workspace.Workspace, req padi.CreateRequest) padi.Created {
	t.Helper()
	made, err := w.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func claude(id padi.TerminalID, state string) kaval.Terminal {
	return kaval.Terminal{ID: id, PID: 1, ForegroundPID: 2, ForegroundProcess: "claude", Status: &kaval.ProgramStatus{State: state, App: "claude-code"}}
}

func TestAdoptsWhatRunsAndWhatOthersMake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(kaval.Terminal{ID: "before", CWD: "/x"})
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		if got := ids(t, w); !slices.Equal(got, []padi.TerminalID{"before"}) {
			t.Errorf("terminals %v", got)
		}
		host.put(kaval.Terminal{ID: "outside", CWD: "/y", ForegroundProcess: "vim", ForegroundPID: 9, LastCommand: "vim x"})
		synctest.Wait()
		rec := one(t, w, "outside")
		if rec.State != padi.Active || rec.ParentID != "" || rec.CWD != "/y" || rec.Foreground.Name != "vim" || rec.LastCommand != "vim x" {
			t.Errorf("adopted as %+v", rec)
		}
	})
}

func TestCreateRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		for name, tc := range map[string]struct {
			req  padi.CreateRequest
			want error
		}{
			"no placement":           {padi.CreateRequest{}, kaval.ErrInvalid},
			"two placements":         {padi.CreateRequest{Placement: padi.Placement{Toplevel: true, Parent: "x"}}, kaval.ErrInvalid},
			"unknown parent":         {padi.CreateRequest{Placement: padi.Placement{Parent: "x"}}, padi.ErrNoParent},
			"cwd and worktree":       {padi.CreateRequest{Placement: top().Placement, CWD: "/", Worktree: "b", Repo: "/r"}, kaval.ErrInvalid},
			"worktree without repo":  {padi.CreateRequest{Placement: top().Placement, Worktree: "b"}, kaval.ErrInvalid},
			"repo without worktree":  {padi.CreateRequest{Placement: top().Placement, Repo: "/r"}, kaval.ErrInvalid},
			"relative repo":          {padi.CreateRequest{Placement: top().Placement, Worktree: "b", Repo: "r"}, kaval.ErrInvalid},
			"relative cwd":           {padi.CreateRequest{Placement: top().Placement, CWD: "x"}, kaval.ErrInvalid},
			"NUL in the command":     {padi.CreateRequest{Placement: top().Placement, Run: []string{"a", "b\x00"}}, kaval.ErrInvalid},
			"empty command":          {padi.CreateRequest{Placement: top().Placement, Run: []string{""}}, kaval.ErrInvalid},
			"worktree of no repo":    {padi.CreateRequest{Placement: top().Placement, Worktree: "b", Repo: "/proc"}, padi.ErrWorktree},
			"worktree with bad name": {padi.CreateRequest{Placement: top().Placement, Worktree: "a b", Repo: "/proc"}, kaval.ErrInvalid},
		} {
			if _, err := w.Create(t.Context(), tc.req); !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		}
		if len(host.spawns) != 0 {
			t.Errorf("something was started: %v", host.spawns)
		}
	})
}

func TestCreateComposesTheTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		w, stop := run(t, workspace.Options{
			Kaval: host, Version: "1.2", Agent: func() string { return "/run/agent.sock" },
			Environ: []string{"HOME=/h", "TERM=dumb", "VTE_VERSION=1", "CLAUDECODE=1", "KOLU_X=1", "SECRET=s", "PATH=:/bin:"},
		})
		defer stop()
		parent := create(t, w, top())
		req := padi.CreateRequest{Placement: padi.Placement{Parent: parent.ID}, Intent: "fix\nit", CWD: "/", Run: []string{"claude", "do it"}}
		made := create(t, w, req)
		if made.Ran != "claude 'do it'" || string(host.input) != "claude 'do it'\r" {
			t.Errorf("ran %q, typed %q", made.Ran, host.input)
		}
		rec := one(t, w, made.ID)
		if rec.ParentID != parent.ID || rec.Intent != "fix\nit" || rec.PID != made.PID || rec.State != padi.Active {
			t.Errorf("record %+v", rec)
		}
		spawn := host.spawns[1]
		want := map[string]string{
			"HOME": "/h", "USER": "u", "LOGNAME": "u", "SHELL": "/bin/zsh", "PATH": "/bin", "ZDOTDIR": "{dir}", "TERM": "xterm-256color",
			"COLORTERM": "truecolor", "TERM_PROGRAM": "kolu", "TERM_PROGRAM_VERSION": "1.2", "VTE_VERSION": "7603",
			"SSH_AUTH_SOCK": "/run/agent.sock",
		}
		if diff := cmp.Diff(want, spawn.Env); diff != "" {
			t.Error(diff)
		}
		if spawn.Argv[0] != "/bin/zsh" || len(spawn.InitFiles) == 0 || spawn.CWD != "/" {
			t.Errorf("spawn %+v", spawn)
		}
	})
}

func TestPartialCreateSaysWhatItMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.writeErr = kaval.ErrStalled
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		req := top()
		req.Run = []string{"x"}
		_, err := w.Create(t.Context(), req)
		partial, ok := errors.AsType[*padi.PartialError](err)
		if !ok || !errors.Is(err, kaval.ErrStalled) || !slices.Equal(ids(t, w), []padi.TerminalID{partial.Landed.ID}) {
			t.Errorf("got %v, terminals %v", err, ids(t, w))
		}
		host.spawnErr = kaval.ErrSpawn
		if _, err := w.Create(t.Context(), top()); !errors.Is(err, kaval.ErrSpawn) || len(ids(t, w)) != 1 {
			t.Errorf("got %v, terminals %v", err, ids(t, w))
		}
	})
}

// A program that ends before its spawn returns leaves no record behind, whatever order the news come in.
func TestCreateOfAProgramThatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		host.onSpawn = func() {
			host.exit(host.spawns[0].ID, 3)
			synctest.Wait()
		}
		made := create(t, w, top())
		synctest.Wait()
		if got := ids(t, w); len(got) != 0 {
			t.Errorf("terminals %v", got)
		}
		res, err := w.Wait(t.Context(), made.ID, padi.WaitRequest{Until: []padi.Bucket{padi.BucketWaiting}})
		if err != nil || res.Result != kaval.Gone || res.ExitCode == nil || *res.ExitCode != 3 {
			t.Errorf("wait gave %+v, %v", res, err)
		}
	})
}

func TestKillForgetsAndPromotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		parent := create(t, w, top())
		child := create(t, w, padi.CreateRequest{Placement: padi.Placement{Parent: parent.ID}})
		rec, err := w.Kill(t.Context(), parent.ID)
		if err != nil || rec.ID != parent.ID || rec.PID != parent.PID {
			t.Errorf("killed %+v, %v", rec, err)
		}
		if got := ids(t, w); !slices.Equal(got, []padi.TerminalID{child.ID}) || one(t, w, child.ID).ParentID != "" {
			t.Errorf("left %v, child %+v", got, one(t, w, child.ID))
		}
		if _, err := w.Kill(t.Context(), parent.ID); !errors.Is(err, kaval.ErrNoTerminal) {
			t.Errorf("second kill: %v", err)
		}
		if err := w.Write(t.Context(), parent.ID, kaval.Input{Data: []byte("x")}); !errors.Is(err, kaval.ErrGone) {
			t.Errorf("write to the dead: %v", err)
		}
		if err := w.Write(t.Context(), "never", kaval.Input{Data: []byte("x")}); !errors.Is(err, kaval.ErrNoTerminal) {
			t.Errorf("write to nobody: %v", err)
		}
	})
}

// collect reads a roster into a slice that grows until the test's context ends.
type roster struct {
	mu     sync.Mutex
	events []padi.Event
	err    error
}

func watch(t *testing.T, w *workspace.Workspace, slow <-chan struct{}) *roster {
	r := &roster{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ev, err := range w.Watch(ctx) {
			r.mu.Lock()
			if err != nil {
				r.err = err
			} else {
				r.events = append(r.events, ev)
			}
			r.mu.Unlock()
			if slow != nil {
				<-slow
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return r
}

func (r *roster) take() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, ev := range r.events {
		switch ev.Kind {
		case padi.EventSnapshot:
			fmt.Fprintf(&b, "snapshot:%d ", len(ev.Records))
		case padi.EventActivity:
			fmt.Fprintf(&b, "activity:%s:%v ", ev.ID, ev.Live)
		default:
			fmt.Fprintf(&b, "%s:%s ", ev.Kind, ev.ID)
		}
	}
	r.events = nil
	return strings.TrimSpace(b.String())
}

func TestWatchTellsEachEdgeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(kaval.Terminal{ID: "a", CWD: "/nowhere"})
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		synctest.Wait()
		time.Sleep(10 * time.Second) // of the bubble: the first look at the directory is over
		r := watch(t, w, nil)
		expect := func(what, want string) {
			t.Helper()
			if got := r.take(); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		expect("at first", "snapshot:1")
		for range 5 {
			host.output("a")
			time.Sleep(900 * time.Millisecond)
		}
		expect("while busy", "activity:a:true")
		late := watch(t, w, nil)
		if got := late.take(); got != "snapshot:1 activity:a:true" {
			t.Errorf("a late reader sees %s", got)
		}
		time.Sleep(101 * time.Millisecond)
		expect("after a second", "activity:a:false")
		host.put(kaval.Terminal{ID: "a", CWD: "/nowhere", LastActivity: 7, IdleMS: 5})
		expect("nothing but time", "")
		host.put(kaval.Terminal{ID: "a", CWD: "/nowhere", LastCommand: "ls"})
		expect("a command", "changed:a")
		host.exit("a", 0)
		expect("an exit", "removed:a")
	})
}

func TestASlowReaderGetsAFreshSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		gate := make(chan struct{})
		r := watch(t, w, gate)
		synctest.Wait()
		for i := range 400 {
			host.put(kaval.Terminal{ID: padi.TerminalID(fmt.Sprint(i)), CWD: "/nowhere"})
		}
		synctest.Wait()
		close(gate)
		got := r.take()
		if !strings.HasPrefix(got, "snapshot:0 ") || !strings.HasSuffix(got, " snapshot:400") {
			t.Errorf("got %.60s … %s", got, got[max(0, len(got)-60):])
		}
	})
}

func TestWatchEndsWithTheWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := run(t, workspace.Options{Kaval: newFake()})
		r := watch(t, w, nil)
		synctest.Wait()
		stop()
		synctest.Wait()
		if r.mu.Lock(); !errors.Is(r.err, kaval.ErrClosing) {
			t.Errorf("watch ended with %v", r.err)
		}
		r.mu.Unlock()
	})
}

func TestWaitForAnAgent(t *testing.T) {
	until := func(b ...padi.Bucket) padi.WaitRequest { return padi.WaitRequest{Until: b, TimeoutMS: 60_000} }
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(claude("a", "working"))
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		wait := func(req padi.WaitRequest) padi.WaitResult {
			t.Helper()
			res, err := w.Wait(t.Context(), "a", req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := wait(until(padi.BucketWorking)); res.Result != kaval.Met || res.ElapsedMS != 0 || res.Agent.Kind != "claude-code" || res.Fired != "agent" {
			t.Errorf("a state that holds: %+v", res)
		}
		time.AfterFunc(5*time.Second, func() { host.put(claude("a", "blocked")) })
		if res := wait(until(padi.BucketAwaiting, padi.BucketWaiting)); res.Result != kaval.Met || res.ElapsedMS != 5000 || res.Agent.State != padi.AwaitingUser {
			t.Errorf("a state that comes: %+v", res)
		}
		if res := wait(until(padi.BucketWorking)); res.Result != kaval.Timeout || res.ElapsedMS != 60_000 {
			t.Errorf("a state that does not come: %+v", res)
		}
		time.AfterFunc(time.Second, func() { host.exit("a", 4) })
		if res := wait(until(padi.BucketWorking)); res.Result != kaval.Gone || *res.ExitCode != 4 {
			t.Errorf("an end: %+v", res)
		}
		if _, err := w.Wait(t.Context(), "never", until(padi.BucketWorking)); !errors.Is(err, kaval.ErrNoTerminal) {
			t.Errorf("nobody: %v", err)
		}
	})
}

func TestWaitRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(kaval.Terminal{ID: "a"})
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		zero := int64(0)
		for name, req := range map[string]padi.WaitRequest{
			"nothing":         {},
			"two things":      {IdleMS: 5, Match: "x"},
			"unknown bucket":  {Until: []padi.Bucket{"thinking"}},
			"negative time":   {IdleMS: 5, TimeoutMS: -1},
			"too long a time": {Until: []padi.Bucket{padi.BucketWaiting}, TimeoutMS: kaval.MaxWaitMS + 1},
			"too long idle":   {IdleMS: kaval.MaxWaitMS + 1},
			"after and until": {Until: []padi.Bucket{padi.BucketWaiting}, After: &zero},
		} {
			if _, err := w.Wait(t.Context(), "a", req); !errors.Is(err, kaval.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if res, err := w.Wait(t.Context(), "a", padi.WaitRequest{Match: "done"}); err != nil || res.MatchedLine != "done" {
			t.Errorf("a match: %+v, %v", res, err)
		}
	})
}

func TestALostLineIsMadeAgainAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(claude("a", "working"))
		host.put(kaval.Terminal{ID: "b"})
		w, stop := run(t, workspace.Options{Kaval: host, Instance: func(context.Context) (string, error) { return "1@1", nil }})
		defer stop()
		synctest.Wait()
		host.cut(true, false)
		synctest.Wait()
		if got := ids(t, w); len(got) != 2 {
			t.Errorf("while the line is down: %v", got)
		}
		host.exit("b", 0)             // unseen
		host.put(claude("a", "done")) // unseen
		time.Sleep(2500 * time.Millisecond)
		res, err := w.Wait(t.Context(), "a", padi.WaitRequest{Until: []padi.Bucket{padi.BucketWorking, padi.BucketWaiting}, TimeoutMS: 100})
		if err != nil || res.Result != kaval.Timeout {
			t.Errorf("a wait without a line: %+v, %v", res, err)
		}
		if host.watches != 1 {
			t.Errorf("%d lines made to a kaval that does not answer", host.watches-1)
		}
		if err := w.Write(t.Context(), "a", kaval.Input{}); !errors.Is(err, padi.ErrKavalDown) {
			t.Errorf("write while down: %v", err)
		}
		host.up()
		time.Sleep(1100 * time.Millisecond)
		if got := ids(t, w); !slices.Equal(got, []padi.TerminalID{"a"}) || one(t, w, "a").Agent.State != padi.Waiting {
			t.Errorf("after the line came back: %v", got)
		}
	})
}

func TestTerminalsThatWentWithTheirKavalAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{}
		var instance atomic.Int64
		w, stop := run(t, workspace.Options{Kaval: host, Store: store, Instance: func(context.Context) (string, error) {
			return fmt.Sprint("kaval ", instance.Load()), nil
		}})
		req := top()
		req.Intent = "keep me"
		made := create(t, w, req)
		synctest.Wait()
		host.cut(true, true)
		time.Sleep(time.Minute)
		instance.Add(1)
		host.up()
		time.Sleep(31 * time.Second)
		rec := one(t, w, made.ID)
		if rec.State != padi.Parked || rec.Intent != "keep me" || rec.PID != 0 || rec.Agent != nil || rec.Foreground != nil {
			t.Errorf("record %+v", rec)
		}
		if err := w.Write(t.Context(), made.ID, kaval.Input{}); !errors.Is(err, kaval.ErrGone) {
			t.Errorf("write to the parked: %v", err)
		}
		if _, err := w.Create(t.Context(), padi.CreateRequest{Placement: padi.Placement{Parent: made.ID}}); !errors.Is(err, padi.ErrNoParent) {
			t.Errorf("a split of the parked: %v", err)
		}
		stop()
		if len(store.kept) != 1 || store.kept[0].State != padi.Parked || store.kept[0].Intent != "keep me" {
			t.Errorf("kept %+v", store.kept)
		}
		w, stop = run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		if rec := one(t, w, made.ID); rec.State != padi.Parked {
			t.Errorf("after a restart: %+v", rec)
		}
		if _, err := w.Kill(t.Context(), made.ID); err != nil || len(ids(t, w)) != 0 {
			t.Errorf("kill of the parked: %v, left %v", err, ids(t, w))
		}
	})
}

func TestStartTakesTheSavedPlacesAndOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		for _, id := range []padi.TerminalID{"orphan", "c", "a"} {
			host.put(kaval.Terminal{ID: id, CWD: "/live", StartedAt: 9})
		}
		store := &memoryStore{kept: []session.Terminal{
			{ID: "a", State: padi.Active, CWD: "/old", Intent: "first"},
			{ID: "lost", State: padi.Active, CWD: "/lost"},
			{ID: "c", State: padi.Active, CWD: "/old", ParentID: "a"},
		}}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		if got := ids(t, w); !slices.Equal(got, []padi.TerminalID{"a", "lost", "c", "orphan"}) {
			t.Errorf("order %v", got)
		}
		a, lost, c := one(t, w, "a"), one(t, w, "lost"), one(t, w, "c")
		if a.State != padi.Active || a.Intent != "first" || a.CWD != "/live" || c.ParentID != "a" || lost.State != padi.Parked {
			t.Errorf("a %+v\nlost %+v\nc %+v", a, lost, c)
		}
	})
}

func TestASessionThatCannotBeTakenOverEndsTheRun(t *testing.T) {
	store := &memoryStore{err: session.ErrNewer}
	w := workspace.New(workspace.Options{Kaval: newFake(), Store: store, Log: slog.New(slog.DiscardHandler)})
	if err := w.Save(); err != nil || store.count() != 0 {
		t.Errorf("Save before the session was taken over gave %v and saved %d times", err, store.count())
	}
	if err := w.Run(t.Context()); !errors.Is(err, session.ErrNewer) || store.count() != 0 {
		t.Errorf("Run gave %v and saved %d times", err, store.count())
	}
	if _, err := w.Terminals(t.Context()); !errors.Is(err, kaval.ErrClosing) {
		t.Errorf("Terminals gave %v", err)
	}
}

// A change every 150 ms must not put the save off.
func TestAutosaveIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{}
		_, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		synctest.Wait()
		for i := range 10 {
			host.put(kaval.Terminal{ID: "a", CWD: "/", LastCommand: fmt.Sprint(i)})
			time.Sleep(150 * time.Millisecond)
		}
		if n := store.count(); n < 2 || n > 4 {
			t.Errorf("%d saves in 1.5 s", n)
		}
		time.Sleep(time.Second)
		n := store.count()
		host.put(kaval.Terminal{ID: "a", CWD: "/", LastCommand: "9", LastActivity: 5})
		host.output("a")
		time.Sleep(10 * time.Second)
		if store.count() != n {
			t.Error("saved though nothing worth keeping changed")
		}
	})
}

// Kaval keeps a terminal over a crash of padi, but knows nothing of its place and label: they are saved before create answers.
func TestThePlaceIsSavedBeforeCreateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{}
		w, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		parent, err := w.Create(t.Context(), padi.CreateRequest{Placement: top().Placement, Intent: "tests"})
		if err != nil {
			t.Fatal(err)
		}
		if n := store.count(); n != 1 || store.kept[0].Intent != "tests" {
			t.Fatalf("after %d saves %+v is kept", n, store.kept)
		}
		if _, err := w.Create(t.Context(), padi.CreateRequest{Placement: padi.Placement{Parent: parent.ID}}); err != nil {
			t.Fatal(err)
		}
		if n := store.count(); n != 2 || store.kept[1].ParentID != parent.ID {
			t.Errorf("after %d saves %+v is kept", n, store.kept)
		}
	})
}

// What could not be saved is saved when it can be, though nothing else changes.
func TestAFailedSaveIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		store := &memoryStore{full: true}
		_, stop := run(t, workspace.Options{Kaval: host, Store: store})
		defer stop()
		synctest.Wait()
		host.put(kaval.Terminal{ID: "a", CWD: "/"})
		time.Sleep(time.Minute)
		store.setFull(false)
		time.Sleep(10 * time.Second)
		if n := store.count(); n != 1 {
			t.Errorf("%d saves since there is room again, want 1", n)
		}
	})
}

func TestGitFactsFollowTheCheckout(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(kaval.Terminal{ID: "a", CWD: dir})
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		time.Sleep(time.Second)
		if rec := one(t, w, "a"); rec.Git != nil || rec.PR.Kind != "unsupported" {
			t.Errorf("no repository: %+v", rec)
		}
		for _, branch := range []string{"main", "topic"} {
			makeRepo(t, dir, branch)
			time.Sleep(4 * time.Second)
			if rec := one(t, w, "a"); rec.Git == nil || rec.Git.Branch != branch {
				t.Errorf("on %s: %+v", branch, rec.Git)
			}
		}
		makeRepo(t, dir, "prompted")
		host.put(kaval.Terminal{ID: "a", CWD: dir, LastCommand: "git switch prompted"})
		time.Sleep(200 * time.Millisecond)
		if rec := one(t, w, "a"); rec.Git.Branch != "prompted" {
			t.Errorf("after a command: %+v", rec.Git)
		}
	})
}

func makeRepo(t *testing.T, dir, branch string) {
	t.Helper()
	if err := os.MkdirAll(dir+"/.git", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/.git/HEAD", []byte("ref: refs/heads/"+branch+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A terminal that is made while the list of a new line is on its way is not in that list, and stays all the same.
func TestATerminalMadeDuringTheListIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(kaval.Terminal{ID: "a"})
		w, stop := run(t, workspace.Options{Kaval: host, Instance: func(context.Context) (string, error) { return "1@1", nil }})
		defer stop()
		synctest.Wait()
		host.cut(true, false)
		synctest.Wait()
		var made padi.TerminalID
		host.mu.Lock()
		host.onSnapshot = func() { made = create(t, w, top()).ID }
		host.mu.Unlock()
		host.up()
		time.Sleep(3 * time.Second)
		if got := ids(t, w); made == "" || !slices.Contains(got, made) || one(t, w, made).State != padi.Active {
			t.Errorf("%s was made; the roster is %v", made, got)
		}
	})
}
