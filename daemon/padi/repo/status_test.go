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

func status(t *testing.T, dir string, mode padi.DiffMode) padi.GitStatus {
	t.Helper()
	got, err := repo.Status(t.Context(), padi.GitStatusRequest{Repo: dir, Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// changes makes a checkout with one file of each kind of change against its last commit.
func changes(t *testing.T) string {
	t.Helper()
	dir := fresh(t)
	for _, name := range []string{"deleted", "modified", "staged", "type", "old name", "old\nodd"} {
		write(t, dir, name, strings.Repeat(name+"\n", 20))
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "files")
	write(t, dir, "modified", "x\n")
	write(t, dir, "staged", "x\n")
	write(t, dir, "added", "x\n")
	git(t, dir, "add", "staged", "added")
	write(t, dir, "added", "y\n")
	git(t, dir, "mv", "old name", "new name")
	git(t, dir, "mv", "old\nodd", "new\todd")
	for _, name := range []string{"deleted", "type"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(t, "x", dir, "type")
	write(t, dir, "sub/untracked ä", "x\n")
	return dir
}

func TestLocalStatus(t *testing.T) {
	dir := changes(t)
	head := git(t, dir, "rev-parse", "HEAD")
	same(t, "changes", padi.GitStatus{
		Mode: padi.Local,
		Files: []padi.FileChange{
			{Path: "added", Status: "A"}, {Path: "deleted", Status: "D"}, {Path: "modified", Status: "M"},
			{Path: "new\todd", Status: "R", OldPath: "old\nodd"}, {Path: "new name", Status: "R", OldPath: "old name"},
			{Path: "staged", Status: "M"}, {Path: "sub/untracked ä", Status: "?"}, {Path: "type", Status: "T"},
		},
		Branch:      &padi.BranchState{Name: "main", Head: head},
		WorkingTree: &padi.TreeState{Staged: 4, Modified: 4, Untracked: 1},
	}, status(t, filepath.Join(dir, "sub"), ""))
}

func TestStatusOfABranch(t *testing.T) {
	dir := fresh(t)
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "theirs")
	git(t, dir, "update-ref", "refs/remotes/origin/main", "HEAD")
	git(t, dir, "reset", "-q", "--hard", "HEAD~1")
	base := git(t, dir, "rev-parse", "HEAD")
	same(t, "no origin", padi.GitStatus{Mode: padi.Branch, Files: []padi.FileChange{}}, status(t, dir, padi.Branch))
	git(t, dir, "remote", "add", "origin", "https://example.com/r")
	git(t, dir, "config", "branch.main.remote", "origin")
	git(t, dir, "config", "branch.main.merge", "refs/heads/main")
	write(t, dir, "mine", "x\n")
	write(t, dir, "gone", "x\n")
	write(t, dir, "was", strings.Repeat("same\n", 20))
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "mine")
	git(t, dir, "mv", "was", "is")
	git(t, dir, "commit", "-q", "-m", "mine too")
	write(t, dir, "gone", "y\n")
	write(t, dir, "new", "x\n")
	same(t, "against origin", padi.GitStatus{
		Mode:  padi.Branch,
		Files: []padi.FileChange{{Path: "gone", Status: "A"}, {Path: "is", Status: "A"}, {Path: "mine", Status: "A"}, {Path: "new", Status: "?"}},
		Base:  &padi.DiffBase{Ref: "origin/main", SHA: base},
	}, status(t, dir, padi.Branch))
	got := status(t, dir, padi.Local).Branch
	same(t, "ahead and behind", &padi.BranchState{Name: "main", Head: git(t, dir, "rev-parse", "HEAD"), Upstream: "origin/main", Ahead: 2, Behind: 1}, got)
	d, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: "gone", Mode: padi.Branch})
	if err != nil || d.OldFileName != "" || !strings.Contains(d.Hunks[0], "+y") {
		t.Errorf("diff against origin: %+v, %v", d, err)
	}
	git(t, dir, "update-ref", "-d", "refs/remotes/origin/main")
	if _, err := repo.Status(t.Context(), padi.GitStatusRequest{Repo: dir, Mode: padi.Branch}); !errors.Is(err, padi.ErrNoBase) {
		t.Errorf("an origin that was never fetched gave %v", err)
	}
	if _, err := repo.Status(t.Context(), padi.GitStatusRequest{Repo: dir, Mode: "odd"}); !errors.Is(err, kaval.ErrInvalid) {
		t.Errorf("an odd mode gave %v", err)
	}
}

