package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// maxTrees bounds a list of worktrees, in bytes.
const maxTrees = 4 << 20

// Worktrees lists the checkouts of the repository that dir is in, the main one first. The errors are those of padi.CodeTree.
func Worktrees(ctx context.Context, dir string) ([]padi.WorktreeInfo, error) {
	if _, err := checkout(dir); err != nil {
		return nil, err
	}
	end := "\x00"
	res, err := git(ctx, dir, maxTrees, "worktree", "list", "--porcelain", "-z")
	if e, ok := errors.AsType[*gitError](err); ok && e.code == usageError { // git before 2.36
		end = "\n"
		res, err = git(ctx, dir, maxTrees, "worktree", "list", "--porcelain")
	}
	if err != nil {
		return nil, err
	}
	trees := []padi.WorktreeInfo{}
	for block := range strings.SplitSeq(string(res.out), end+end) {
		if t := worktreeInfo(strings.Split(block, end)); t.Path != "" {
			t.Main = len(trees) == 0
			trees = append(trees, t)
		}
	}
	return trees, nil
}

// usageError is how git ends when it does not know an option.
const usageError = 129

func worktreeInfo(lines []string) (t padi.WorktreeInfo) {
	for _, line := range lines {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "worktree":
			t.Path = value
		case "HEAD":
			t.Head = strings.Trim(value, "0") // before the first commit it is all zeros
			if t.Head != "" {
				t.Head = value
			}
		case "branch":
			t.Branch = strings.TrimPrefix(value, "refs/heads/")
		case "bare":
			t.Bare = true
		case "locked":
			t.Locked, t.Reason = true, value
		}
	}
	if t.Path != "" {
		_, err := os.Stat(t.Path)
		t.Gone = errors.Is(err, os.ErrNotExist)
	}
	return t
}

// RemoveWorktree removes one; inUse gives the terminals that are in a directory. See padi.Worktrees for what it refuses.
func RemoveWorktree(ctx context.Context, req padi.RemoveWorktree, inUse func(path string) []padi.TerminalID) (padi.RemovedWorktree, error) {
	trees, err := Worktrees(ctx, req.Repo)
	if err != nil {
		return padi.RemovedWorktree{}, err
	}
	tree, err := pick(trees, req.Worktree)
	if err != nil {
		return padi.RemovedWorktree{}, err
	}
	if err := removable(ctx, tree, req.Force, inUse(tree.Path)); err != nil {
		return padi.RemovedWorktree{}, fmt.Errorf("%s: %w", tree.Path, err)
	}
	args := []string{"worktree", "remove"}
	if req.Force {
		args = append(args, "--force")
	}
	top := trees[0].Path // the command must not run in what it removes
	if _, err := gitWithin(ctx, treeLimit, top, maxWords, append(args, "--", tree.Path)...); err != nil {
		return padi.RemovedWorktree{}, fmt.Errorf("remove %s: %w", tree.Path, err)
	}
	gone := padi.RemovedWorktree{Worktree: padi.Worktree{Path: tree.Path, Branch: tree.Branch}}
	gone.BranchKept = deleteBranch(ctx, top, tree.Branch, req.Force)
	return gone, nil
}

// pick finds the worktree that a word means: its path, else its branch, else the name of its directory.
func pick(trees []padi.WorktreeInfo, word string) (padi.WorktreeInfo, error) {
	if word == "" {
		return padi.WorktreeInfo{}, kaval.Invalidf("say which worktree: by its path, its branch or its directory's name")
	}
	path := filepath.Clean(word)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	for _, means := range []func(padi.WorktreeInfo) bool{
		func(t padi.WorktreeInfo) bool { return filepath.IsAbs(path) && t.Path == path },
		func(t padi.WorktreeInfo) bool { return t.Branch == word },
		func(t padi.WorktreeInfo) bool { return filepath.Base(t.Path) == word },
	} {
		found := slices.DeleteFunc(slices.Clone(trees), func(t padi.WorktreeInfo) bool { return !means(t) })
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return padi.WorktreeInfo{}, kaval.Invalidf("%d worktrees are called %s: give the path", len(found), word)
		}
	}
	return padi.WorktreeInfo{}, fmt.Errorf("%s: %w", word, padi.ErrNoWorktree)
}

func removable(ctx context.Context, t padi.WorktreeInfo, force bool, terminals []padi.TerminalID) error {
	switch {
	case t.Main:
		return padi.ErrWorktreeMain
	case t.Locked && t.Reason != "":
		return fmt.Errorf("%w: %s", padi.ErrWorktreeLocked, t.Reason)
	case t.Locked:
		return padi.ErrWorktreeLocked
	case len(terminals) > 0:
		ids := make([]string, len(terminals))
		for i, id := range terminals {
			ids[i] = id.Short()
		}
		return fmt.Errorf("%w: %s", padi.ErrWorktreeBusy, strings.Join(ids, ", "))
	case force || t.Gone:
		return nil
	}
	res, err := git(ctx, t.Path, maxWords, "status", "--porcelain", "-z", "--untracked-files=normal")
	if err != nil {
		return err
	}
	if changes := strings.Count(string(res.out), "\x00"); res.cut || changes > 0 {
		return padi.ErrWorktreeDirty
	}
	return nil
}

// deleteBranch says why the branch is still there. Without force git keeps one whose commits are nowhere else.
func deleteBranch(ctx context.Context, top, branch string, force bool) (kept string) {
	if branch == "" {
		return ""
	}
	how := "-d"
	if force {
		how = "-D"
	}
	_, err := git(ctx, top, maxWords, "branch", how, "--", branch)
	if err == nil {
		return ""
	}
	return err.Error()
}
