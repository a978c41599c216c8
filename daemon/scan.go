package daemon

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Found is a daemon's home that a scan came upon.
type Found struct {
	Home      Home
	Socket    string
	StateRoot string // by the manifest; empty when it names none
	GatePID   int    // 0 when no gate is readable
	// Live reports that the process that holds the gate lives. Those without are leftovers.
	Live  bool
	Label string // for people: "kolu @ <root>", "standalone kaval"
}

// SocketVar is the variable that names a kind's socket in a terminal's environment.
func (k Kind) SocketVar() string { return strings.ToUpper(k.Name) + "_SOCKET" }

// Scan gives the homes of a kind in every runtime directory of this user. It only reads: nothing is dialled, killed or
// written. A directory counts when it is real, ours alone, and holds a socket.
func Scan(kind Kind, getenv Getenv) []Found {
	var found []Found
	seen := map[string]bool{}
	for _, d := range drawers(getenv) {
		for _, name := range d.names(kind) {
			f, ok := look(kind, filepath.Join(d.dir, name))
			real, err := filepath.EvalSymlinks(f.Home.Dir)
			if ok && err == nil && !seen[real] {
				seen[real] = true
				f.Label = label(f, d.key(kind, name))
				found = append(found, f)
			}
		}
	}
	return found
}

// names are the entries of a drawer that may be homes of the kind.
func (d drawer) names(kind Kind) []string {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if name != kind.Name && !strings.HasPrefix(name, kind.Name+"-") {
			continue
		}
		if d.shared && !strings.HasSuffix(name, fmt.Sprintf("-%d", os.Getuid())) {
			continue
		}
		names = append(names, name)
	}
	return names
}

// key is what tells an entry from the other homes of its kind; empty for the bare one.
func (d drawer) key(kind Kind, name string) string {
	name = strings.TrimPrefix(name, kind.Name)
	if d.shared {
		name = strings.TrimSuffix(name, fmt.Sprintf("-%d", os.Getuid()))
	}
	return strings.TrimPrefix(name, "-")
}

func look(kind Kind, dir string) (Found, bool) {
	if checkPrivate(dir) != nil {
		return Found{}, false
	}
	h := Home{Kind: kind, Dir: dir}
	info, err := os.Lstat(h.Socket())
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return Found{}, false
	}
	return describe(h), true
}

func describe(h Home) Found {
	f := Found{Home: h, Socket: h.Socket(), StateRoot: readManifest(h.Manifest())}
	f.Home.StateRoot = f.StateRoot
	if holder, err := readGate(h.Gate()); err == nil {
		f.GatePID, f.Live = holder.pid, holder.alive()
	}
	return f
}

func label(f Found, key string) string {
	_, err := strconv.ParseUint(key, 10, 64)
	switch {
	case f.StateRoot != "":
		return "kolu @ " + f.StateRoot
	case key == "":
		return "standalone " + f.Home.Kind.Name
	case err == nil:
		return "kolu-server on port " + key
	}
	return f.Home.Kind.Name + " " + key
}

// Primary picks the daemon that is keyed to root among those found. One whose manifest is unreadable is never it.
func Primary(found []Found, root string) (Found, bool) {
	i := slices.IndexFunc(found, func(f Found) bool { return f.StateRoot != "" && f.StateRoot == filepath.Clean(root) })
	if i < 0 {
		return Found{}, false
	}
	return found[i], true
}

// Want says which daemon is meant; the first field that is set decides, then the environment, then what runs.
type Want struct {
	Socket    string
	StateRoot string
	Getenv    Getenv
}

