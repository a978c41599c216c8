package daemon

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStateRoot(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want string
	}{
		{"variable", map[string]string{StateRootVar: "/a/../b//c/", "HOME": "/home/u"}, "/b/c"},
		{"home", map[string]string{"HOME": "/home/u", "XDG_STATE_HOME": "/elsewhere"}, "/home/u/.local/state/padi"},
		{"relative variable", map[string]string{StateRootVar: "a/b", "HOME": "/home/u"}, ""},
		{"no home", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := StateRoot(func(k string) string { return tt.env[k] })
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestDigestIsStable(t *testing.T) {
	// Clients of other builds compute the same address, however the path is spelled.
	for _, path := range []string{"/home/u/.local/state/padi", "/home/u/.local/./state//padi/"} {
		if got, want := Digest(path), "e46cabd2118a43b6"; got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestHomeNames(t *testing.T) {
	uid := os.Getuid()
	run := t.TempDir()
	digest := Digest("/s")
	tests := []struct {
		name string
		env  map[string]string
		want string
	}{
		{"runtime directory of its own", map[string]string{"XDG_RUNTIME_DIR": run}, run + "/padi-" + digest + "/padi.sock"},
		{"none", nil, fmt.Sprintf("/tmp/padi-%s-%d/padi.sock", digest, uid)},
		{"tmpdir is no matter", map[string]string{"TMPDIR": run}, fmt.Sprintf("/tmp/padi-%s-%d/padi.sock", digest, uid)},
		{"a runtime directory that is not there", map[string]string{"XDG_RUNTIME_DIR": run + "/gone"}, fmt.Sprintf("/tmp/padi-%s-%d/padi.sock", digest, uid)},
		{"private fleet", map[string]string{RuntimeVar: "/r/", "XDG_RUNTIME_DIR": run}, "/r/padi-" + digest + "/padi.sock"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := HomeFor(Padi, "/s", func(k string) string { return tt.env[k] })
			if got := h.Socket(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	bare := Standalone(Kaval, func(string) string { return "" })
	if want := fmt.Sprintf("/tmp/kaval-%d/pty-host.sock", uid); bare.Socket() != want {
		t.Errorf("standalone: got %s, want %s", bare.Socket(), want)
	}
	moved := HomeAt(Kaval, "/x/y.sock", "")
	if moved.Socket() != "/x/y.sock" || moved.Gate() != "/x/kaval.pid" {
		t.Errorf("explicit socket: got %s and %s", moved.Socket(), moved.Gate())
	}
}

func TestOpenHome(t *testing.T) {
	dir := newWorld(t).root
	tests := []struct {
		name  string
		make  func(path string) error
		wants string // "" = accepted
	}{
		{"absent", func(string) error { return nil }, ""},
		{"ours", func(p string) error { return os.Mkdir(p, 0o700) }, ""},
		{"open to others", func(p string) error { return mkdirMode(p, 0o755) }, "must be 0700"},
		{"not ours to write", func(p string) error { return mkdirMode(p, 0o500) }, "must be 0700"},
		{"a symlink", func(p string) error { return os.Symlink(dir, p) }, "not a directory"},
		{"a file", func(p string) error { return os.WriteFile(p, nil, 0o600) }, "not a directory"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, fmt.Sprint(i))
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			err := OpenHome(HomeAt(Kaval, path+"/s", ""))
			if tt.wants == "" {
				if err != nil {
					t.Fatal(err)
				}
				if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeDir|0o700 {
					t.Errorf("made %v, %v", info.Mode(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("got %v, want %q", err, tt.wants)
			}
			if after, _ := os.Lstat(path); after.Mode() != before.Mode() {
				t.Errorf("mode changed from %v to %v", before.Mode(), after.Mode())
			}
		})
	}
}

func mkdirMode(path string, mode os.FileMode) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

func TestOpenHomeOfAnotherUser(t *testing.T) {
	dir := "/" // of root
	if os.Getuid() == 0 {
		dir = filepath.Join(newWorld(t).root, "theirs")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if err := OpenHome(HomeAt(Kaval, dir+"/s", "")); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("got %v", err)
	}
}

func TestLongSocketPathIsRefused(t *testing.T) {
	long := "/tmp/" + strings.Repeat("x", 100) + "/s"
	if err := OpenHome(HomeAt(Kaval, long, "")); err == nil || !strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("open: got %v", err)
	}
	if _, err := Unix(long).Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("dial: got %v", err)
	}
}

// plant makes a home as a daemon would leave it.
func plant(t *testing.T, h Home, gate string) {
	t.Helper()
	if err := OpenHome(h); err != nil {
		t.Fatal(err)
	}
	if h.StateRoot != "" {
		if err := WriteManifest(h); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("unix", h.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	if gate != "" {
		write(t, h.Gate(), gate)
	}
}

func ownGate(t *testing.T) string {
	t.Helper()
	started, err := processStart(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return gateContent(os.Getpid(), started)
}

func TestScan(t *testing.T) {
	w := newWorld(t)
	gate := ownGate(t)
	plant(t, HomeFor(Kaval, w.root, w.getenv), gate)
	plant(t, Standalone(Kaval, w.getenv), gate)
	plant(t, Home{Kind: Kaval, Dir: w.runtime + "/kaval-8080"}, gate)
	plant(t, Home{Kind: Kaval, Dir: w.runtime + "/kaval-1234567890123456", StateRoot: "/all/digits"}, gate)
	plant(t, Home{Kind: Kaval, Dir: w.runtime + "/kaval-dead"}, "1\t5\n")
	plant(t, Home{Kind: Kaval, Dir: w.runtime + "/kaval-open"}, gate)
	if err := os.Chmod(w.runtime+"/kaval-open", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.runtime+"/kaval-8080", w.runtime+"/kaval-link"); err != nil {
		t.Fatal(err)
	}
	file := w.runtime + "/kaval-file"
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, file+"/pty-host.sock", "not a socket")
	plant(t, HomeFor(Padi, w.root, w.getenv), gate)

	got := map[string]bool{}
	for _, f := range Scan(Kaval, w.getenv) {
		got[fmt.Sprintf("%s live=%v", f.Label, f.Live)] = true
	}
	for _, want := range []string{
		"kolu @ " + w.root + " live=true", "standalone kaval live=true", "kolu-server on port 8080 live=true",
		"kolu @ /all/digits live=true", "kaval dead live=false",
	} {
		if !got[want] {
			t.Errorf("missing %q in %v", want, got)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("too many: %v", got)
	}
}

func TestScanLooksInEveryRuntimeDirectory(t *testing.T) {
	xdg := newWorld(t).runtime
	root := xdg + "/state"
	none := func(string) string { return "" }
	inTmp := HomeFor(Kaval, root, none)
	t.Cleanup(func() { os.RemoveAll(inTmp.Dir) })
	plant(t, inTmp, ownGate(t))
	with := func(k string) string { return map[string]string{"XDG_RUNTIME_DIR": xdg}[k] }
	f, err := Find(Kaval, Want{StateRoot: root, Getenv: with})
	if err != nil || f.Socket != inTmp.Socket() {
		t.Errorf("got %v, %v; want %s", f.Socket, err, inTmp.Socket())
	}
}

func TestFind(t *testing.T) {
	one, other := newWorld(t), newWorld(t)
	gate := ownGate(t)
	ours := HomeFor(Padi, one.root, one.getenv)

	t.Run("none", func(t *testing.T) {
		_, err := Find(Padi, Want{Getenv: one.getenv})
		if e, ok := err.(*NotRunningError); !ok || e.Home != ours {
			t.Errorf("got %v", err)
		}
	})
	plant(t, HomeFor(Padi, other.root, one.getenv), gate)
	find := func(t *testing.T, want Want) string {
		t.Helper()
		f, err := Find(Padi, want)
		if err != nil {
			t.Fatal(err)
		}
		return f.Socket
	}
	t.Run("the only one, whatever its root", func(t *testing.T) {
		if got, want := find(t, Want{Getenv: one.getenv}), HomeFor(Padi, other.root, one.getenv).Socket(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	plant(t, HomeFor(Padi, "/third", one.getenv), gate)
	plant(t, HomeFor(Padi, "/dead", one.getenv), "1\t5\n")
	t.Run("several", func(t *testing.T) {
		_, err := Find(Padi, Want{Getenv: one.getenv})
		e, ok := err.(*AmbiguousError)
		if !ok || len(e.Candidates) != 2 {
			t.Fatalf("got %v", err)
		}
		if want := "  PADI_SOCKET=" + HomeFor(Padi, "/third", one.getenv).Socket() + "    (/third)\n"; !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a line %q", err, want)
		}
	})
	plant(t, ours, gate)
	env := func(k string) string {
		if k == "PADI_SOCKET" {
			return "/by/env.sock"
		}
		return one.getenv(k)
	}
	for _, tt := range []struct {
		name string
		want Want
		sock string
	}{
		{"the primary", Want{Getenv: one.getenv}, ours.Socket()},
		{"by root", Want{StateRoot: other.root, Getenv: env}, HomeFor(Padi, other.root, one.getenv).Socket()},
		{"by variable", Want{Getenv: env}, "/by/env.sock"},
		{"by path", Want{Socket: "/by/flag.sock", StateRoot: other.root, Getenv: env}, "/by/flag.sock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := find(t, tt.want); got != tt.sock {
				t.Errorf("got %s, want %s", got, tt.sock)
			}
		})
	}
}
