package session_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kolu/daemon/padi"
	"kolu/daemon/padi/session"
)

func TestBackupsRing(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	if name, err := s.Backup(); err != nil || name != "" {
		t.Errorf("of no session: %q, %v", name, err)
	}
	var last string
	for i := range 13 {
		if err := save(s, session.Terminal{ID: padi.TerminalID(fmt.Sprint("t", i)), State: padi.Active}); err != nil {
			t.Fatal(err)
		}
		name, err := s.Backup()
		if err != nil || name == last {
			t.Fatalf("backup %d is %q, %v", i, name, err)
		}
		if again, err := s.Backup(); err != nil || again != name {
			t.Errorf("the same again is %q, %v; want %q", again, err, name)
		}
		last = name
	}
	list, err := s.Backups()
	if err != nil || len(list) != 10 || list[0].Name != last || list[0].Terminals != 1 || list[0].Kind != "session" || list[0].Size == 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, b := range list {
		if got, err := s.Recall(b.Name); err != nil || len(got) != 1 || got[0].ID != padi.TerminalID(fmt.Sprint("t", 12-i)) {
			t.Errorf("backup %d: %+v, %v", i, got, err)
		}
	}
}

// Only what the ring holds is a backup, and what can't be read is named as such.
func TestBackupNames(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	if err := save(s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(); err != nil {
		t.Fatal(err)
	}
	const broken = "session-1000000000001.json"
	if err := os.WriteFile(filepath.Join(root, "backups", broken), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(root, "backups", "session-1000000000002.json")); err != nil {
		t.Fatal(err)
	}
	list, err := s.Backups()
	if err != nil || len(list) != 2 || list[0].Kind != "empty" || list[1].Kind != "unreadable" {
		t.Errorf("%+v, %v", list, err)
	}
	for _, name := range []string{"", ".", "../session.json", "session.json", "/etc/hostname", "session-1000000000002.json", "session-1000000000009.json"} {
		if _, err := s.Recall(name); !errors.Is(err, padi.ErrNoBackup) {
			t.Errorf("%q gave %v", name, err)
		}
	}
	if _, err := s.Recall(broken); err == nil || errors.Is(err, padi.ErrNoBackup) {
		t.Errorf("the unreadable one gave %v", err)
	}
}

// The newest backup that holds something stands in for a file that no one can read.
func TestABackupStandsInForAGarbledFile(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	for _, terminals := range [][]session.Terminal{{{ID: "old", State: padi.Active}}, {{ID: "good", State: padi.Active}}, nil} {
		if err := save(s, terminals...); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Backup(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, root, `{"version":1,"termi`)
	s = open(t, root)
	if name, err := s.Backup(); err != nil || !strings.HasPrefix(name, "session-") { // as each start does; it is the newest now
		t.Fatal(name, err)
	}
	if got := load(t, s); len(got) != 1 || got[0].ID != "good" {
		t.Errorf("loaded %+v", got)
	}
}
