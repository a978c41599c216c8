package session_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/padi"
	"kolu/daemon/padi/session"
)

func open(t *testing.T, root string) *session.Store {
	t.Helper()
	s, err := session.Open(root, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t *testing.T, s *session.Store) []session.Terminal {
	t.Helper()
	got, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return got.Terminals
}

func save(s *session.Store, terminals ...session.Terminal) error {
	return s.Save(session.Saved{Terminals: terminals})
}

func TestSaveLoadsInOrder(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state", "padi")
	want := []session.Terminal{
		{ID: "b", State: padi.Active, CWD: "/b", Intent: "two\nlines", Git: &padi.Git{RepoName: "r", Branch: "main"}, CreatedAt: 5},
		{ID: "a", State: padi.Parked, ParentID: "b", CWD: "/a", LastActivityAt: 7},
	}
	s := open(t, root)
	if got := load(t, s); got != nil {
		t.Errorf("a fresh root has %v", got)
	}
	if err := save(s, want...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, load(t, open(t, root))); diff != "" {
		t.Error(diff)
	}
	if left, _ := filepath.Glob(filepath.Join(root, ".session*")); len(left) != 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// A padi that is killed while it saves leaves half a file, each time.
func TestHalfASaveIsCleared(t *testing.T) {
	root := t.TempDir()
	if err := save(open(t, root), session.Terminal{ID: "a", State: padi.Active}); err != nil {
		t.Fatal(err)
	}
	half, other := filepath.Join(root, ".session.json.123"), filepath.Join(root, "session.json.unreadable-1")
	for _, path := range []string{half, other} {
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := load(t, open(t, root)); len(got) != 1 {
		t.Errorf("loaded %v", got)
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the half is there: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("what was moved aside is gone: %v", err)
	}
}

func TestOneBadRecordCostsNobodyElse(t *testing.T) {
	root := t.TempDir()
	write(t, root, `{"version":1,"terminals":[{"id":"a","state":"active","cwd":"/"},{"id":"b","state":"hibernating"},
		{"id":7},"x",{"state":"active"},{"id":"c","state":"parked","cwd":"/c","colour":"new field"}]}`)
	want := []session.Terminal{{ID: "a", State: padi.Active, CWD: "/"}, {ID: "c", State: padi.Parked, CWD: "/c"}}
	if diff := cmp.Diff(want, load(t, open(t, root))); diff != "" {
		t.Error(diff)
	}
}

func TestANewerFileIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	const newer = `{"version":2,"terminals":{"another":"shape"}}`
	write(t, root, newer)
	if _, err := session.Open(root, slog.New(slog.DiscardHandler)); !errors.Is(err, session.ErrNewer) {
		t.Errorf("Open gave %v, want ErrNewer", err)
	}
	if err := save(s); !errors.Is(err, session.ErrNewer) {
		t.Errorf("Save gave %v, want ErrNewer", err)
	}
	if got, _ := os.ReadFile(filepath.Join(root, "session.json")); string(got) != newer {
		t.Errorf("the file became %s", got)
	}
}

func TestAGarbledFileIsKeptAside(t *testing.T) {
	root := t.TempDir()
	const garbled = `{"version":1,"termi`
	write(t, root, garbled)
	s := open(t, root)
	if got := load(t, s); got != nil {
		t.Errorf("loaded %v", got)
	}
	aside, _ := filepath.Glob(filepath.Join(root, "session.json.unreadable-*"))
	if len(aside) != 1 {
		t.Fatalf("kept aside: %v", aside)
	}
	if got, _ := os.ReadFile(aside[0]); string(got) != garbled {
		t.Errorf("kept %s", got)
	}
}

func write(t *testing.T, root, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, "session.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A pipe in the place of the session is refused at once and stays where it is: padi would else hang at its start, before it listens.
func TestOpenRefusesPipe(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "session.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Open(root, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), path+" is not a file but a named pipe") {
		t.Errorf("Open = %v", err)
	}
}
