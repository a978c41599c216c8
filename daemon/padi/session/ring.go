package session

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"kolu/daemon/padi"
	"kolu/internal/plainfile"
)

// ringSize is how many backups are kept.
const ringSize = 10

var ringName = regexp.MustCompile(`^session-(\d{13,19})\.json$`)

func (s *Store) ring() string { return filepath.Join(filepath.Dir(s.path), "backups") }

// Backup puts the session file as it stands into the ring of backups, unless the newest there is the same, and gives the name of the
// backup that holds it. Where there is no file there is nothing to keep: the name is empty.
func (s *Store) Backup() (name string, err error) {
	b, err := plainfile.Read(s.path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("back up session: %w", err)
	}
	names, err := s.names()
	if err != nil {
		return "", fmt.Errorf("back up session: %w", err)
	}
	if len(names) > 0 {
		newest, err := plainfile.Read(filepath.Join(s.ring(), names[0]), maxSize)
		if err == nil && bytes.Equal(newest, b) {
			return names[0], nil
		}
	}
	name = s.nextName(names)
	if err := replace(filepath.Join(s.ring(), name), b); err != nil {
		return "", fmt.Errorf("back up session: %w", err)
	}
	s.prune(append([]string{name}, names...))
	return name, nil
}

// nextName sorts behind every name there is, whatever was done to the clock.
func (s *Store) nextName(names []string) string {
	at := time.Now().UnixMilli()
	if len(names) > 0 {
		at = max(at, stamp(names[0])+1)
	}
	return fmt.Sprintf("session-%d.json", at)
}

func stamp(name string) int64 {
	m := ringName.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	at, _ := strconv.ParseInt(m[1], 10, 64) // at most 19 digits; one that is too large sorts as the largest
	return at
}

func (s *Store) prune(names []string) {
	for _, old := range names[min(len(names), ringSize):] {
		if err := os.Remove(filepath.Join(s.ring(), old)); err != nil {
			s.log.Warn("old backup not removed", "file", old, "err", err)
		}
	}
}

// names are the files of the ring, the newest first. The ring is made if it is not there.
func (s *Store) names() ([]string, error) {
	if err := os.MkdirAll(s.ring(), 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.ring())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if ringName.MatchString(e.Name()) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return int(max(-1, min(1, stamp(b)-stamp(a)))) })
	return names, nil
}

// Backups lists the ring, the newest first.
func (s *Store) Backups() ([]padi.Backup, error) {
	names, err := s.names()
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	list := make([]padi.Backup, 0, len(names))
	for _, name := range names {
		list = append(list, s.describe(name))
	}
	return list, nil
}

func (s *Store) describe(name string) padi.Backup {
	b := padi.Backup{Name: name, SavedAt: stamp(name), Kind: "unreadable"}
	path := filepath.Join(s.ring(), name)
	if info, err := os.Stat(path); err == nil {
		b.Size = info.Size()
	}
	f, err := readFile(path)
	if err != nil {
		return b
	}
	if b.Kind, b.Terminals = "session", len(f.Terminals); b.Terminals == 0 {
		b.Kind = "empty"
	}
	return b
}

// Recall gives the terminals of a backup. Only a name of the ring names one: padi.ErrNoBackup.
func (s *Store) Recall(name string) ([]Terminal, error) {
	names, err := s.names()
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("%w: %q", padi.ErrNoBackup, name)
	}
	f, err := readFile(filepath.Join(s.ring(), name))
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	return s.decodeAll(f), nil
}

// newestGood gives the terminals of the newest backup that can be read and holds any.
func (s *Store) newestGood() (terminals []Terminal, name string) {
	names, err := s.names()
	if err != nil {
		return nil, ""
	}
	for _, name := range names {
		if terminals, err := s.Recall(name); err == nil && len(terminals) > 0 {
			return terminals, name
		}
	}
	return nil, ""
}
