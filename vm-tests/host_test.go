package vmtests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// report is what `kolu host doctor --json` prints.
type report struct {
	Host  string
	Steps []struct {
		Name, Status, Detail, Remedy string
		MS                           int64
	}
}

func doctor(t *testing.T, c *client, host string) (r report, code int) {
	t.Helper()
	out := c.run("kolu", "host", "doctor", host, "--json")
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
		t.Fatalf("%v: %v", err, out)
	}
	return r, out.code
}

// says checks the status of a step and a word of its finding.
func (r report) says(t *testing.T, step, status, word string) {
	t.Helper()
	for _, s := range r.Steps {
		if s.Name == step && s.Status == status && strings.Contains(s.Detail, word) && (status == "ok" || s.Remedy != "") {
			return
		}
	}
	t.Errorf("no step %s is %s with %q: %+v", step, status, word, r.Steps)
}

// TestDoctor looks at hosts of many kinds before and after their first verb. It changes nothing, and is quick when the host is warm.
func TestDoctor(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nonix", 7)
	c := newClient(t)
	cold, code := doctor(t, c, host)
	if code != 0 {
		t.Errorf("exit %d: %+v", code, cold)
	}
	cold.says(t, "config", "ok", "port 22")
	cold.says(t, "system", "ok", "linux")
	cold.says(t, "build", "ok", "is not there yet")
	cold.says(t, "padi", "ok", "none runs")
	if got := b.in(t, host, "ls -d /home/nix/.local /tmp/padi-* 2>/dev/null || true"); got != "" {
		t.Errorf("looking left %s", got)
	}
	c.ok("padi-tui", "create", "--toplevel", "--host", host, "--", "cat")
	before := facts(c, host)
	start := time.Now()
	warm, code := doctor(t, c, host)
	t.Logf("a warm host took %s", time.Since(start))
	if code != 0 || time.Since(start) > 10*time.Second {
		t.Errorf("exit %d after %s", code, time.Since(start))
	}
	warm.says(t, "connect", "ok", "a connection that was there")
	warm.says(t, "build", "ok", "stands at")
	warm.says(t, "padi", "ok", "1 terminal")
	warm.says(t, "kaval", "ok", "1 terminal")
	warm.says(t, "sessions", "ok", "several")
	warm.says(t, "clock", "ok", "the same")
	if after := facts(c, host); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}

	for _, tt := range []struct{ kind, step, status, word string }{
		{"nixd/guest", "nix", "ok", "does not trust us"}, {"nixd", "nix", "ok", "trusts us"}, {"nixd+noisy", "shell", "warn", "Welcome"},
		{"nonix+noexec", "places", "warn", "noexec"}, {"nonix+noexec+noexectmp", "places", "fail", "noexec"}, {"nixd+fish", "shell", "ok", "fish"},
		{"nixd+nopath", "nix", "ok", "/nix/var/nix/profiles/default/bin"},
	} {
		r, code := doctor(t, c, s.host(t, tt.kind, 0))
		r.says(t, tt.step, tt.status, tt.word)
		if want := map[bool]int{false: 0, true: 1}[tt.status == "fail"]; code != want {
			t.Errorf("%s: exit %d, want %d", tt.kind, code, want)
		}
	}
	r, code := doctor(t, newClient(t, "User=games"), host)
	if r.says(t, "connect", "fail", "key"); code != 1 {
		t.Errorf("a refused login: exit %d", code)
	}
}

