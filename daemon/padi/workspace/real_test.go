package workspace_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/ptyhost"
	"kolu/daemon/padi"
	"kolu/daemon/padi/paditest"
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/workspace"
)

// open gives a workspace over real terminals.
func open(t *testing.T, environ ...string) *workspace.Workspace {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	store, err := session.Open(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	host := ptyhost.New(ptyhost.Options{Log: log, RunDir: t.TempDir()})
	t.Cleanup(host.Close)
	w, stop := run(t, workspace.Options{Kaval: host, Store: store, Environ: append(os.Environ(), environ...)})
	t.Cleanup(stop)
	return w
}

func TestWorkspaceInProcess(t *testing.T) {
	for _, shell := range []string{"/bin/bash", "/bin/zsh", "/usr/bin/fish"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(shell); err != nil {
				t.Fatalf("the tests need %s: %v", shell, err)
			}
			home := t.TempDir()
			paditest.TestWorkspace(t, func(t *testing.T) padi.Workspace { return open(t, "SHELL="+shell, "HOME="+home) })
		})
	}
}

// repository makes a repository with one commit on main.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"commit", "-q", "--allow-empty", "-m", "one"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
	return dir
}

func TestCreateInAWorktree(t *testing.T) {
	dir := repository(t)
	w := open(t, "SHELL=/bin/bash", "HOME="+t.TempDir())
	req := top()
	req.Worktree, req.Repo, req.Run = "topic", dir, []string{"git", "switch", "-q", "-c", "moved"}
	made := create(t, w, req)
	path := filepath.Join(dir, ".worktrees", "topic")
	if made.Worktree == nil || *made.Worktree != (padi.Worktree{Path: path, Branch: "topic"}) {
		t.Fatalf("made %+v", made)
	}
	// The command that was typed switches the branch, which the record follows.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var rec padi.Record
	for ev, err := range w.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Record == nil || ev.ID != made.ID {
			continue
		}
		if rec = *ev.Record; rec.Git != nil && rec.Git.Branch == "moved" {
			break
		}
	}
	want := &padi.Git{RepoRoot: path, RepoName: filepath.Base(dir), WorktreePath: path, Branch: "moved", IsWorktree: true, MainRepoRoot: dir}
	if diff := cmp.Diff(want, rec.Git); diff != "" || rec.CWD != path {
		t.Errorf("in %s: %s", rec.CWD, diff)
	}
	if _, err := w.Create(t.Context(), req); !errors.Is(err, padi.ErrWorktree) {
		t.Errorf("the same worktree again: %v", err)
	}
}

// A worktree that was made before the terminal could not be is named, so that nobody makes it twice.
func TestAWorktreeWithoutATerminalIsNamed(t *testing.T) {
	dir := repository(t)
	w := open(t, "SHELL=/no/such/shell", "HOME="+t.TempDir())
	req := top()
	req.Worktree, req.Repo = "topic", dir
	_, err := w.Create(t.Context(), req)
	partial, ok := errors.AsType[*padi.PartialError](err)
	if !ok || !errors.Is(err, kaval.ErrSpawn) || partial.Landed.ID != "" || partial.Landed.Worktree == nil ||
		!strings.Contains(err.Error(), filepath.Join(dir, ".worktrees", "topic")) {
		t.Errorf("got %v", err)
	}
}

func TestAWorktreeWithATerminalStays(t *testing.T) {
	dir := repository(t)
	w := open(t, "SHELL=/bin/sh", "HOME="+t.TempDir())
	made, err := w.Create(t.Context(), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Repo: dir, Worktree: "topic"})
	if err != nil {
		t.Fatal(err)
	}
	main, err := w.Create(t.Context(), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: dir})
	if err != nil {
		t.Fatal(err)
	}
	trees, err := w.Worktrees(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []padi.WorktreeInfo{
		{Path: dir, Head: trees[0].Head, Branch: "main", Main: true, Terminals: []padi.TerminalID{main.ID}},
		{Path: made.Worktree.Path, Head: trees[0].Head, Branch: "topic", Terminals: []padi.TerminalID{made.ID}},
	}
	if diff := cmp.Diff(want, trees); err != nil || diff != "" {
		t.Errorf("listed: %v %s", err, diff)
	}
	remove := padi.RemoveWorktree{Repo: dir, Worktree: "topic", Force: true}
	if _, err := w.RemoveWorktree(t.Context(), remove); !errors.Is(err, padi.ErrWorktreeBusy) || !strings.Contains(err.Error(), made.ID.Short()) {
		t.Errorf("with a terminal in it: %v", err)
	}
	if _, err := w.Kill(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.RemoveWorktree(t.Context(), remove); err != nil {
		t.Errorf("without one: %v", err)
	}
	for what, err := range map[string]error{
		"worktrees": second(w.Worktrees(t.Context(), "rel")), "files": second(w.Files(t.Context(), padi.FilesRequest{Repo: "rel"})),
		"file": second(w.File(t.Context(), padi.PathRequest{Repo: "."})), "status": second(w.GitStatus(t.Context(), padi.GitStatusRequest{})),
	} {
		if !errors.Is(err, kaval.ErrInvalid) {
			t.Errorf("%s of a path that is not absolute gave %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
