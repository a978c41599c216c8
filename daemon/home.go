package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxSocketPath is the longest path that every system we run on binds (macOS stops at 104 bytes with the final zero).
const maxSocketPath = 103

// Home is the private directory of one daemon. The zero value is no home; see [HomeFor], [Standalone] and [HomeAt].
type Home struct {
	Kind Kind
	Dir  string
	// StateRoot is the state root this home is keyed to; empty for a daemon on its own.
	StateRoot string
	socket    string // set when the socket has a name of its own
}

// HomeFor is the home of the daemon that belongs to a state root, in the runtime directory that lasts longest.
// One in which another user sits at our name is passed over.
func HomeFor(kind Kind, stateRoot string, getenv Getenv) Home {
	all := drawers(getenv)
	for i, d := range all {
		if h := d.home(kind, stateRoot); (i == 0 || isDir(d.dir)) && !ofAnother(h.Dir) {
			return h
		}
	}
	return all[0].home(kind, stateRoot)
}

// Standalone is the home of a daemon that belongs to no state root.
func Standalone(kind Kind, getenv Getenv) Home { return HomeFor(kind, "", getenv) }

// HomeAt is the home around an explicit socket path: every other file lies beside the socket.
func HomeAt(kind Kind, socket, stateRoot string) Home {
	return Home{Kind: kind, Dir: filepath.Dir(socket), StateRoot: stateRoot, socket: filepath.Base(socket)}
}

// Socket is the path of the daemon's socket.
func (h Home) Socket() string {
	if h.socket != "" {
		return filepath.Join(h.Dir, h.socket)
	}
	return filepath.Join(h.Dir, h.Kind.Socket)
}

// Gate is the path of the pid file that only one process can hold.
func (h Home) Gate() string { return filepath.Join(h.Dir, h.Kind.Name+".pid") }

// Manifest is the path of the file that names the state root.
func (h Home) Manifest() string { return filepath.Join(h.Dir, "state-root") }

// Log is the path of the daemon's log.
func (h Home) Log() string { return filepath.Join(h.Dir, h.Kind.Name+".log") }

// OpenHome makes the directory of a home, or verifies the one that is there: a real directory, ours, closed to everyone
// else. One that is not so is refused and left as it is. A socket path too long for the system is refused too.
func OpenHome(h Home) error {
	if err := checkSocketPath(h.Socket()); err != nil {
		return err
	}
	if err := mkdirPrivate(h.Dir); err != nil {
		return fmt.Errorf("make %s: %w", h.Dir, err)
	}
	return checkPrivate(h.Dir)
}

func mkdirPrivate(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func checkSocketPath(path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf("socket path is %d bytes long, the system takes %d: %s — choose a shorter directory", len(path), maxSocketPath, path)
	}
	return nil
}

// checkPrivate reports why a directory is not only ours; nil means that it is.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: refusing to use it", dir)
	}
	if ofAnother(dir) {
		return fmt.Errorf("%s belongs to another user: refusing to use it", dir)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 || perm&0o700 != 0o700 {
		return fmt.Errorf("%s has mode %#o, must be 0700: refusing to use it — chmod 700 it if it is yours", dir, perm)
	}
	return nil
}

// ofAnother reports whether something of another user is at path.
func ofAnother(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) != os.Getuid()
}

// WriteManifest records the state root of a home for those who scan.
func WriteManifest(h Home) error {
	tmp, err := os.CreateTemp(h.Dir, "state-root.tmp.") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(h.StateRoot + "\n")
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), h.Manifest())
}

// readManifest is the state root that a home's manifest names, or "" where none is readable.
func readManifest(path string) string {
	b, err := os.ReadFile(path)
	root := strings.TrimRight(string(b), "\n")
	if err != nil || !filepath.IsAbs(root) {
		return ""
	}
	return filepath.Clean(root)
}
