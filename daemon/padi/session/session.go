// Package session keeps a workspace's registry on disk, so that a padi that starts again knows the terminals it had. For the
// workspace. It knows the file and nothing of terminals; restoring is the workspace's part.
//
// # The file
//
// <state root>/session.json is {"version": 1, "savedAt": ms, "kaval": "<pid>@<start>", "terminals": […]}, in registry order; kaval names
// the process that the active ones ran in. A reader takes each record by itself: one that it cannot read is left out with a
// warning and costs nobody else anything. A file of a newer version is refused and never written over; one that is no JSON at all
// is moved aside first, and the newest backup stands in for it.
//
// <state root>/backups holds the last ten sessions that a backup was made of, session-<ms>.json each.
package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"kolu/daemon/padi"
	"kolu/internal/plainfile"
)

// Version is that of the file which this package writes.
const Version = 1

// ErrNewer is the error of a file that a newer padi wrote.
var ErrNewer = errors.New("session was saved by a newer padi")

// Terminal is what is kept of one terminal.
type Terminal struct {
	ID             padi.TerminalID `json:"id"`
	State          padi.State      `json:"state"`
	ParentID       padi.TerminalID `json:"parentId,omitempty"`
	Intent         string          `json:"intent,omitempty"`
	CWD            string          `json:"cwd"`
	Git            *padi.Git       `json:"git"`
	LastCommand    string          `json:"lastCommand,omitempty"`
	Resume         *padi.Resume    `json:"resume,omitempty"`
	LastActivityAt int64           `json:"lastActivityAt,omitempty"`
	CreatedAt      int64           `json:"createdAt,omitempty"`
	SleptAt        int64           `json:"sleptAt,omitempty"`
	ParkedAt       int64           `json:"parkedAt,omitempty"`
}

// Saved is a session: its terminals in registry order.
type Saved struct {
	// Kaval names the process that the active terminals run in; empty where that isn't known.
	Kaval     string
	Terminals []Terminal
	// At is when it was saved, in milliseconds since 1970; a Save sets its own.
	At int64
}

// Store is the session file of one state root. Its methods are for one caller at a time.
type Store struct {
	path string
	log  *slog.Logger
}

// Open takes the session file in a state root, made with mode 0700 if it is not there. ErrNewer leaves the file as it is.
func Open(root string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	s := &Store{path: filepath.Join(root, "session.json"), log: log}
	clearHalves(s.path)
	if _, err := s.read(); err != nil && !errors.Is(err, errGarbled) {
		return nil, fmt.Errorf("open session: %w", err)
	}
	return s, nil
}

type file struct {
	Version   int               `json:"version"`
	SavedAt   int64             `json:"savedAt"`
	Kaval     string            `json:"kaval,omitempty"`
	Terminals []json.RawMessage `json:"terminals"`
}

var errGarbled = errors.New("not a session file")

// Path is where the session is kept.
func (s *Store) Path() string { return s.path }

// read gives the empty file where there is none.
func (s *Store) read() (file, error) {
	f, err := readFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return file{Version: Version}, nil
	}
	return f, err
}

// maxSize bounds what is read of a session file, in bytes: ten thousand terminals have a tenth of it.
const maxSize = 64 << 20

func readFile(path string) (file, error) {
	b, err := plainfile.Read(path, maxSize)
	if err != nil {
		return file{}, err
	}
	// The version is read by itself: a newer file may have another shape.
	var v struct{ Version int }
	if err := json.Unmarshal(b, &v); err != nil || v.Version < 1 {
		return file{}, fmt.Errorf("%s: %w", path, errGarbled)
	}
	if v.Version > Version {
		return file{}, fmt.Errorf("%s: %w (version %d, this padi knows %d)", path, ErrNewer, v.Version, Version)
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return file{}, fmt.Errorf("%s: %w", path, errGarbled)
	}
	return f, nil
}

// Load gives what was saved, in order; records that cannot be read are left out. A file that is no session file is moved aside,
// so that nothing is lost, and what the newest good backup holds is given instead.
func (s *Store) Load() (Saved, error) {
	f, err := s.read()
	if errors.Is(err, errGarbled) {
		return s.standIn()
	}
	if err != nil {
		return Saved{}, fmt.Errorf("load session: %w", err)
	}
	return Saved{Kaval: f.Kaval, Terminals: s.decodeAll(f), At: f.SavedAt}, nil
}

func (s *Store) standIn() (Saved, error) {
	if err := s.moveAside(); err != nil {
		return Saved{}, err
	}
	terminals, name := s.newestGood()
	if name != "" {
		s.log.Warn("session taken from a backup", "backup", name, "terminals", len(terminals))
	}
	return Saved{Terminals: terminals}, nil
}

func (s *Store) decodeAll(f file) (terminals []Terminal) {
	for i, raw := range f.Terminals {
		t, err := decode(raw)
		if err != nil {
			s.log.Warn("session record left out", "index", i, "err", err)
			continue
		}
		terminals = append(terminals, t)
	}
	return terminals
}

func decode(raw json.RawMessage) (Terminal, error) {
	var t Terminal
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, err
	}
	if t.ID == "" {
		return t, errors.New("no id")
	}
	switch t.State {
	case padi.Active, padi.Sleeping, padi.Parked:
		return t, nil
	}
	return t, fmt.Errorf("unknown state %q", t.State)
}

func (s *Store) moveAside() error {
	aside := fmt.Sprintf("%s.unreadable-%d", s.path, time.Now().UnixMilli())
	if err := os.Rename(s.path, aside); err != nil {
		return fmt.Errorf("load session: move unreadable file aside: %w", err)
	}
	s.log.Error("session file unreadable, moved aside", "to", aside)
	return nil
}

// Save replaces the file, whole or not at all. A file that a newer padi wrote in the meantime is left alone: ErrNewer.
func (s *Store) Save(saved Saved) error {
	if _, err := s.read(); errors.Is(err, ErrNewer) {
		return fmt.Errorf("save session: %w", err)
	}
	f := file{Version: Version, SavedAt: time.Now().UnixMilli(), Kaval: saved.Kaval, Terminals: make([]json.RawMessage, 0, len(saved.Terminals))}
	for _, t := range saved.Terminals {
		raw, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("save session: %w", err)
		}
		f.Terminals = append(f.Terminals, raw)
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	if err := replace(s.path, append(b, '\n')); err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	return nil
}

// halves is the pattern of the files that become path.
func halves(path string) string { return "." + filepath.Base(path) + ".*" }

// clearHalves removes what a padi that was killed while it saved has left.
func clearHalves(path string) {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), halves(path))) // a directory like a pattern keeps its own
	for _, half := range left {
		_ = os.Remove(half) // it costs only its space
	}
}

// replace writes a new file beside path, makes it durable and renames it over path.
func replace(path string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), halves(path))
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already after the rename
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
