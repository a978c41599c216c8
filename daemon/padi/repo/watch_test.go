package repo_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"kolu/daemon/padi/repo"
)

// watched is a watch whose news a test reads.
type watched struct {
	*repo.Watch
	t    *testing.T
	news chan string
}

func watch(t *testing.T) *watched {
	t.Helper()
	w, err := repo.NewWatch()
	if err != nil {
		t.Fatal(err)
	}
	news := make(chan string, 1000)
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(func(dir string) { news <- dir }) })
	t.Cleanup(func() {
		w.Close()
		wg.Wait()
	})
	return &watched{w, t, news}
}

func (w *watched) follow(dirs ...string) {
	w.t.Helper()
	for _, dir := range dirs {
		if err := w.Follow(dir); err != nil {
			w.t.Fatal(err)
		}
	}
}

// hears waits until each of dirs was told of.
func (w *watched) hears(what string, dirs ...string) {
	w.t.Helper()
	missing := map[string]bool{}
	for _, dir := range dirs {
		missing[dir] = true
	}
	late := time.After(60 * time.Second)
	for len(missing) > 0 {
		select {
		case dir := <-w.news:
			delete(missing, dir)
		case <-late:
			w.t.Fatalf("%s: nobody told of %v", what, missing)
		}
	}
}

func (w *watched) forget() {
	for len(w.news) > 0 {
		<-w.news
	}
}

func TestWatchTellsOfBranches(t *testing.T) {
	dir := fresh(t)
	sub := filepath.Join(dir, "sub")
	write(t, dir, "sub/file", "")
	tree := cut(t, dir, "tree").Path
	w := watch(t)
	w.follow(dir, sub, tree)
	git(t, dir, "checkout", "-q", "-b", "topic")
	w.hears("a branch", dir, sub)
	git(t, tree, "checkout", "-q", "--detach")
	w.hears("a worktree's HEAD", tree)
	git(t, tree, "remote", "add", "origin", "https://example.com/r")
	w.hears("the remote, which all checkouts share", dir, sub, tree)
	w.forget()
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	w.hears("a repository that goes", dir)
	git(t, dir, "init", "-q", "-b", "second")
	w.follow(dir)
	w.forget()
	git(t, dir, "checkout", "-q", "-b", "third")
	w.hears("a repository made in the place of another", dir)
}

// Nothing is left behind by directories that nobody is in any more, and files in a checkout are none of our business.
func TestWatchForgets(t *testing.T) {
	dir, other := fresh(t), fresh(t)
	w := watch(t)
	w.follow(dir, other, tmp(t))
	w.Keep([]string{other})
	git(t, dir, "checkout", "-q", "-b", "unheard")
	write(t, other, "file", "x")
	write(t, other, ".git/unrelated", "x")
	git(t, other, "checkout", "-q", "-b", "heard")
	w.hears("the one that is kept", other)
	w.Keep(nil)
	w.forget()
	git(t, other, "checkout", "-q", "-b", "unheard")
	w.follow(dir)
	git(t, dir, "checkout", "-q", "-b", "again")
	if first := <-w.news; first != dir {
		t.Errorf("told of %s", first)
	}
}
