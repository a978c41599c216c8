package repo

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watch tells when what [Facts] says of a directory may have changed. It watches git's own directories, not what is in a checkout, so
// that a build makes no noise; in a directory without a repository it watches nothing. A change can be missed where the system drops
// events, so look again now and then.
type Watch struct {
	system *fsnotify.Watcher
	mu     sync.Mutex
	parts  map[string][]string        // git's directories, by the directory that was asked about
	users  map[string]map[string]bool // and the other way round
}

// NewWatch makes a watch. The caller closes it.
func NewWatch() (*Watch, error) {
	system, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch repositories: %w", err)
	}
	return &Watch{system: system, parts: map[string][]string{}, users: map[string]map[string]bool{}}, nil
}

// Close ends Run.
func (w *Watch) Close() error { return w.system.Close() }

// Follow watches what a look at dir depends on, as it is now. Call it before each look: what changes after it is told.
func (w *Watch) Follow(dir string) error {
	l, ok, err := find(dir)
	if err != nil {
		return err
	}
	var parts []string
	if ok {
		parts = slices.Compact([]string{l.gitDir, l.commonDir})
	}
	w.release(w.assign(dir, parts))
	for _, part := range parts {
		if err := w.system.Add(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", part, err)
		}
	}
	return nil
}

// Keep forgets the directories that are not among dirs.
func (w *Watch) Keep(dirs []string) {
	w.mu.Lock()
	var gone []string
	for dir := range w.parts {
		if !slices.Contains(dirs, dir) {
			gone = append(gone, dir)
		}
	}
	w.mu.Unlock()
	for _, dir := range gone {
		w.release(w.assign(dir, nil))
	}
}

// assign notes what a directory depends on and gives what nobody does any more.
func (w *Watch) assign(dir string, parts []string) (unused []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, old := range w.parts[dir] {
		if slices.Contains(parts, old) {
			continue
		}
		delete(w.users[old], dir)
		if len(w.users[old]) == 0 {
			delete(w.users, old)
			unused = append(unused, old)
		}
	}
	delete(w.parts, dir)
	if len(parts) > 0 {
		w.parts[dir] = parts
	}
	for _, part := range parts {
		if w.users[part] == nil {
			w.users[part] = map[string]bool{}
		}
		w.users[part][dir] = true
	}
	return unused
}

// release is done without the lock: a network mount may hang.
func (w *Watch) release(parts []string) {
	for _, part := range parts {
		_ = w.system.Remove(part) // it may be gone, which ends the watch too
	}
}

// telling are the files of git's directories that the facts come from.
var telling = []string{"HEAD", "config", "commondir"}

// Run tells changed of each directory whose facts may have changed, until Close. Lost events count as a change of everything.
func (w *Watch) Run(changed func(dir string)) {
	for {
		select {
		case ev, ok := <-w.system.Events:
			if !ok {
				return
			}
			for _, dir := range w.touched(ev.Name) {
				changed(dir)
			}
		case _, ok := <-w.system.Errors:
			if !ok {
				return
			}
			for _, dir := range w.all() {
				changed(dir)
			}
		}
	}
}

// touched are the directories whose facts depend on a path: one of the telling files, or a directory of git's that has gone.
func (w *Watch) touched(path string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	users := w.users[path]
	if users == nil && slices.Contains(telling, filepath.Base(path)) {
		users = w.users[filepath.Dir(path)]
	}
	dirs := make([]string, 0, len(users))
	for dir := range users {
		dirs = append(dirs, dir)
	}
	return dirs
}

func (w *Watch) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirs := make([]string, 0, len(w.parts))
	for dir := range w.parts {
		dirs = append(dirs, dir)
	}
	return dirs
}
