package daemon

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// hostWith is a machine that systemd runs, with files that hold the given texts.
func hostWith(files map[string]string) machine {
	fsys := fstest.MapFS{"run/systemd/system/x": {}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return machine{files: fsys, user: "ada", uid: 1000}
}

const (
	inSession = "0::/user.slice/user-1000.slice/session-3.scope\n"
	inManager = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/padi.service\n"
	inService = "0::/system.slice/padi.service\n"
	hybrid    = "4:memory:/user.slice/x\n1:name=systemd:/user.slice/user-1000.slice/session-c12.scope\n0::/\n"
	linger    = "var/lib/systemd/linger/ada"
	logind    = "etc/systemd/logind.conf"
)

// manager makes a runtime directory in which a user's manager listens.
func manager(t *testing.T, w *world) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(w.runtime), "xdg")
	if err := os.MkdirAll(dir+"/systemd", 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", dir+"/systemd/private")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	w.env["XDG_RUNTIME_DIR"] = dir
}

func TestOwnScope(t *testing.T) {
	kills := "[Login]\nKillUserProcesses=yes\n"
	tests := []struct {
		name    string
		cgroup  string
		files   map[string]string
		manager bool
		want    bool
	}{
		{"a login that lingers", inSession, map[string]string{linger: ""}, true, true},
		{"a login that is ended with all in it", inSession, map[string]string{logind: kills}, true, true},
		{"a login that leaves what it started", inSession, map[string]string{logind: "#KillUserProcesses=no\n"}, true, false},
		{"the same on a hybrid hierarchy", hybrid, map[string]string{linger: ""}, true, true},
		{"a service of the user, which would end it", inManager, nil, true, true},
		{"a service of the system without linger", inService, nil, true, false},
		{"a service of the system with linger", inService, map[string]string{linger: ""}, true, true},
		{"no manager to ask", inSession, map[string]string{linger: ""}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.env["PATH"] = w.root // nothing to ask there
			if tt.manager {
				manager(t, w)
			}
			m := hostWith(tt.files)
			m.files.(fstest.MapFS)["proc/self/cgroup"] = &fstest.MapFile{Data: []byte(tt.cgroup)}
			if got := m.ownScope(w.getenv); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("no systemd", func(t *testing.T) {
		w := newWorld(t)
		manager(t, w)
		m := machine{files: fstest.MapFS{linger: {}, "proc/self/cgroup": {Data: []byte(inSession)}}, user: "ada", uid: 1000}
		if m.ownScope(w.getenv) {
			t.Error("a scope was wanted")
		}
	})
}

func TestKillsProcesses(t *testing.T) {
	tests := []struct {
		name     string
		user     string
		files    map[string]string
		loginctl string
		want     bool
	}{
		{"set", "ada", map[string]string{logind: "KillUserProcesses=yes\n"}, "no", true},
		{"as compiled", "ada", map[string]string{logind: "#KillUserProcesses=yes\n"}, "no", true},
		{"a later file wins", "ada", map[string]string{
			logind: "KillUserProcesses=no\n", "etc/systemd/logind.conf.d/10-a.conf": "KillUserProcesses=yes\n",
			"usr/lib/systemd/logind.conf.d/05-z.conf": "KillUserProcesses=no\n",
		}, "no", true},
		{"logind is asked when no file says it", "ada", nil, "yes", true},
		{"logind says no", "ada", nil, "no", false},
		{"root is let be", "root", map[string]string{logind: "KillUserProcesses=yes\n#KillExcludeUsers=root\n"}, "no", false},
		{"an exempted user", "ada", map[string]string{logind: "KillUserProcesses=yes\nKillExcludeUsers=root ada\n"}, "no", false},
		{"only others", "ada", map[string]string{logind: "KillUserProcesses=yes\nKillOnlyUsers=bob\n"}, "no", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			script(t, dir+"/loginctl", `[ "$*" = "show-session --property=KillUserProcesses" ] && echo KillUserProcesses=`+tt.loginctl)
			m := hostWith(tt.files)
			m.user = tt.user
			if got := m.killsProcesses(func(string) string { return dir }); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func script(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestOutlook(t *testing.T) {
	kills := "KillUserProcesses=yes\n"
	tests := []struct {
		name   string
		cgroup string
		files  map[string]string
		want   string
	}{
		{"in the manager, lingering", inManager, map[string]string{linger: ""}, ""},
		{"in the manager only", inManager, nil, "at the last logout"},
		{"in a login that is left alone", inSession, map[string]string{logind: "KillUserProcesses=no\n"}, ""},
		{"in a login that is ended", inSession, map[string]string{logind: kills}, "enable-linger"},
		{"the same, though lingering now", inSession, map[string]string{logind: kills, linger: ""}, "start it anew"},
		{"a system service", inService, map[string]string{logind: kills}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := hostWith(tt.files)
			m.files.(fstest.MapFS)["proc/7/cgroup"] = &fstest.MapFile{Data: []byte(tt.cgroup)}
			got := m.outlook(7, func(string) string { return "" })
			if (tt.want == "") != (len(got) == 0) || !strings.Contains(strings.Join(got, "\n"), tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// inScope is a start on a machine whose systemd-run is the script; the program has the daemon's name, as an installed one has.
func (w *world) inScope(role, systemdRun string) StartConfig {
	w.t.Helper()
	manager(w.t, w)
	bin := filepath.Dir(w.runtime) + "/bin"
	if err := os.Mkdir(bin, 0o700); err != nil {
		w.t.Fatal(err)
	}
	script(w.t, bin+"/systemd-run", `echo "$0 $*" >>`+bin+"/called\n"+systemdRun)
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(exe, bin+"/kaval"); err != nil {
		w.t.Fatal(err)
	}
	w.env["PATH"] = bin + ":/usr/bin:/bin"
	c := w.start(role)
	c.Exe = bin + "/kaval"
	c.machine = hostWith(map[string]string{linger: "", "proc/self/cgroup": inSession})
	return c
}

// execRest is what systemd-run --scope does once the scope is there.
const execRest = `while [ "$1" != -- ]; do shift; done; shift; exec "$@"`

func TestStartInAScope(t *testing.T) {
	w := newWorld(t)
	c := w.inScope("serve", "echo scoped >&2; "+execRest)
	hello, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, hello)
	called, err := os.ReadFile(filepath.Dir(c.Exe) + "/called")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--user", "--scope", "--collect", "--property=Delegate=yes", "--unit=kolu-kaval-" + Digest(w.home().Dir) + "-"} {
		if !slices.ContainsFunc(strings.Fields(string(called)), func(arg string) bool { return strings.HasPrefix(arg, want) }) {
			t.Errorf("systemd-run was called without %s: %s", want, called)
		}
	}
	if strings.Contains(string(called), "LANG") {
		t.Error("the environment is in the arguments, for everyone to read")
	}
	resp, err := HTTPClient(Unix(hello.Socket)).Get("http://kaval/about")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got aboutProcess
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := DetachedEnv(c.Environ)
	got.Environ = slices.DeleteFunc(got.Environ, func(kv string) bool {
		return strings.HasPrefix(kv, "PWD=") || strings.HasPrefix(kv, "OLDPWD=") || strings.HasPrefix(kv, "_=")
	}) // the shell's own
	slices.Sort(want)
	slices.Sort(got.Environ)
	if !slices.Equal(got.Environ, want) {
		t.Errorf("environment %v, want %v", got.Environ, want)
	}
	if got.Session != got.PID || got.Dir != "/" {
		t.Errorf("started as %+v", got)
	}
	if log, err := os.ReadFile(w.home().Log()); err != nil || !strings.Contains(string(log), "scoped") {
		t.Errorf("log %q, %v", log, err)
	}
}

func TestStartWhereAScopeIsRefused(t *testing.T) {
	for name, systemdRun := range map[string]string{
		"at once": `echo "Failed to start transient scope unit" >&2; exit 1`,
		"silent":  "exec sleep 600",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.inScope("serve", systemdRun)
			c.Timeout = 20 * time.Second
			if name == "silent" {
				c.Timeout = 4 * time.Second
			}
			hello, err := Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer end(t, hello)
			if called, err := os.ReadFile(filepath.Dir(c.Exe) + "/called"); err != nil || strings.Count(string(called), "\n") != 1 {
				t.Errorf("systemd-run was called as %q, %v", called, err)
			}
		})
	}
}

func TestOneThatDiesInAScopeIsItsOwnFault(t *testing.T) {
	w := newWorld(t)
	_, err := Start(t.Context(), w.inScope("die", execRest))
	if err == nil || !strings.Contains(err.Error(), "the moon is full") {
		t.Errorf("got %v", err)
	}
}

func TestScopeNamesAreUnique(t *testing.T) {
	c := newWorld(t).start("serve")
	names := map[string]bool{}
	for range 10 {
		names[c.scopeArgs("/x")[4]] = true
	}
	if len(names) != 10 {
		t.Errorf("got %v", names)
	}
}
