package workspace_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/repo"
	"kolu/daemon/padi/workspace"
)

var discard = slog.New(slog.DiscardHandler)

// fakeWatch is a watch that tells when a test says so.
type fakeWatch struct {
	mu       sync.Mutex
	changed  func(string)
	followed map[string]int
	kept     []string
	err      error
	closed   chan struct{}
}

func newFakeWatch() *fakeWatch {
	return &fakeWatch{followed: map[string]int{}, closed: make(chan struct{})}
}

func (f *fakeWatch) Follow(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followed[dir]++
	return f.err
}

func (f *fakeWatch) Keep(dirs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = dirs
}

func (f *fakeWatch) Run(changed func(string)) {
	f.mu.Lock()
	f.changed = changed
	f.mu.Unlock()
	<-f.closed
}

func (f *fakeWatch) tell(dir string) {
	f.mu.Lock()
	changed := f.changed
	f.mu.Unlock()
	changed(dir)
}

func (f *fakeWatch) Close() error {
	close(f.closed)
	return nil
}

func (f *fakeWatch) looks(dir string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.followed[dir]
	f.followed[dir] = 0
	return n
}

// A watch makes looks rare and changes quick; what it misses is found all the same, and where it fails looks are frequent again.
func TestWatchedRepositories(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		host, watch := newFake(), newFakeWatch()
		w, stop := run(t, workspace.Options{Kaval: host, WatchRepos: func() (workspace.RepoWatch, error) { return watch, nil }})
		defer stop()
		host.put(kaval.Terminal{ID: "a", CWD: dir})
		makeRepo(t, dir, "main")
		time.Sleep(time.Second)
		watch.looks(dir)
		time.Sleep(time.Minute)
		if n := watch.looks(dir); n > 7 {
			t.Errorf("looked %d times in a quiet minute", n)
		}
		makeRepo(t, dir, "told")
		watch.tell(dir)
		time.Sleep(200 * time.Millisecond)
		if got := one(t, w, "a").Git.Branch; got != "told" {
			t.Errorf("on %s though it was told", got)
		}
		makeRepo(t, dir, "missed")
		time.Sleep(11 * time.Second)
		if got := one(t, w, "a").Git.Branch; got != "missed" {
			t.Errorf("on %s though time has passed", got)
		}
		for range 1000 {
			watch.tell(dir)
		}
		watch.looks(dir)
		time.Sleep(time.Second)
		if n := watch.looks(dir); n > 8 {
			t.Errorf("looked %d times in a noisy second", n)
		}
		watch.mu.Lock()
		watch.err = errors.New("no room for watches")
		watch.mu.Unlock()
		time.Sleep(10 * time.Second)
		watch.looks(dir)
		time.Sleep(time.Minute)
		if n := watch.looks(dir); n < 15 {
			t.Errorf("looked %d times in a minute without a watch", n)
		}
		host.exit("a", 0)
		time.Sleep(11 * time.Second)
		watch.mu.Lock()
		defer watch.mu.Unlock()
		if len(watch.kept) != 0 {
			t.Errorf("kept %v", watch.kept)
		}
	})
}

