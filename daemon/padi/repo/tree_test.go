package repo_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/padi"
	"kolu/daemon/padi/repo"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, dir, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// Names with every byte that a list of lines or a quoted one would spoil.
var oddNames = []string{"ä 日本.txt", "new\nline", "tab\there", `quo"te`, `back\slash`, " blank ", "*", "-x"}

func TestFilesAreListedWithAnyName(t *testing.T) {
	dir := fresh(t)
	write(t, dir, ".gitignore", "out/\n*.log\n")
	want := []string{".gitignore", "sub/new"}
	for i, name := range oddNames {
		write(t, dir, name, "x")
		if i%2 == 0 {
			git(t, dir, "add", "--", ":(literal)"+name)
		}
		want = append(want, name)
	}
	write(t, dir, "sub/new", "")
	write(t, dir, "out/deep/er", "")
	write(t, dir, "a.log", "")
	slices.Sort(want)
	for ignored, want := range map[bool][]string{false: want, true: {"a.log", "out/"}} {
		got, err := repo.Files(t.Context(), padi.FilesRequest{Repo: filepath.Join(dir, "sub"), Ignored: ignored})
		if diff := cmp.Diff(padi.FileList{Paths: want}, got); err != nil || diff != "" {
			t.Errorf("ignored=%v: %v %s", ignored, err, diff)
		}
	}
}

func TestDirectory(t *testing.T) {
	dir := fresh(t)
	write(t, dir, "sub/file", "")
	write(t, dir, "ignored", "")
	write(t, dir, ".gitignore", "ignored")
	link(t, "sub", dir, "inside")
	link(t, tmp(t), dir, "outside")
	link(t, "nowhere", dir, "dangling")
	for path, want := range map[string][]string{
		"": {".gitignore", "dangling", "ignored", "inside/", "outside", "sub/"}, "sub": {"file"}, "inside": {"file"}, "./sub/": {"file"},
	} {
		got, err := repo.Directory(padi.PathRequest{Repo: dir, Path: path})
		if diff := cmp.Diff(padi.FileList{Paths: want}, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", path, err, diff)
		}
	}
}

// Whatever a path is made of, nothing outside the checkout and nothing of git's own is read.
func TestNoPathLeadsOutOfACheckout(t *testing.T) {
	dir := fresh(t)
	secret := filepath.Join(tmp(t), "secret")
	write(t, filepath.Dir(secret), "secret", "s3cret")
	link(t, secret, dir, "link")
	link(t, filepath.Dir(secret), dir, "linked")
	link(t, "../"+filepath.Base(filepath.Dir(secret)), filepath.Dir(dir), "up")
	link(t, "link", dir, "twice")
	write(t, dir, "plain", "")
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := []string{"link", "twice", "linked/secret", "../up/secret", "..", "sub/../../x", secret, "/etc/passwd", ".git/config", ".GIT/config", "./.git/HEAD", "a\x00b", "fifo"}
	for _, path := range outside {
		if f, err := repo.File(t.Context(), padi.PathRequest{Repo: dir, Path: path}); !errors.Is(err, padi.ErrOutside) {
			t.Errorf("reading %q gave %+v, %v", path, f, err)
		}
	}
	for _, path := range append([]string{"linked", ".git"}, outside[2:8]...) {
		if l, err := repo.Directory(padi.PathRequest{Repo: dir, Path: path}); !errors.Is(err, padi.ErrOutside) && !errors.Is(err, padi.ErrFileGone) {
			t.Errorf("listing %q gave %+v, %v", path, l, err)
		}
	}
	for _, path := range outside[2:] {
		if d, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: path}); !errors.Is(err, padi.ErrOutside) {
			t.Errorf("the diff of %q gave %+v, %v", path, d, err)
		}
		if d, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: "plain", OldPath: path}); strings.Contains(strings.Join(d.Hunks, ""), "s3cret") {
			t.Errorf("the diff of a file that was %q gave %+v, %v", path, d, err)
		}
	}
	d, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: "link"})
	if err != nil || strings.Contains(d.Hunks[0], "s3cret") || !strings.Contains(d.Hunks[0], "new file mode 120000") {
		t.Errorf("the diff of a link is where it leads, not what is there: %+v, %v", d, err)
	}
	git(t, dir, "add", "link")
	git(t, dir, "commit", "-q", "-m", "link")
	link(t, filepath.Dir(secret), dir, "tmp")
	if err := os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	d, err = repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: "link"})
	if err != nil || !strings.Contains(d.Hunks[0], "+"+filepath.Dir(secret)) {
		t.Errorf("the diff of a tracked link: %+v, %v", d, err)
	}
}