func TestStatusOfOddCheckouts(t *testing.T) {
	unborn := tmp(t)
	git(t, unborn, "init", "-q", "-b", "first")
	write(t, unborn, "new", "a")
	git(t, unborn, "add", "new")
	write(t, unborn, "new", "a\nb\n")
	same(t, "unborn", padi.GitStatus{
		Mode: padi.Local, Files: []padi.FileChange{{Path: "new", Status: "A"}},
		Branch: &padi.BranchState{Name: "first"}, WorkingTree: &padi.TreeState{Staged: 1, Modified: 1},
	}, status(t, unborn, padi.Local))
	if d, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: unborn, Path: "new"}); err != nil || d.OldFileName != "" || !strings.Contains(d.Hunks[0], "+b") {
		t.Errorf("diff before the first commit: %+v, %v", d, err)
	}

	dir := fresh(t)
	write(t, dir, "both", "base\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "base")
	git(t, dir, "checkout", "-q", "-b", "other")
	write(t, dir, "both", "other\n")
	git(t, dir, "commit", "-qam", "other")
	git(t, dir, "checkout", "-q", "main")
	write(t, dir, "both", "main\n")
	git(t, dir, "commit", "-qam", "main")
	git(t, dir, "checkout", "-q", "--detach")
	merge := exec.CommandContext(t.Context(), "git", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "other")
	if err := merge.Run(); err == nil {
		t.Fatal("the merge has no conflict")
	}
	got := status(t, dir, padi.Local)
	if len(got.Files) != 1 || got.Files[0] != (padi.FileChange{Path: "both", Status: "U"}) || got.Branch.Name != "HEAD" {
		t.Errorf("a conflict on no branch: %+v %+v", got.Files, got.Branch)
	}
	if _, err := repo.Status(t.Context(), padi.GitStatusRequest{Repo: tmp(t)}); !errors.Is(err, padi.ErrNoRepo) {
		t.Errorf("no repository gave %v", err)
	}
}

func TestDiff(t *testing.T) {
	dir := changes(t)
	write(t, dir, "bin", "a\x00b")
	for _, tt := range []struct {
		path, old string
		from, to  string
		has       []string
		binary    bool
	}{
		{path: "modified", from: "modified", to: "modified", has: []string{"\n-modified\n", "\n+x\n"}},
		{path: "staged", from: "staged", to: "staged", has: []string{"\n+x\n"}},
		{path: "added", to: "added", has: []string{"new file mode", "\n+y\n"}},
		{path: "deleted", from: "deleted", has: []string{"deleted file mode", "\n-deleted\n"}},
		{path: "new name", old: "old name", from: "old name", to: "new name", has: []string{"rename from old name\n"}},
		{path: "sub/untracked ä", to: "sub/untracked ä", has: []string{"+++ b/sub/untracked ä\n@@ -0,0 +1 @@\n+x\n"}},
		{path: "bin", to: "bin", has: []string{"Binary files"}, binary: true},
	} {
		got, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: tt.path, OldPath: tt.old})
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		if len(got.Hunks) != 1 || got.OldFileName != tt.from || got.NewFileName != tt.to || got.Binary != tt.binary {
			t.Errorf("%s: %+v", tt.path, got)
			continue
		}
		for _, part := range tt.has {
			if !strings.Contains(got.Hunks[0], part) {
				t.Errorf("%s has no %q: %s", tt.path, part, got.Hunks[0])
			}
		}
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "all")
	if got, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: "modified"}); err != nil || len(got.Hunks) != 0 || got.OldFileName != "modified" {
		t.Errorf("a file as it was: %+v, %v", got, err)
	}
	if _, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: "never"}); !errors.Is(err, padi.ErrFileGone) {
		t.Errorf("no file gave %v", err)
	}
}

// What we print of a file that git does not have is what git prints.
func TestDiffOfANewFileIsGits(t *testing.T) {
	dir := fresh(t)
	for name, text := range map[string]string{
		"empty": "", "one": "a\n", "many": "a\nb\nc\n", "no end": "a\nb", "one without end": "a", "ä": "ü\n", "nul": "a\x00", "blank": "\n\n",
	} {
		write(t, dir, name, text)
		if name == "many" {
			if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		got, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: name})
		if err != nil || len(got.Hunks) != 1 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "-c", "core.quotePath=false", "diff", "--no-index", "--", "/dev/null", name)
		want, _ := cmd.Output() // exits with 1
		mine := strings.Split(got.Hunks[0], "\n")
		theirs := strings.Split(string(want), "\n")
		theirs = append(theirs[:2:2], theirs[3:]...) // without the line of ids
		for i, line := range theirs {
			theirs[i] = strings.TrimSuffix(line, "\t") // after a name with a blank in it
		}
		same(t, name, theirs, mine)
	}
}
