package paditui

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/padi"
)

// forest is a padi in memory that looks after worktrees.
type forest struct {
	*clitest.Workspace
	repo    string
	removed padi.RemoveWorktree
	kept    string
	err     error
}

func (f *forest) Worktrees(_ context.Context, repo string) ([]padi.WorktreeInfo, error) {
	f.repo = repo
	return []padi.WorktreeInfo{
		{Path: "/r", Head: "0123456789abcdef", Branch: "main", Main: true},
		{Path: "/r/.worktrees/a", Branch: "a\x1b", Locked: true, Gone: true, Terminals: []padi.TerminalID{idA, idB}},
	}, f.err
}

func (f *forest) RemoveWorktree(_ context.Context, req padi.RemoveWorktree) (padi.RemovedWorktree, error) {
	f.removed = req
	return padi.RemovedWorktree{Worktree: padi.Worktree{Path: "/r/.worktrees/a", Branch: "a"}, BranchKept: f.kept}, f.err
}

func runForest(f *forest, args ...string) clitest.Result {
	env, _, _ := clitest.Env("padi-tui", []string{"HOME=/home/me"}, args...)
	return clitest.Run(func(e *cli.Env) *cobra.Command {
		return NewWith(e, func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
			return client.NewPadi(f, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
		})
	}, env)
}

func TestWorktreeList(t *testing.T) {
	f := &forest{}
	res := runForest(f, "worktree", "list")
	want := "BRANCH  HEAD      STATE        TERMINALS          PATH\n" +
		"main    01234567  main         —                  /r\n" +
		"a       —         locked,gone  aaaaaaaa,bbbbbbbb  /r/.worktrees/a\n"
	if res.Code != 0 || res.Stdout != want || f.repo != "/the/dir" {
		t.Errorf("of %s: %s", f.repo, res)
	}
	res = runForest(f, "worktree", "list", "--repo", "sub", "--json")
	if res.Code != 0 || !strings.Contains(res.Stdout, `"locked": true`) || f.repo != "/the/dir/sub" {
		t.Errorf("of %s: %s", f.repo, res)
	}
}

func TestWorktreeRemove(t *testing.T) {
	f := &forest{}
	res := runForest(f, "worktree", "remove", "a", "--repo", "/r", "--force")
	if res.Code != 0 || res.Stdout != "" || res.Stderr != "— removed /r/.worktrees/a · and branch a\n" || f.removed != (padi.RemoveWorktree{Repo: "/r", Worktree: "a", Force: true}) {
		t.Errorf("%+v: %s", f.removed, res)
	}
	f.kept = "git: not merged"
	if res := runForest(f, "worktree", "remove", "a"); res.Code != 0 || !strings.Contains(res.Stderr, "branch a stays: git: not merged") {
		t.Errorf("%s", res)
	}
	for err, words := range map[error]string{
		padi.ErrWorktreeDirty: "--force", padi.ErrWorktreeLocked: "unlock", padi.ErrWorktreeBusy: "kill", padi.ErrWorktreeMain: "main checkout",
		padi.ErrNoWorktree: "no such worktree", padi.ErrNoRepo: "repository", errors.New("odd"): "odd",
	} {
		f.err = err
		if res := runForest(f, "worktree", "remove", "a"); res.Code != 1 || !strings.Contains(res.Stderr, words) || strings.Count(res.Stderr, "\n") != 1 {
			t.Errorf("%v: %s", err, res)
		}
	}
}

func TestWorktreeBadUsageNeverDials(t *testing.T) {
	for _, tt := range []struct {
		words string
		args  []string
	}{
		{"is blank", []string{"worktree", "list", "--repo", " "}},
		{"say which", []string{"worktree", "remove", ""}},
		{"argument is missing", []string{"worktree", "remove"}},
		{"--repo is needed", []string{"worktree", "list", "--host", "h"}},
		{"absolute", []string{"worktree", "remove", "a", "--host", "h", "--repo", "r"}},
	} {
		env, _, _ := clitest.Env("padi-tui", nil, tt.args...)
		res := clitest.Run(func(e *cli.Env) *cobra.Command {
			return NewWith(e, func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
				t.Errorf("%v dialled", tt.args)
				return nil, errors.New("dialled")
			})
		}, env)
		if res.Code != 1 || !strings.Contains(res.Stderr, tt.words) {
			t.Errorf("%v: %s", tt.args, res)
		}
	}
	if res := run(t, fakePadi(), "worktree", "list"); res.Code != 1 || !strings.Contains(res.Stderr, "looks after no worktrees") {
		t.Errorf("a padi that cannot: %s", res)
	}
}