// TestForget takes everything away in the end, and nothing while a terminal lives.
func TestForget(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nixd", 7)
	c := newClient(t)
	id := c.ok("padi-tui", "create", "--toplevel", "--host", host, "--", "cat")
	before := facts(c, host)
	for _, args := range [][]string{{"host", "forget", host}, {"host", "forget", host, "--all"}} {
		if r := c.run("kolu", args...); r.code != 1 || !strings.Contains(r.stderr, id[:8]) || !strings.Contains(r.stderr, "nothing was removed") {
			t.Errorf("%v with a terminal: %v", args, r)
		}
	}
	if after := facts(c, host); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	c.ok("kaval-tui", "kill", "--host", host, id)
	if out := c.ok("kolu", "host", "forget", host); !strings.Contains(out, "a process runs from it") || !strings.Contains(out, "--all") {
		t.Errorf("with daemons that hold nothing:\n%s", out)
	}
	if out := c.ok("kolu", "host", "forget", host, "--all"); !strings.Contains(out, "ended    padi") || !strings.Contains(out, "ended    kaval") || !strings.Contains(out, "removed  /nix/store/") || !strings.Contains(out, "kolu-ssh") {
		t.Errorf("forget --all:\n%s", out)
	}
	if got := b.in(t, host, "ls -d /home/nix/.local/share/kolu /home/nix/.local/state/kolu /nix/store/*-kolu-* /tmp/padi-*/padi.sock 2>/dev/null || true; pgrep -f [k]olu/builds || true"); got != "" {
		t.Errorf("left over there: %s", got)
	}
	if sockets, _ := filepath.Glob(filepath.Join(c.home, "run", "kolu-ssh", "*")); len(sockets) > 0 {
		t.Errorf("left here: %v", sockets)
	}
	c.ok("kolu", "host", "forget", host, "--all") // twice is no error
	c.ok("padi-tui", "status", "--host", host)
}

// closureStore is a store of this machine that only this client sees, with a closure in it: kolu itself, with references.
func closureStore(t *testing.T, c *client) (closure string) {
	t.Helper()
	for _, tool := range []string{"nix-build", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is missing: a closure needs a store on this machine", tool)
			}
			t.Skipf("%s is missing: a closure needs a store on this machine", tool)
		}
	}
	dir, err := filepath.Abs("testbed/closure")
	if err != nil {
		t.Fatal(err)
	}
	expr := filepath.Join(c.home, "kolu.nix")
	text := `let c = import ` + dir + ` { program = "` + c.s.bin + `/kolu"; size = 2; };
in derivation {
  name = "kolu-closure"; system = builtins.currentSystem; builder = "${c.busybox}/bin/busybox"; PATH = "${c.busybox}/bin"; inherit (c) app greeter;
  args = [ "sh" "-ec" ''
    mkdir -p $out/bin; ln -s $greeter/bin/greeter $out/bin/kolu; echo $app >$out/app
    for n in kaval kaval-tui padi padi-tui pulam-tui; do ln -s kolu $out/bin/$n; done '' ];
}`
	if err := os.WriteFile(expr, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(c.home, "nix")
	if err := os.MkdirAll(store, 0o755); err != nil {
		t.Fatal(err)
	}
	c.env = append(c.env, "NIX_CONFIG=build-users-group =\nsubstituters =\nsandbox = false", "NIX_REMOTE=")
	return c.ok("unshare", "-m", "sh", "-c", `mount --bind "$0" /nix && exec "$@"`, store, "nix-build", "--no-out-link", expr)
}

// withStore runs a program that sees the client's own store.
func (c *client) withStore(args ...string) result {
	return c.run("unshare", append([]string{"-m", "sh", "-c", `mount --bind "$0" /nix && exec "$@"`, filepath.Join(c.home, "nix")}, args...)...)
}

// TestClosure brings a closure of unsigned paths to a store of the user's own and by a daemon that trusts the user; a daemon that does
// not is asked first, and gets the static build.
func TestClosure(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	for _, tt := range []struct {
		kind  string
		n     int
		takes bool
	}{{"nix28", 1, true}, {"nixd", 5, true}, {"nixd/guest", 6, false}} {
		t.Run(tt.kind, func(t *testing.T) {
			alias := s.host(t, tt.kind, tt.n)
			host, _, _ := strings.Cut(alias, "-")
			c := newClient(t)
			top := closureStore(t, c)
			c.env = append(c.env, "KOLU_CLOSURE="+top)
			r := c.withStore("padi-tui", "status", "--host", alias)
			if r.code != 0 {
				t.Fatal(r)
			}
			there := b.in(t, host, "ls -d "+top+" 2>/dev/null || true") != ""
			if there != tt.takes {
				t.Errorf("the closure is there: %v, want %v: %v", there, tt.takes, r)
			}
			if !tt.takes {
				if !strings.Contains(r.stderr, "trusted-users") {
					t.Errorf("the refusal is not said: %v", r)
				}
				if got := b.in(t, host, "ls /nix/store | grep -c -e -data -e -greeter -e -busybox || true"); strings.TrimSpace(got) != "0" {
					t.Errorf("%s paths of the closure came over", got)
				}
				return
			}
			exe := b.in(t, host, "for f in /tmp/padi-*/padi.pid; do read -r pid rest <$f; readlink /proc/$pid/exe; done")
			if !strings.Contains(exe, "-greeter/bin/greeter") {
				t.Errorf("padi runs from %s", exe)
			}
			execs, sent := b.execs(t, host), b.sent(t, host)
			if again := c.withStore("padi-tui", "status", "--host", alias); again.code != 0 {
				t.Error(again)
			}
			if n := b.execs(t, host) - execs; n != 1 || b.sent(t, host)-sent > 64<<10 {
				t.Errorf("the second verb took %d execs and %d bytes", n, b.sent(t, host)-sent)
			}
		})
	}
}

