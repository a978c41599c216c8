package repo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
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
	if err := git(ctx, dir, "worktree", "add", "-b", name, "--", path, "HEAD"); err != nil {
		return padi.Worktree{}, fmt.Errorf("%w: %v", padi.ErrWorktree, err)
	}
	return padi.Worktree{Path: path, Branch: name}, nil
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

// git runs the git program in dir. Its error is what git said last.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = gitEnv()
	cmd.WaitDelay = 2 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if words := lastLine(string(out)); words != "" {
		return fmt.Errorf("git: %s", words)
	}
	return fmt.Errorf("git %s: %w", args[0], err)
}

func gitEnv() []string {
	env := []string{"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"}
	for k, v := range kaval.CleanEnv(os.Environ()) {
		env = append(env, k+"="+v)
	}
	return env
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines {
		if strings.HasPrefix(l, "fatal:") || strings.HasPrefix(l, "error:") {
			return strings.TrimSpace(l)
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