// Find gives the one daemon that is meant. A socket that was named (by Want or by the kind's variable) is taken as it is,
// whether or not anything runs there. Otherwise only live ones count: the one keyed to Want.StateRoot; else the only one
// that runs; else, of several, the one keyed to the environment's state root. The error is a *NotRunningError or an
// *AmbiguousError.
func Find(kind Kind, want Want) (Found, error) {
	switch {
	case want.Socket != "":
		return describe(HomeAt(kind, want.Socket, "")), nil
	case want.StateRoot != "":
		return findRoot(kind, want.StateRoot, want.Getenv)
	}
	if socket := want.Getenv(kind.SocketVar()); socket != "" {
		return describe(HomeAt(kind, socket, "")), nil
	}
	return findRunning(kind, want.Getenv)
}

func findRoot(kind Kind, root string, getenv Getenv) (Found, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Found{}, err
	}
	for _, d := range drawers(getenv) {
		if f, ok := look(kind, d.home(kind, root).Dir); ok && f.Live {
			f.StateRoot, f.Home.StateRoot, f.Label = root, root, "kolu @ "+root
			return f, nil
		}
	}
	home := HomeFor(kind, root, getenv)
	if f, ok := findLocked(home); ok {
		return f, nil
	}
	return Found{}, &NotRunningError{Kind: kind, Home: home, StateRoot: root}
}

// findLocked finds the daemon that the lock of home's state root names, in a runtime directory that is not looked at.
func findLocked(home Home) (Found, bool) {
	locked, ok := lockedHome(home)
	if !ok || checkPrivate(locked.Dir) != nil || !serving(locked.Socket()) {
		return Found{}, false
	}
	f := describe(locked)
	f.StateRoot, f.Home.StateRoot, f.Label, f.Live = home.StateRoot, home.StateRoot, "kolu @ "+home.StateRoot, true
	return f, true
}

func findRunning(kind Kind, getenv Getenv) (Found, error) {
	live := slices.DeleteFunc(Scan(kind, getenv), func(f Found) bool { return !f.Live })
	if len(live) == 1 {
		return live[0], nil
	}
	root, rootErr := StateRoot(getenv)
	if len(live) == 0 {
		home := Standalone(kind, getenv)
		if rootErr == nil {
			home = HomeFor(kind, root, getenv)
		}
		if f, ok := findLocked(home); ok {
			return f, nil
		}
		return Found{}, &NotRunningError{Kind: kind, Home: home, StateRoot: home.StateRoot}
	}
	if f, ok := Primary(live, root); ok {
		return f, nil
	}
	return Found{}, &AmbiguousError{Kind: kind, StateRoot: root, Candidates: live, NoRoot: rootErr}
}

// NotRunningError says that no daemon runs where one was looked for. Home is where it would be.
type NotRunningError struct {
	Kind      Kind
	Home      Home
	StateRoot string
}

func (e *NotRunningError) Error() string {
	if e.StateRoot == "" {
		return "no " + e.Kind.Name + " is running"
	}
	return fmt.Sprintf("no %s is running for %s", e.Kind.Name, e.StateRoot)
}

// AmbiguousError says that several daemons run and nothing tells which is meant.
type AmbiguousError struct {
	Kind       Kind
	StateRoot  string // the one looked for
	NoRoot     error  // why there is none to look for
	Candidates []Found
}

func (e *AmbiguousError) Error() string {
	var b strings.Builder
	why := "none belongs to " + e.StateRoot
	if e.StateRoot == "" {
		why = "nothing says which is meant"
		if e.NoRoot != nil {
			why += " (" + e.NoRoot.Error() + ")"
		}
	}
	fmt.Fprintf(&b, "%d %ss are running and %s:\n", len(e.Candidates), e.Kind.Name, why)
	for _, c := range e.Candidates {
		if e.Kind == Padi {
			fmt.Fprintf(&b, "  %s=%s    (%s)\n", e.Kind.SocketVar(), c.Socket, c.StateRoot)
		} else {
			fmt.Fprintf(&b, "  %s    (%s)\n", c.Socket, c.Label)
		}
	}
	b.WriteString("Pass --socket <path> to pick one.")
	return b.String()
}
