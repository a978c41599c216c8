package provision

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kolu/internal/fault"
)

// closureHost is this machine's store with a closure of two paths in it, and a host that keeps its own store at the same path.
func closureHost(t *testing.T, b Build) (h *testHost, top string) {
	t.Helper()
	need(t, "nix-build", "nix-bin")
	mounted(t, "size=1m") // it takes root
	here, there := shortDir(t), shortDir(t)
	env := []string{"NIX_STORE_DIR=" + here + "/store", "NIX_STATE_DIR=" + here + "/var", "NIX_LOG_DIR=" + here + "/log", "NIX_CONF_DIR=" + here + "/etc",
		"NIX_REMOTE=", "NIX_CONFIG=build-users-group =\nsubstituters =\nsandbox = false"}
	for _, kv := range env {
		key, value, _ := strings.Cut(kv, "=")
		t.Setenv(key, value)
	}
	out, err := exec.Command("nix-build", "--no-out-link", "-E", fmt.Sprintf(`
		let run = name: env: script: derivation ({ inherit name; system = builtins.currentSystem; builder = "/bin/sh"; PATH = "/usr/bin:/bin"; args = [ "-ec" script ]; } // env);
		    data = run "data" {} "head -c 300000 /dev/urandom >$out";
		in run "kolu-closure" { inherit data; program = "%s"; } ''
		  mkdir -p $out/bin; cp $program $out/bin/kolu; chmod 755 $out/bin/kolu; echo $data >$out/data
		  for n in kaval kaval-tui padi padi-tui pulam-tui; do ln -s kolu $out/bin/$n; done ''`, b.File)).CombinedOutput()
	if err != nil {
		t.Fatalf("nix-build: %v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	h = newHost(t, env...)
	if err := os.MkdirAll(there+"/store", 0o755); err != nil {
		t.Fatal(err)
	}
	h.wrap = []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" "$1" && shift && exec "$@"`, there, here}
	return h, lines[len(lines)-1]
}

func (h *testHost) valid(t *testing.T, path string) bool {
	t.Helper()
	argv := append(append([]string{}, h.wrap...), "nix-store", "--check-validity", path)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = h.env
	return cmd.Run() == nil
}

func TestClosure(t *testing.T) {
	b := testBuild(t, "closure", 1<<20)
	h, top := closureHost(t, b)
	b.Closure = top
	c := catalogOf(b)
	f := ParseFacts(h.run(t, c.Line("padi", testNonce)).facts)
	if f.Nix.Store.State != StoreWritable {
		t.Fatalf("got %+v", f.Nix)
	}
	var steps []Step
	p, err := Install(t.Context(), h, f, b, func(s Step) { steps = append(steps, s) })
	if err != nil {
		t.Fatalf("%v: %+v", err, p.Tried)
	}
	if p.Rung != Closure || p.Bin != top+"/bin" || len(p.Tried) > 0 || p.Sent < b.Size+300_000 {
		t.Errorf("got %+v", p)
	}
	if last := lastOf(steps, StageSend); last.Done != last.Total || last.Total < b.Size+300_000 {
		t.Errorf("the last step of sending is %+v", last)
	}
	if s := h.run(t, c.Line("padi", testNonce)); !strings.HasPrefix(s.facts["self"], top) {
		t.Errorf("the line does not find the closure: %+v", s)
	}
	again, err := Install(t.Context(), h, f, b, nil)
	if err != nil || again.Rung != Valid || again.Sent > 8192 || again.Root != p.Root {
		t.Errorf("the second time: got %+v, %v", again, err)
	}
}

// stubDaemon gives a host a nix-daemon that says of the user what trust is, in the words of Nix 2.26.
func stubDaemon(t *testing.T, h *testHost, f *Facts, trust string) {
	t.Helper()
	h.wrapNix(t, f, `exec $real "$@"`)
	script := `#!/bin/sh
printf 'oixd\0\0\0\0\046\001\0\0\0\0\0\0'
printf '\006\0\0\0\0\0\0\0002.26.3\0\0'
printf '` + trust + `\0\0\0\0\0\0\0'
cat >/dev/null
`
	if err := os.WriteFile(filepath.Join(f.Nix.Dir, "nix-daemon"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestClosureIsRefusedBeforeTheFirstByte has a store whose daemon does not trust the user, who would say so only after the last byte.
func TestClosureIsRefusedBeforeTheFirstByte(t *testing.T) {
	b := testBuild(t, "untrusted", 1<<20)
	h, top := closureHost(t, b)
	b.Closure = top
	for _, tt := range []struct {
		name, trust string
		rung        Rung
	}{ // in this order: once a closure is valid nobody is asked any more
		{"untrusted", `\002`, Nix}, {"trusted", `\001`, Closure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := ParseFacts(h.run(t, catalogOf(b).Examine(testNonce)).facts)
			stubDaemon(t, h, &f, tt.trust)
			f.UID, f.User, f.Nix.Daemon, f.Nix.Store.State = 1001, "guest", true, PlaceReadOnly
			p, err := Install(t.Context(), h, f, b, nil)
			if err != nil || p.Rung != tt.rung {
				t.Fatalf("got %+v, %v", p, err)
			}
			if tt.rung == Closure {
				return
			}
			if len(p.Tried) != 1 || p.Tried[0].Err.Code != fault.NixRefused || !strings.Contains(p.Tried[0].Err.Detail, "trusted-users") || len(p.Warnings) != 1 {
				t.Errorf("got %+v", p)
			}
			if p.Sent > b.NarSize+8192 {
				t.Errorf("%d bytes were sent, and the static build has %d", p.Sent, b.NarSize)
			}
			if h.valid(t, top) {
				t.Error("the closure is there")
			}
		})
	}
}

// TestClosureThatCannotBeUsed has closures that are none, and hosts that cannot take one.
func TestClosureThatCannotBeUsed(t *testing.T) {
	b := testBuild(t, "noclosure", 0)
	h, top := closureHost(t, b)
	f := ParseFacts(h.run(t, catalogOf(b).Line("padi", testNonce)).facts)
	for name, tt := range map[string]struct {
		closure string
		change  func(*Facts)
		code    fault.Code
	}{
		"no nix":        {top, func(f *Facts) { f.Nix = NixFacts{} }, fault.NixMissing},
		"another store": {"/else/store/" + filepath.Base(top), func(*Facts) {}, fault.NixRefused},
		"no room":       {top, func(f *Facts) { f.Nix.Store.Free = 10 << 20 }, fault.DiskFull},
	} {
		g, c := f, b
		tt.change(&g)
		c.Closure = tt.closure
		p, err := Install(t.Context(), h, g, c, nil)
		if err != nil || !slices.ContainsFunc(p.Tried, func(r Refusal) bool { return r.Rung == Closure && r.Err.Code == tt.code }) {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
	b.Closure = filepath.Dir(top) + "/" + strings.Repeat("0", 32) + "-gone"
	if _, err := Install(t.Context(), h, f, b, nil); faultOf(t, err).Code != fault.BadBuild {
		t.Errorf("a closure that is not here: got %v", err)
	}
}

func TestClosureThatTheUserNames(t *testing.T) {
	for name, value := range map[string]string{"relative": "x", "no store path": "/etc", "gone": "/nix/store/" + strings.Repeat("0", 32) + "-kolu"} {
		_, err := OpenCatalog(t.Context(), func(key string) string { return map[string]string{ClosureVar: value}[key] })
		if f := faultOf(t, err); f.Code != fault.BadBuild || !strings.Contains(f.Detail, ClosureVar) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	store := filepath.Join(shortDir(t), "store")
	top := store + "/" + strings.Repeat("a", 32) + "-kolu-1"
	b := testBuild(t, "named", 0)
	putBuild(t, b, top)
	link := filepath.Join(shortDir(t), "result")
	if err := os.Symlink(top, link); err != nil {
		t.Fatal(err)
	}
	c := &Catalog{}
	if err := c.readClosure(func(string) string { return link }, thisSystem); err != nil || c.withClosure(b).Closure != top {
		t.Errorf("got %+v, %v", c.withClosure(b), err)
	}
	other := b
	other.System = "aarch64-darwin"
	if c.withClosure(other).Closure != "" {
		t.Error("the closure is taken for another system")
	}
}