// TestUnameThatLies has a host that calls itself another processor: the build for that one is what goes there, and the failure to run it
// has a name.
func TestUnameThatLies(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nonix", 3)
	agents := s.allAgents(t)
	b.in(t, host, `mv /bin/uname /bin/uname.real; printf "#!/bin/sh\ncase \$1 in -sm) echo Linux aarch64;; -m) echo aarch64;; *) exec uname.real \"\$@\";; esac\n" >/bin/uname; chmod 755 /bin/uname`)
	defer b.in(t, host, "mv /bin/uname.real /bin/uname")
	c := newClient(t)
	c.env = append(c.env, "KOLU_AGENTS="+agents)
	const builds = "find /home -name '*kolu*' -size +100k; find /home -name '.tmp-*'"
	had, before := b.in(t, host, builds), b.sent(t, host) // the build for the true processor may be there
	r := c.run("padi-tui", "status", "--host", host)
	oneLine(t, r, "padi-tui", host, `uname says Linux aarch64 and the programs of the host are for x86_64, so the build for aarch64-linux does not run`)
	if sent := b.sent(t, host) - before; sent < 3_000_000 {
		t.Errorf("only %d bytes went over: the build cannot have been placed", sent)
	}
	if has := b.in(t, host, builds); has != had {
		t.Errorf("there was: %sthere is: %s", had, has)
	}
}

// TestNixThatRefuses has a host whose nix-daemon does not let the user in, and then one that is down. Doctor says which, and the build
// goes to the home instead.
func TestNixThatRefuses(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	alias := s.host(t, "nixd/guest", 6)
	host, _, _ := strings.Cut(alias, "-")
	const daemons = `d() { for p in /proc/[0-9]*; do read -r c <$p/comm && [ "$c" = nix-daemon ] && echo ${p#/proc/}; done 2>/dev/null || true; }; `
	for _, tt := range []struct{ name, break_, says string }{
		{"allowed-users", daemons + `echo "allowed-users = root nix" >>/etc/nix/nix.conf; old=$(d); kill $old; while [ -z "$(d)" ] || [ "$(d)" = "$old" ]; do sleep 0.1; done`, "allowed-users"},
		{"daemon down", daemons + `sed -i /allowed-users/d /etc/nix/nix.conf; p=$(d); read -r x1 x2 x3 parent rest </proc/$p/stat; kill -9 $parent $p; while [ "$(d)" ]; do sleep 0.1; done`, "does not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t)
			b.in(t, host, `for f in /tmp/padi-*/padi.pid /tmp/kaval-*/kaval.pid; do [ -e "$f" ] && read -r pid rest <"$f" && kill "$pid" 2>/dev/null || true; done
				rm -rf /home/guest/.local/share/kolu /home/guest/.local/state/kolu
				for p in /nix/store/*-kolu-*; do [ ! -e "$p" ] || nix-store --delete "$p" >/dev/null 2>&1 || true; done`)
			b.in(t, host, tt.break_)
			r, code := doctor(t, c, alias)
			if r.says(t, "nix", "warn", tt.says); code != 0 {
				t.Errorf("doctor: exit %d", code)
			}
			c.ok("padi-tui", "status", "--host", alias)
			r, _ = doctor(t, c, alias)
			r.says(t, "build", "ok", "stands at /home/guest/.local/share/kolu/builds/")
		})
	}
}
