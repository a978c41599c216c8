package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// ownerFile is in the home of a daemon that somebody else keeps, and says who. Who dials such a daemon is a client like any other.
const ownerFile = "owner"

// writeOwner leaves in a home who keeps its daemon, or takes away what another tenure said.
func writeOwner(h Home, owner string) error {
	file := filepath.Join(h.Dir, ownerFile)
	if owner == "" {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return os.WriteFile(file, []byte(owner+"\n"), 0o600)
}

// owner is who keeps this daemon: the process that it is bound to, else the unit whose main process it is. A daemon that was started in
// a scope or a session of its own belongs to nobody.
func (m machine) owner(getenv Getenv) string {
	if pid := getenv(BindVar); pid != "" {
		name, err := fs.ReadFile(m.files, path.Join("proc", pid, "comm"))
		if err != nil {
			return "process " + pid
		}
		return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	if getenv("INVOCATION_ID") == "" {
		return "" // a start by us leaves it out, so the unit that this is in is that of a login
	}
	text, err := fs.ReadFile(m.files, "proc/self/cgroup")
	if err != nil {
		return "a service manager"
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && (fields[1] == "" || fields[1] == "name=systemd") && strings.HasSuffix(fields[2], ".service") {
			return "systemd unit " + path.Base(fields[2])
		}
	}
	return "a service manager"
}
