package workspace_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/workspace"
)

// fakeForge answers for each branch what a test says, after a time.
type fakeForge struct {
	mu    sync.Mutex
	prs   map[string]padi.PR
	takes time.Duration
	asked []string
}

func (f *fakeForge) Supports(remote string) bool { return strings.HasPrefix(remote, "https://forge/") }

func (f *fakeForge) PullRequest(ctx context.Context, _, branch string) padi.PR {
	f.mu.Lock()
	f.asked = append(f.asked, branch)
	pr, takes := f.prs[branch], f.takes
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return padi.PR{Kind: "unavailable", Code: "timed-out"}
	case <-time.After(takes):
		return pr
	}
}

func (f *fakeForge) put(branch string, pr padi.PR) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prs[branch] = pr
}

func (f *fakeForge) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.asked)
	f.asked = nil
	return n
}

// on puts a checkout on a branch and tells of a command, as a user's shell would.
func on(t *testing.T, host *fakeHost, id kaval.TerminalID, dir, branch string) {
	t.Helper()
	makeRepo(t, dir, branch)
	config := "[remote \"origin\"]\n\turl = https://forge/o/r\n"
	if err := os.WriteFile(dir+"/.git/config", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	host.put(kaval.Terminal{ID: id, CWD: dir, LastCommand: "git switch " + branch})
}

func TestPullRequestFollowsTheBranch(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		forge := &fakeForge{takes: 2 * time.Second, prs: map[string]padi.PR{
			"one": {Kind: "ok", Number: 1}, "two": {Kind: "ok", Number: 2},
		}}
		w, stop := run(t, workspace.Options{Kaval: host, Forge: forge})
		defer stop()
		numbers := map[string]int{"one": 1, "two": 2}
		go func() { // ends with the workspace
			for ev, err := range w.Watch(t.Context()) {
				if err != nil || ev.Record == nil || ev.Record.Git == nil {
					continue
				}
				if rec := ev.Record; rec.PR.Number != 0 && rec.PR.Number != numbers[rec.Git.Branch] {
					t.Errorf("on %s the pull request is %d", rec.Git.Branch, rec.PR.Number)
				}
			}
		}()
		shows := func(what string, want padi.PR) {
			t.Helper()
			if got := one(t, w, "a").PR; got.Kind != want.Kind || got.Number != want.Number {
				t.Errorf("%s: %+v", what, got)
			}
		}
		on(t, host, "a", dir, "one")
		time.Sleep(time.Second)
		shows("before the first answer", padi.PR{Kind: "pending"})
		time.Sleep(2 * time.Second)
		shows("answered", padi.PR{Kind: "ok", Number: 1})
		on(t, host, "a", dir, "two")
		time.Sleep(time.Second)
		shows("another branch never shows the first one's", padi.PR{Kind: "pending"})
		on(t, host, "a", dir, "one") // while the answer for two is under way
		time.Sleep(5 * time.Second)
		shows("back again, and two's answer came late", padi.PR{Kind: "ok", Number: 1})
		on(t, host, "b", other, "one") // a second terminal on the branch asks nothing
		forge.count()
		time.Sleep(time.Second)
		if rec := one(t, w, "b"); rec.PR.Number != 1 || forge.count() != 0 {
			t.Errorf("the second terminal shows %+v", rec.PR)
		}
		on(t, host, "a", dir, "") // detached in effect: no branch
		time.Sleep(time.Second)
		shows("no branch", padi.PR{Kind: "absent"})
	})
}

func TestPullRequestsAreAskedForEverMoreSeldom(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		forge := &fakeForge{prs: map[string]padi.PR{"b": {Kind: "ok", Number: 1, Checks: "pending"}}}
		w, stop := run(t, workspace.Options{Kaval: host, Forge: forge})
		defer stop()
		on(t, host, "a", dir, "b")
		time.Sleep(time.Second)
		forge.count()
		time.Sleep(10 * time.Minute)
		if n := forge.count(); n != 20 {
			t.Errorf("with checks under way asked %d times in ten minutes", n)
		}
		forge.put("b", padi.PR{Kind: "ok", Number: 1, Checks: "pass"})
		time.Sleep(31 * time.Second)
		if got := one(t, w, "a").PR; got.Checks != "pass" {
			t.Errorf("%+v", got)
		}
		forge.count()
		time.Sleep(time.Hour)
		if n := forge.count(); n < 12 || n > 16 {
			t.Errorf("where nothing moves asked %d times in an hour", n)
		}
		host.exit("a", 0)
		time.Sleep(10 * time.Minute)
		forge.count()
		time.Sleep(time.Hour)
		if n := forge.count(); n != 0 {
			t.Errorf("for nobody asked %d times", n)
		}
	})
}

// A forge that hangs holds up neither the roster nor another branch's answer.
func TestAForgeThatHangsHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		forge := &fakeForge{takes: time.Hour, prs: map[string]padi.PR{}}
		w, stop := run(t, workspace.Options{Kaval: host, Forge: forge})
		defer stop()
		on(t, host, "a", dir, "b")
		time.Sleep(time.Second)
		if rec := one(t, w, "a"); rec.Git == nil || rec.PR.Kind != "pending" {
			t.Errorf("meanwhile: %+v", rec)
		}
		time.Sleep(20 * time.Second)
		if got := one(t, w, "a").PR; got.Kind != "unavailable" || got.Code != "timed-out" {
			t.Errorf("after its time: %+v", got)
		}
	})
}

// Nothing is asked about a remote that is not the forge's.
func TestOtherForgesAreNotAsked(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		forge := &fakeForge{prs: map[string]padi.PR{}}
		w, stop := run(t, workspace.Options{Kaval: host, Forge: forge})
		defer stop()
		makeRepo(t, dir, "b")
		if err := os.WriteFile(dir+"/.git/config", []byte("[remote \"origin\"]\n\turl = https://other/o/r\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		host.put(kaval.Terminal{ID: "a", CWD: dir})
		time.Sleep(time.Minute)
		if rec := one(t, w, "a"); rec.Git == nil || rec.PR.Kind != "unsupported" || forge.count() != 0 {
			t.Errorf("%+v", rec)
		}
	})
}
