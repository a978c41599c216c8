// Package daemon is the spine of both daemons, padi and kaval: where one lives, how one is found, that there is only one, how it
// is served, started and spoken to. It knows nothing of terminals.
//
// A daemon is a socket in a private directory, its [Home]. Where it is, is only ever a [Dialer]. The daemon's own command
// calls [Serve]; whoever needs one running calls [Start]; clients look with [Find] or [Scan].
//
// # Files of a home
//
//	<kind>.pid    the gate: "<pid>\t<start of the process, unix µs>[\t<ticks>@<boot id>]\n"; whoever holds it is the daemon
//	state-root    the manifest: the state root that this daemon is keyed to
//	<socket>      0600, and only the same user's processes are heard
//	<kind>.log    what a daemon started from elsewhere prints and logs
package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
)

// Kind is one of the two daemons.
type Kind struct {
	Name   string // of the program, of its home and of the files in it
	Socket string // the socket's name in the home
}

// The kinds.
var (
	Padi  = Kind{Name: "padi", Socket: "padi.sock"}
	Kaval = Kind{Name: "kaval", Socket: "pty-host.sock"}
)

// Getenv looks a variable up; absent is "".
type Getenv func(key string) string

// StateRootVar names the state root in the environment.
const StateRootVar = "KOLU_PADI_STATE_DIR"

// StateRoot is the folder that names a workspace: $KOLU_PADI_STATE_DIR, else $HOME/.local/state/padi; absolute and
// lexically clean, with symlinks as they are. XDG_STATE_HOME is not asked, since it differs between logins.
func StateRoot(getenv Getenv) (string, error) {
	if root := getenv(StateRootVar); root != "" {
		if !filepath.IsAbs(root) {
			return "", fmt.Errorf("%s is not an absolute path: %q", StateRootVar, root)
		}
		return filepath.Clean(root), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("no state root: HOME is not set to an absolute path — set " + StateRootVar)
	}
	return filepath.Join(home, ".local/state/padi"), nil
}

// Digest is the key of a state root: 16 hex digits.
func Digest(root string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(root)))
	return hex.EncodeToString(sum[:8])
}