// With the real watch a branch that changes behind everybody's back is in the roster at once, and not only after the next look.
func TestABranchSwitchIsTold(t *testing.T) {
	dir := repository(t)
	host := newFake()
	host.put(kaval.Terminal{ID: "a", CWD: dir})
	w, stop := run(t, workspace.Options{Kaval: host, WatchRepos: func() (workspace.RepoWatch, error) { return repo.NewWatch() }})
	defer stop()
	branch := make(chan string, 100)
	go func() { // ends with the workspace
		for ev, err := range w.Watch(t.Context()) {
			records := ev.Records
			if ev.Record != nil {
				records = append(records, *ev.Record)
			}
			for _, rec := range records {
				if err == nil && rec.Git != nil {
					branch <- rec.Git.Branch
				}
			}
		}
	}()
	await := func(want string) time.Duration {
		t.Helper()
		began := time.Now()
		for late := time.After(60 * time.Second); ; {
			select {
			case got := <-branch:
				if got == want {
					return time.Since(began)
				}
			case <-late:
				t.Fatalf("never on %s", want)
			}
		}
	}
	await("main")
	for _, name := range []string{"b1", "b2", "b3"} {
		if out, err := exec.Command("git", "-C", dir, "switch", "-q", "-c", name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if took := await(name); took > 5*time.Second { // the next look by itself comes after ten
			t.Errorf("%s was told of after %s", name, took)
		}
		time.Sleep(200 * time.Millisecond) // out of the gap between two looks
	}
}

// A hung look ends nothing and is asked for again when it returns.
func TestAChangeDuringALookIsNotLost(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		host, watch := newFake(), newFakeWatch()
		w, stop := run(t, workspace.Options{Kaval: host, WatchRepos: func() (workspace.RepoWatch, error) {
			return slowWatch{watch}, nil
		}})
		defer stop()
		makeRepo(t, dir, "main")
		host.put(kaval.Terminal{ID: "a", CWD: dir})
		time.Sleep(time.Second) // into the first look
		watch.tell(dir)
		time.Sleep(5 * time.Second)
		if n := watch.looks(dir); n < 2 {
			t.Errorf("looked %d times", n)
		}
		if rec := one(t, w, "a"); rec.Git == nil || rec.Git.Branch != "main" {
			t.Errorf("%+v", rec.Git)
		}
	})
}

// slowWatch takes its time.
type slowWatch struct{ *fakeWatch }

func (s slowWatch) Follow(dir string) error {
	time.Sleep(2 * time.Second)
	return s.fakeWatch.Follow(dir)
}

// BenchmarkStatus is what `status` asks, with 100 terminals in one repository with files that it ignores (KOLU_BENCH_REPO, else an empty
// one), beside one run of `git status` there.
func BenchmarkStatus(b *testing.B) {
	dir := os.Getenv("KOLU_BENCH_REPO")
	if dir == "" {
		dir = b.TempDir()
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	host := newFake()
	for i := range 100 {
		host.put(kaval.Terminal{ID: kaval.TerminalID("t" + string(rune('0'+i/10)) + string(rune('0'+i%10))), CWD: dir})
	}
	w := workspace.New(workspace.Options{Kaval: host, Log: discard, WatchRepos: func() (workspace.RepoWatch, error) { return repo.NewWatch() }})
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(b.Context()) })
	b.Run("terminals", func(b *testing.B) {
		for b.Loop() {
			if list, err := w.Terminals(b.Context()); err != nil || len(list) != 100 {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("git status", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.GitStatus(b.Context(), padi.GitStatusRequest{Repo: dir}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A repository with many files that it ignores, and a git that never answers, cost the roster nothing.
func TestStatusDoesNotWaitForGit(t *testing.T) {
	dir := repository(t)
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("out/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for d := range 20 {
		out := filepath.Join(dir, "out", strconv.Itoa(d))
		if err := os.MkdirAll(out, 0o755); err != nil {
			t.Fatal(err)
		}
		for f := range 100 {
			if err := os.Mkdir(filepath.Join(out, strconv.Itoa(f)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	host := newFake()
	for i := range 100 {
		host.put(kaval.Terminal{ID: kaval.TerminalID(strconv.Itoa(i)), CWD: dir})
	}
	w, stop := run(t, workspace.Options{Kaval: host, WatchRepos: func() (workspace.RepoWatch, error) { return repo.NewWatch() }})
	defer stop()
	asked, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 10 { // more than may run at once
		wg.Go(func() { w.GitStatus(asked, padi.GitStatusRequest{Repo: dir}) })
	}
	for late := time.Now().Add(60 * time.Second); one(t, w, "99").Git == nil; {
		if time.Now().After(late) {
			t.Fatal("the branch is never known")
		}
		time.Sleep(10 * time.Millisecond)
	}
	best := time.Hour
	for range 20 {
		began := time.Now()
		if list, err := w.Terminals(t.Context()); err != nil || len(list) != 100 || list[0].Git.Branch != "main" {
			t.Fatalf("%d terminals, %v", len(list), err)
		}
		best = min(best, time.Since(began))
	}
	if best > 20*time.Millisecond {
		t.Errorf("the roster takes %s", best)
	}
}
