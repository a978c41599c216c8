package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Worktree makes the branch name and a worktree of it under <main checkout>/.worktrees/<name>, cut from the checkout that dir is
// in as it stands. A bad name gives kaval.ErrInvalid; everything that git refuses gives padi.ErrWorktree with git's words.
func Worktree(ctx context.Context, dir, name string) (padi.Worktree, error) {
	if err := checkName(name); err != nil {
		return padi.Worktree{}, err
	}
	l, ok, err := find(dir)
	if err != nil {
		return padi.Worktree{}, fmt.Errorf("%w: %v", padi.ErrWorktree, err)
	}
	if !ok {
		return padi.Worktree{}, fmt.Errorf("%w: %s is not in a git repository", padi.ErrWorktree, dir)
	}
	path := filepath.Join(l.mainRoot(), ".worktrees", name)
	if _, err := os.Lstat(path); err == nil {
		return padi.Worktree{}, fmt.Errorf("%w: %s exists", padi.ErrWorktree, path)
	}
	if _, err := gitWithin(ctx, treeLimit, dir, maxWords, "worktree", "add", "-q", "-b", name, "--", path, "HEAD"); err != nil {
		return padi.Worktree{}, fmt.Errorf("%w: %v", padi.ErrWorktree, err)
	}
	_ = exclude(ctx, l) // the worktree is there; one that shows in a status is no failure
	return padi.Worktree{Path: path, Branch: name}, nil
}

// exclude has the main checkout ignore the worktrees in it, else its status shows them and git add takes them for repositories of its own.
// The repository's own list is for this clone alone; nothing that is committed changes.
func exclude(ctx context.Context, l layout) error {
	main := l.mainRoot()
	if main == l.commonDir { // a bare one has no status
		return nil
	}
	shown, err := git(ctx, main, maxWords, "ls-files", "--others", "--exclude-standard", "--directory", "--", ".worktrees")
	if err != nil || len(shown.out) == 0 {
		return err
	}
	if err := os.MkdirAll(filepath.Join(l.commonDir, "info"), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(l.commonDir, "info", "exclude"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n/.worktrees/\n")
	return errors.Join(err, f.Close())
}

func checkName(name string) error {
	switch {
	case name == "":
		return kaval.Invalidf("a worktree needs a name")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return kaval.Invalidf("worktree name %q has white space in it", name)
	case strings.Contains(name, ".."), strings.ContainsAny(name, `~^:?*[\`), strings.HasPrefix(name, "-"),
		strings.HasPrefix(name, "/"), strings.HasSuffix(name, "/"), strings.Contains(name, "//"):
		return kaval.Invalidf("worktree name %q cannot be a branch", name)
	}
	return nil
}