func TestFile(t *testing.T) {
	dir := fresh(t)
	long := strings.Repeat("x", padi.MaxFile-1) + "ä and more"
	write(t, dir, "text", "grüß\n")
	write(t, dir, "exact", long[:padi.MaxFile-1]+"y")
	write(t, dir, "long", long)
	write(t, dir, "bytes", "\xff\xfe")
	write(t, dir, "nul", "a\x00b")
	write(t, dir, "empty", "")
	b64 := base64.StdEncoding.EncodeToString
	for _, want := range []padi.File{
		{Path: "text", Size: 7, Encoding: "utf-8", Content: "grüß\n"},
		{Path: "exact", Size: padi.MaxFile, Encoding: "utf-8", Content: long[:padi.MaxFile-1] + "y"},
		{Path: "long", Size: padi.MaxFile + 10, Encoding: "utf-8", Content: long[:padi.MaxFile-1], Truncated: true},
		{Path: "bytes", Size: 2, Encoding: "base64", Content: b64([]byte("\xff\xfe"))},
		{Path: "nul", Size: 3, Encoding: "base64", Content: b64([]byte("a\x00b"))},
		{Path: "empty", Encoding: "utf-8"},
	} {
		got, err := repo.File(t.Context(), padi.PathRequest{Repo: dir, Path: want.Path})
		got.Tag = ""
		if err != nil || got != want {
			t.Errorf("%s: %d bytes of %s, %v", want.Path, len(got.Content), got.Encoding, err)
		}
	}
	for path, want := range map[string]error{"gone": padi.ErrFileGone, "text/x": padi.ErrFileGone, "": padi.ErrOutside} {
		if _, err := repo.File(t.Context(), padi.PathRequest{Repo: dir, Path: path}); !errors.Is(err, want) {
			t.Errorf("%q gave %v, want %v", path, err, want)
		}
	}
	if _, err := repo.File(t.Context(), padi.PathRequest{Repo: tmp(t), Path: "x"}); !errors.Is(err, padi.ErrNoRepo) {
		t.Errorf("no repository gave %v", err)
	}
}

// A git that hangs holds up nobody longer than the caller's own limit, and what it leaves running is bounded.
func TestAGitThatHangsIsLeft(t *testing.T) {
	dir := fresh(t)
	bin := tmp(t)
	write(t, bin, "git", "#!/bin/sh\nexec sleep 600\n")
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := repo.Status(ctx, padi.GitStatusRequest{Repo: dir}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("gave %v", err)
	}
	if got := facts(t, dir); got.Branch != "main" {
		t.Errorf("the facts need git: %+v", got)
	}
	t.Setenv("PATH", tmp(t))
	if _, err := repo.Status(t.Context(), padi.GitStatusRequest{Repo: dir}); !errors.Is(err, padi.ErrNoGit) {
		t.Errorf("without git: %v", err)
	}
}

// The monitor, the diff and the pager that a repository's own configuration names are not run.
func TestReadingARepositoryRunsNoMonitorOrDiffOfIts(t *testing.T) {
	dir := fresh(t)
	mark := filepath.Join(tmp(t), "ran")
	evil := filepath.Join(dir, "evil")
	write(t, dir, "evil", "#!/bin/sh\ntouch '"+mark+"'\n")
	if err := os.Chmod(evil, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "file", "one\n")
	write(t, dir, ".gitattributes", "* diff=evil\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "evil")
	write(t, dir, "file", "two\n")
	for key, value := range map[string]string{"core.fsmonitor": evil, "diff.external": evil, "diff.evil.textconv": evil, "diff.evil.command": evil, "core.pager": evil} {
		git(t, dir, "config", key, value)
	}
	if _, err := repo.Status(t.Context(), padi.GitStatusRequest{Repo: dir}); err != nil {
		t.Error(err)
	}
	if d, err := repo.Diff(t.Context(), padi.GitDiffRequest{Repo: dir, Path: "file"}); err != nil || len(d.Hunks) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := repo.Files(t.Context(), padi.FilesRequest{Repo: dir}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the repository's program ran")
	}
}

// Looking takes no lock and writes nothing, though a file's time is not what the index has.
func TestStatusLeavesTheIndexAlone(t *testing.T) {
	dir := fresh(t)
	write(t, dir, "file", "one\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "file")
	index := filepath.Join(dir, ".git", "index")
	before, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "file"), old, old); err != nil {
		t.Fatal(err)
	}
	write(t, dir, ".git/index.lock", "")
	if got := status(t, dir, padi.Local); len(got.Files) != 0 {
		t.Errorf("%+v", got.Files)
	}
	if err := os.Remove(index + ".lock"); err != nil {
		t.Fatal(err)
	}
	status(t, dir, padi.Local)
	if after, err := os.ReadFile(index); err != nil || string(after) != string(before) {
		t.Errorf("the index was written: %v", err)
	}
}

// The tag is of the content: a checkout that writes the same again changes nothing, one byte anywhere does.
func TestTagIsOfTheContent(t *testing.T) {
	dir := fresh(t)
	long := strings.Repeat("x", 3*padi.MaxFile)
	tag := func(text string, at time.Time) string {
		t.Helper()
		write(t, dir, "file", text)
		if err := os.Chtimes(filepath.Join(dir, "file"), at, at); err != nil {
			t.Fatal(err)
		}
		f, err := repo.File(t.Context(), padi.PathRequest{Repo: dir, Path: "file"})
		if err != nil {
			t.Fatal(err)
		}
		return f.Tag
	}
	now := time.Now()
	first := tag(long, now)
	if again := tag(long, now.Add(time.Hour)); again != first || first == "" {
		t.Errorf("%q became %q", first, again)
	}
	if other := tag(long[1:]+"y", now); other == first {
		t.Error("another end has the same tag")
	}
	if err := os.Truncate(filepath.Join(dir, "file"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if f, err := repo.File(t.Context(), padi.PathRequest{Repo: dir, Path: "file"}); err != nil || f.Tag != "" || !f.Truncated || f.Size != 1<<30 {
		t.Errorf("a huge file: %v, tag %q, size %d", err, f.Tag, f.Size)
	}
}
