package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOwner(t *testing.T) {
	unit := hostWith(map[string]string{"proc/self/cgroup": "0::/user.slice/user-7.slice/user@7.service/app.slice/padi.service\n", "proc/812/comm": "node\n"})
	session := hostWith(map[string]string{"proc/self/cgroup": "0::/user.slice/user-7.slice/session-3.scope\n"})
	for name, tt := range map[string]struct {
		m    machine
		env  map[string]string
		want string
	}{
		"nobody":                      {session, nil, ""},
		"in a unit, started by us":    {unit, nil, ""},
		"a unit":                      {unit, map[string]string{"INVOCATION_ID": "a"}, "systemd unit padi.service"},
		"a service manager":           {session, map[string]string{"INVOCATION_ID": "a"}, "a service manager"},
		"bound to a process":          {unit, map[string]string{BindVar: "812", "INVOCATION_ID": "a"}, "process 812 (node)"},
		"bound to one without a name": {session, map[string]string{BindVar: "813"}, "process 813"},
	} {
		if got := tt.m.owner(func(k string) string { return tt.env[k] }); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// The next daemon of a home does not keep what the one before said of its owner.
func TestOwnerIsWrittenAnew(t *testing.T) {
	h := Home{Kind: Padi, Dir: t.TempDir()}
	for _, owner := range []string{"", "process 7", "systemd unit padi.service", "", ""} {
		if err := writeOwner(h, owner); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(h.Dir, ownerFile))
		if want := owner + "\n"; owner == "" && err == nil || owner != "" && string(text) != want {
			t.Errorf("owner %q: %q, %v", owner, text, err)
		}
	}
}
