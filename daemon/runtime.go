package daemon

import (
	"fmt"
	"os"
	"path/filepath"
)

// RuntimeVar names a directory that takes the place of every runtime directory: a private fleet for tests and
// experiments, which neither sees nor is seen by the user's own daemons.
const RuntimeVar = "KOLU_RUNTIME_DIR"

// A drawer is a directory that holds homes.
type drawer struct {
	dir    string
	shared bool // other users' homes lie here too, so that names end with our uid
}

func (d drawer) home(kind Kind, stateRoot string) Home {
	name := kind.Name
	if stateRoot != "" {
		name += "-" + Digest(stateRoot)
	}
	if d.shared {
		name += fmt.Sprintf("-%d", os.Getuid())
	}
	return Home{Kind: kind, Dir: filepath.Join(d.dir, name), StateRoot: stateRoot}
}

// drawers are the runtime directories in which a daemon of this user may live. The first is where a new one goes: it
// outlives the login. $TMPDIR is never one of them, since a daemon and its client rarely agree on it.
func drawers(getenv Getenv) []drawer {
	if dir := getenv(RuntimeVar); filepath.IsAbs(dir) {
		return []drawer{{dir: filepath.Clean(dir)}}
	}
	tmp, last := drawer{dir: "/tmp", shared: true}, drawer{dir: "/var/tmp", shared: true}
	login := fmt.Sprintf("/run/user/%d", os.Getuid())
	xdg := getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(xdg) {
		return []drawer{tmp, {dir: login}, last}
	}
	xdg = filepath.Clean(xdg)
	all := []drawer{tmp, {dir: xdg}}
	if isDir(xdg) && (xdg != login || thisMachine().lingers()) {
		all = []drawer{{dir: xdg}, tmp}
	}
	if xdg != login {
		all = append(all, drawer{dir: login})
	}
	return append(all, last)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// elsewhere are the other homes that a daemon of the same key may have, in the other runtime directories.
func elsewhere(h Home, getenv Getenv) []Home {
	var others []Home
	for _, d := range drawers(getenv) {
		if other := d.home(h.Kind, h.StateRoot); h.socket == "" && other.Dir != h.Dir {
			others = append(others, other)
		}
	}
	return others
}
