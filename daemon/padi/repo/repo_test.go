package repo_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/repo"
)

// tmp is a directory with the name that git would give it.
func tmp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// fresh makes a repository with one commit on main.
func fresh(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(tmp(t), "proj")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
	return dir
}

func facts(t *testing.T, dir string) *padi.Git {
	t.Helper()
	got, err := repo.Facts(dir)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFacts(t *testing.T) {
	dir := fresh(t)
	want := &padi.Git{RepoRoot: dir, RepoName: "proj", WorktreePath: dir, Branch: "main", MainRepoRoot: dir}
	check := func(what, at string) {
		t.Helper()
		if diff := cmp.Diff(want, facts(t, at)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("the checkout", dir)
	sub := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	check("below it", sub)
	check("its .git", filepath.Join(dir, ".git"))
	link := filepath.Join(tmp(t), "link")
	if err := os.Symlink(sub, link); err != nil {
		t.Fatal(err)
	}
	check("through a link", link)

	git(t, dir, "remote", "add", "origin", "https://user:secret@example.com/o/proj.git")
	want.RemoteURL = "https://example.com/o/proj.git"
	git(t, dir, "checkout", "-q", "-b", "topic/x")
	want.Branch = "topic/x"
	check("another branch", dir)
	git(t, dir, "checkout", "-q", "--detach")
	want.Branch = "HEAD"
	check("detached", dir)

	tree := filepath.Join(tmp(t), "tree")
	git(t, dir, "worktree", "add", "-q", "-b", "wt", tree)
	want.RepoRoot, want.WorktreePath, want.Branch, want.IsWorktree = tree, tree, "wt", true
	check("a worktree", tree)
}

func TestFactsOfOddRepositories(t *testing.T) {
	dir := fresh(t)
	bare := filepath.Join(tmp(t), "store.git")
	git(t, dir, "clone", "-q", "--bare", dir, bare)
	if got := facts(t, bare); got.RepoName != "store" || got.Branch != "main" || got.IsWorktree || got.MainRepoRoot != bare {
		t.Errorf("bare: %+v", got)
	}
	tree := filepath.Join(tmp(t), "tree")
	git(t, bare, "worktree", "add", "-q", "-b", "wt", tree)
	if got := facts(t, tree); got.RepoName != "store" || got.Branch != "wt" || !got.IsWorktree || got.MainRepoRoot != bare {
		t.Errorf("worktree of a bare one: %+v", got)
	}
	git(t, dir, "-c", "protocol.file.allow=always", "submodule", "add", "-q", bare, "sub")
	sub := filepath.Join(dir, "sub")
	if got := facts(t, sub); got.RepoName != "sub" || got.IsWorktree || got.RepoRoot != sub || got.RemoteURL != bare {
		t.Errorf("submodule: %+v", got)
	}
	unborn := tmp(t)
	git(t, unborn, "init", "-q", "-b", "first")
	if got := facts(t, unborn); got.Branch != "first" || got.RemoteURL != "" {
		t.Errorf("unborn: %+v", got)
	}
}

func TestFactsOfNoRepository(t *testing.T) {
	for _, dir := range []string{"/proc", tmp(t), "/no/such/directory"} {
		if got, err := repo.Facts(dir); got != nil || err != nil {
			t.Errorf("%s: %+v, %v", dir, got, err)
		}
	}
}

func TestRemoteURLsComeWithoutCredentials(t *testing.T) {
	dir := fresh(t)
	git(t, dir, "remote", "add", "other", "https://other.example/x")
	git(t, dir, "remote", "add", "origin", "x")
	for url, want := range map[string]string{
		"https://token@h.example/o/r.git":     "https://h.example/o/r.git",
		"https://u:p%40ss@h.example:8443/o/r": "https://h.example:8443/o/r",
		"https://u:100%@h.example/o/r":        "https://h.example/o/r",
		"ssh://git:pw@h.example:22/o/r":       "ssh://git@h.example:22/o/r",
		"git@h.example:o/r.git":               "git@h.example:o/r.git",
		"/srv/a b;c#d.git":                    "/srv/a b;c#d.git",
		`C:\repos\"quoted"`:                   `C:\repos\"quoted"`,
	} {
		git(t, dir, "remote", "set-url", "origin", url)
		if got := facts(t, dir).RemoteURL; got != want {
			t.Errorf("%s came as %s, want %s", url, got, want)
		}
	}
}

func TestWorktree(t *testing.T) {
	dir := fresh(t)
	git(t, dir, "checkout", "-q", "-b", "here")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "two")
	head := git(t, dir, "rev-parse", "HEAD")
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := repo.Worktree(t.Context(), sub, "fix/one")
	if want := (padi.Worktree{Path: filepath.Join(dir, ".worktrees", "fix/one"), Branch: "fix/one"}); err != nil || made != want {
		t.Fatalf("made %+v, %v", made, err)
	}
	if got := git(t, made.Path, "rev-parse", "HEAD"); got != head || git(t, made.Path, "branch", "--show-current") != "fix/one" {
		t.Errorf("the worktree is at %s, the checkout at %s", got, head)
	}
	// From within a worktree: beside it, and from its own HEAD.
	git(t, made.Path, "commit", "-q", "--allow-empty", "-m", "three")
	second, err := repo.Worktree(t.Context(), made.Path, "two")
	if err != nil || second.Path != filepath.Join(dir, ".worktrees", "two") {
		t.Fatalf("made %+v, %v", second, err)
	}
	if got, want := git(t, second.Path, "rev-parse", "HEAD"), git(t, made.Path, "rev-parse", "HEAD"); got != want {
		t.Errorf("cut from %s, want %s", got, want)
	}
}

func TestWorktreeRefusals(t *testing.T) {
	dir := fresh(t)
	for _, name := range []string{"", " ", "a b", "a\tb", "a..b", "~a", "a^", "a:b", "a?", "a*", "a[b", `a\b`, "-a", "/a", "a/", "a//b", "a\x01"} {
		if _, err := repo.Worktree(t.Context(), dir, name); !errors.Is(err, kaval.ErrInvalid) {
			t.Errorf("%q gave %v", name, err)
		}
	}
	for name, words := range map[string]string{"main": "already exists", "a.lock": "not a valid branch name"} {
		_, err := repo.Worktree(t.Context(), dir, name)
		if !errors.Is(err, padi.ErrWorktree) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q gave %v, want git's words: %s", name, err, words)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ".worktrees", "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Worktree(t.Context(), dir, "taken"); !errors.Is(err, padi.ErrWorktree) || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a path that exists gave %v", err)
	}
	if _, err := repo.Worktree(t.Context(), tmp(t), "x"); !errors.Is(err, padi.ErrWorktree) {
		t.Errorf("no repository gave %v", err)
	}
	unborn := tmp(t)
	git(t, unborn, "init", "-q")
	if _, err := repo.Worktree(t.Context(), unborn, "x"); !errors.Is(err, padi.ErrWorktree) {
		t.Errorf("a repository without a commit gave %v", err)
	}
	if left := git(t, dir, "branch", "--format=%(refname:short)"); left != "main" {
		t.Errorf("branches left behind: %s", left)
	}
}

// The checkout that worktrees are cut from stays as clean as it was, and git add takes none of them.
func TestWorktreesStayOutOfTheStatus(t *testing.T) {
	dir := fresh(t)
	for _, name := range []string{"one", "two"} {
		if _, err := repo.Worktree(t.Context(), dir, name); err != nil {
			t.Fatal(err)
		}
	}
	if got := git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("the status shows %q", got)
	}
	list, err := os.ReadFile(filepath.Join(dir, ".git", "info", "exclude"))
	if err != nil || strings.Count(string(list), "/.worktrees/\n") != 1 {
		t.Errorf("%v: %s", err, list)
	}
	own := fresh(t)
	if err := os.WriteFile(filepath.Join(own, ".gitignore"), []byte(".worktrees\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := repo.Worktree(t.Context(), own, "one"); err != nil {
		t.Fatal(err)
	}
	if list, _ := os.ReadFile(filepath.Join(own, ".git", "info", "exclude")); strings.Contains(string(list), ".worktrees") {
		t.Errorf("what is ignored already is noted again: %s", list)
	}
}
