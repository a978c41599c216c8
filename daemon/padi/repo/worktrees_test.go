package repo_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/repo"
)

func nobody(string) []padi.TerminalID { return nil }

// cut makes a worktree of a repository.
func cut(t *testing.T, dir, name string) padi.Worktree {
	t.Helper()
	made, err := repo.Worktree(t.Context(), dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func trees(t *testing.T, dir string) []padi.WorktreeInfo {
	t.Helper()
	got, err := repo.Worktrees(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWorktreesAreListed(t *testing.T) {
	dir := fresh(t)
	head := git(t, dir, "rev-parse", "HEAD")
	one, odd := cut(t, dir, "fix/one"), cut(t, dir, "tä'g")
	git(t, dir, "worktree", "lock", "--reason", "on a stick", odd.Path)
	loose := filepath.Join(tmp(t), "with\nnewline")
	git(t, dir, "worktree", "add", "-q", "--detach", loose)
	gone := cut(t, dir, "gone")
	if err := os.RemoveAll(gone.Path); err != nil {
		t.Fatal(err)
	}
	want := map[string]padi.WorktreeInfo{
		dir:       {Path: dir, Head: head, Branch: "main", Main: true},
		one.Path:  {Path: one.Path, Head: head, Branch: "fix/one"},
		odd.Path:  {Path: odd.Path, Head: head, Branch: "tä'g", Locked: true, Reason: "on a stick"},
		loose:     {Path: loose, Head: head},
		gone.Path: {Path: gone.Path, Head: head, Branch: "gone", Gone: true},
	}
	got := map[string]padi.WorktreeInfo{}
	for _, tree := range trees(t, one.Path) {
		got[tree.Path] = tree
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := repo.Worktrees(t.Context(), tmp(t)); !errors.Is(err, padi.ErrNoRepo) {
		t.Errorf("no repository gave %v", err)
	}
}

func TestWorktreeIsRemovedByAnyName(t *testing.T) {
	dir := fresh(t)
	link := filepath.Join(tmp(t), "link")
	if err := os.Symlink(filepath.Join(dir, ".worktrees", "b"), link); err != nil {
		t.Fatal(err)
	}
	cut(t, dir, "a/one")
	cut(t, dir, "b")
	cut(t, dir, "c/two")
	from := cut(t, dir, "d").Path // also out of itself
	for _, word := range []string{"a/one", link, "two", from} {
		gone, err := repo.RemoveWorktree(t.Context(), padi.RemoveWorktree{Repo: from, Worktree: word}, nobody)
		if err != nil || gone.BranchKept != "" {
			t.Errorf("%s: %+v, %v", word, gone, err)
		}
		if _, err := os.Stat(gone.Path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", gone.Path)
		}
	}
	if left := git(t, dir, "branch", "--format=%(refname:short)"); left != "main" {
		t.Errorf("branches left behind: %s", left)
	}
}

func TestRemovingAWorktreeIsRefused(t *testing.T) {
	dir := fresh(t)
	cut(t, dir, "x/same")
	cut(t, dir, "y/same")
	dirty, locked, busy := cut(t, dir, "dirty"), cut(t, dir, "locked"), cut(t, dir, "busy")
	if err := os.WriteFile(filepath.Join(dirty.Path, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "worktree", "lock", "--reason", "on a stick", locked.Path)
	inUse := func(path string) []padi.TerminalID {
		if path == busy.Path {
			return []padi.TerminalID{"0badcafe-0000-4000-8000-000000000000"}
		}
		return nil
	}
	before := trees(t, dir)
	for _, tt := range []struct {
		word  string
		force bool
		want  error
		words string
	}{
		{"main", true, padi.ErrWorktreeMain, ""},
		{dir, false, padi.ErrWorktreeMain, ""},
		{"dirty", false, padi.ErrWorktreeDirty, dirty.Path},
		{"locked", true, padi.ErrWorktreeLocked, "on a stick"},
		{"busy", true, padi.ErrWorktreeBusy, "0badcafe"},
		{"same", false, kaval.ErrInvalid, "2 worktrees"},
		{"", false, kaval.ErrInvalid, ""},
		{"nowhere", false, padi.ErrNoWorktree, "nowhere"},
		{"/no/such", true, padi.ErrNoWorktree, ""},
	} {
		_, err := repo.RemoveWorktree(t.Context(), padi.RemoveWorktree{Repo: dir, Worktree: tt.word, Force: tt.force}, inUse)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%q force=%v gave %v, want %v with %q", tt.word, tt.force, err, tt.want, tt.words)
		}
	}
	if diff := cmp.Diff(before, trees(t, dir)); diff != "" {
		t.Errorf("a refusal changed something: %s", diff)
	}
}

// A branch whose commits are nowhere else outlives its worktree, unless it is forced.
func TestRemovingAWorktreeLosesNoCommit(t *testing.T) {
	dir := fresh(t)
	for _, force := range []bool{false, true} {
		made := cut(t, dir, "work")
		git(t, made.Path, "commit", "-q", "--allow-empty", "-m", "mine alone")
		gone, err := repo.RemoveWorktree(t.Context(), padi.RemoveWorktree{Repo: dir, Worktree: "work", Force: force}, nobody)
		if err != nil || (gone.BranchKept == "") != force {
			t.Errorf("force=%v: %+v, %v", force, gone, err)
		}
		branches := git(t, dir, "branch", "--format=%(refname:short)")
		if strings.Contains(branches, "work") == force {
			t.Errorf("force=%v left the branches %q", force, branches)
		}
		if !force {
			git(t, dir, "branch", "-D", "work")
		}
	}
	dirty := cut(t, dir, "dirty")
	if err := os.WriteFile(filepath.Join(dirty.Path, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := repo.RemoveWorktree(t.Context(), padi.RemoveWorktree{Repo: dir, Worktree: "dirty", Force: true}, nobody); err != nil {
		t.Errorf("force over changes: %v", err)
	}
	loose := filepath.Join(tmp(t), "loose")
	git(t, dir, "worktree", "add", "-q", "--detach", loose)
	if err := os.RemoveAll(loose); err != nil {
		t.Fatal(err)
	}
	if gone, err := repo.RemoveWorktree(t.Context(), padi.RemoveWorktree{Repo: dir, Worktree: loose}, nobody); err != nil || gone.BranchKept != "" {
		t.Errorf("one that is gone already: %+v, %v", gone, err)
	}
}
