package provision

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kolu/internal/fault"
)

// home makes the home of a daemon of a pid, as daemons leave it.
func daemonHome(t *testing.T, dir, kind string, pid int) (socket string) {
	t.Helper()
	home := filepath.Join(dir, kind+"-0123456789abcdef")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(home, sockets[kind])
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for name, text := range map[string]string{kind + ".pid": strconv.Itoa(pid) + "\t1700000000000000\n", "state-root": "/home/u/.local/state/padi\n", "owner": "process 7 (a b)\n"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return socket
}

// TestExamineThroughEveryShell asks a host with a build, a live padi, a home that a kaval left, and a nix.conf.
func TestExamineThroughEveryShell(t *testing.T) {
	b := testBuild(t, "examine", 0)
	for _, sh := range shells {
		t.Run(sh.name, func(t *testing.T) {
			need(t, sh.argv[0], sh.pkg)
			h := newHost(t)
			h.shell = sh.argv
			run, conf := shortDir(t), shortDir(t)
			h.env = append(h.env, "KOLU_RUNTIME_DIR="+run, "NIX_CONF_DIR="+conf, "SHELL=/bin/anything")
			padi := daemonHome(t, run, "padi", os.Getpid())
			kaval := daemonHome(t, run, "kaval", 1<<22+1) // above every pid
			if err := os.WriteFile(filepath.Join(conf, "nix.conf"), []byte("allowed-users = *\ntrusted-users = root @wheel\ntrusted-public-keys = mine-1:abc=\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(h.home(), ".local/share/kolu/builds", b.ID())
			putBuild(t, b, dir)
			before := time.Now()
			s := h.run(t, catalogOf(b).Examine(testNonce))
			if !s.ended || s.noise != "" {
				t.Fatalf("got %+v", s)
			}
			e := ParseExamination(s.facts)
			if e.Build != dir || e.Login != "/bin/anything" || e.User != me() || e.UID != os.Getuid() || e.Left == nil || !slices.Contains(e.Groups, me()) {
				t.Errorf("got %+v", e)
			}
			if off := e.Clock.Sub(before); off < -2*time.Second || off > 30*time.Second {
				t.Errorf("the clock is %s off", off)
			}
			if !slices.Equal(e.Allowed, []string{"*"}) || !slices.Equal(e.Trusted, []string{"root", "@wheel"}) || !slices.Equal(e.Keys, []string{"mine-1"}) {
				t.Errorf("nix.conf: got %q, %q, %q", e.Allowed, e.Trusted, e.Keys)
			}
			i := slices.IndexFunc(e.Daemons, func(d Daemon) bool { return d.Socket == padi })
			j := slices.IndexFunc(e.Daemons, func(d Daemon) bool { return d.Socket == kaval })
			if i < 0 || j < 0 {
				t.Fatalf("got daemons %+v", e.Daemons)
			}
			exe, err := os.Readlink("/proc/self/exe")
			if d := e.Daemons[i]; !d.Live || d.PID != os.Getpid() || d.Kind != "padi" || d.StateRoot != "/home/u/.local/state/padi" || d.Owner != "process 7 (a b)" || err == nil && d.Exe != exe {
				t.Errorf("got %+v, want exe %s", d, exe)
			}
			if d := e.Daemons[j]; d.Live || d.Kind != "kaval" {
				t.Errorf("got %+v", d)
			}
			if s.facts["front"] != "" {
				t.Error("the build was started")
			}
		})
	}
}

func TestTrustByNixConf(t *testing.T) {
	daemon := NixFacts{Dir: "/usr/bin", Daemon: true, Store: Place{Dir: "/nix/store", State: PlaceReadOnly}}
	for name, tt := range map[string]struct {
		e                       Examination
		trusted, known, allowed bool
	}{
		"says nothing": {Examination{Facts: Facts{UID: 7, User: "u", Nix: daemon}}, false, false, true},
		"by name":      {Examination{Facts: Facts{UID: 7, User: "u", Nix: daemon}, Trusted: []string{"root", "u"}, Allowed: []string{}}, true, true, true},
		"by group":     {Examination{Facts: Facts{UID: 7, User: "u", Nix: daemon}, Trusted: []string{"@g"}, Groups: []string{"g"}, Allowed: []string{"@h"}}, true, true, true},
		"not":          {Examination{Facts: Facts{UID: 7, User: "u", Nix: daemon}, Trusted: []string{"root", "@h"}, Groups: []string{"g"}, Allowed: []string{"v"}}, false, true, false},
		"everyone":     {Examination{Facts: Facts{UID: 7, User: "u", Nix: daemon}, Trusted: []string{"*"}}, true, true, true},
		"own store":    {Examination{Facts: Facts{UID: 7, Nix: NixFacts{Dir: "/usr/bin", Store: Place{State: StoreWritable}}}}, true, true, true},
		"no nix":       {Examination{Facts: Facts{UID: 7}}, false, false, true},
	} {
		if trusted, known := tt.e.TrustsUs(); trusted != tt.trusted || known != tt.known || tt.e.AllowedHere() != tt.allowed {
			t.Errorf("%s: got trusted %v, known %v, allowed %v", name, trusted, known, tt.e.AllowedHere())
		}
	}
}

// TestForget removes builds, leftovers and roots, and leaves what runs, what another upload is at, and what is not ours.
func TestForget(t *testing.T) {
	b := testBuild(t, "forget", 0)
	h := nixHost(t)
	f := h.nixFacts(t, b)
	placed, err := Install(t.Context(), h, f, b, nil)
	if err != nil || placed.Rung != Nix {
		t.Fatalf("got %+v, %v", placed, err)
	}
	builds, roots := filepath.Join(h.home(), ".local/share/kolu/builds"), filepath.Join(h.home(), ".local/state/kolu/roots")
	unused, running := filepath.Join(builds, "unused"), filepath.Join(builds, "running")
	putBuild(t, b, unused)
	putBuild(t, b, running)
	sleep, err := os.ReadFile(need(t, "sleep", "coreutils"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(running, "bin", Program), sleep, 0o755); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(filepath.Join(running, "bin/padi"), "100")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Wait()
	defer daemon.Process.Kill()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	upload, broken := filepath.Join(builds, ".tmp-"+strconv.Itoa(os.Getpid())+"-abcdefgh-"+host), filepath.Join(builds, ".tmp-4194305-abcdefgh-"+host)
	for _, dir := range []string{upload, broken} {
		if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(roots, "mine")
	if err := os.Symlink("/etc", mine); err != nil {
		t.Fatal(err)
	}

	ended, lives, notes := filepath.Join(h.home(), "run/padi-0a"), filepath.Join(h.home(), "run/kaval-0a"), filepath.Join(h.home(), "run/padi-notes")
	for dir, pid := range map[string]int{ended: 4194305, lives: os.Getpid(), notes: 0} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if dir == notes {
			continue
		}
		kind, _, _ := strings.Cut(filepath.Base(dir), "-")
		for name, text := range map[string]string{kind + ".pid": strconv.Itoa(pid) + " x\n", kind + ".log": "", "state-root": "/r\n", "owner": "a\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.env = append(h.env, "KOLU_RUNTIME_DIR="+filepath.Join(h.home(), "run"))
	some := ParseForgotten(h.run(t, Forget(testNonce, false)).facts)
	if slices.Contains(some.Removed, ended) {
		t.Errorf("%s went without being asked for", ended)
	}

	got := ParseForgotten(h.run(t, Forget(testNonce, true)).facts)
	got.Removed = append(some.Removed, got.Removed...)
	path := filepath.Dir(placed.Bin)
	for _, p := range []string{unused, broken, placed.Root, path, ended} {
		if _, err := os.Lstat(p); err == nil || !slices.Contains(got.Removed, p) {
			t.Errorf("%s is still there (%v), or it is not said that it was removed: %q", p, err, got.Removed)
		}
	}
	for _, p := range []string{lives, notes} {
		if _, err := os.Lstat(filepath.Join(p)); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []string{running, upload} {
		if _, err := os.Lstat(p); err != nil || !slices.Contains(got.Used, p) {
			t.Errorf("%s: %v, or it is not said that it is used: %q", p, err, got.Used)
		}
	}
	if at, _ := os.Readlink(mine); at != "/etc" || len(got.Removed) != 5 {
		t.Errorf("a link of somebody else leads to %q; removed %q", at, got.Removed)
	}
	if again := ParseForgotten(h.run(t, Forget(testNonce, true)).facts); len(again.Removed) > 0 || len(again.Used) != 2 {
		t.Errorf("the second time: got %+v", again)
	}
}

// TestForgetWithoutAnything is a host that never had a build.
func TestForgetWithoutAnything(t *testing.T) {
	h := newHost(t)
	s := h.run(t, Forget(testNonce, false))
	if got := ParseForgotten(s.facts); !s.ended || len(got.Removed)+len(got.Used)+len(got.Kept)+len(got.Store) > 0 {
		t.Errorf("got %+v, %+v", got, s)
	}
}

// TestEnd ends the process that a gate names, and none that it does not name.
func TestEnd(t *testing.T) {
	h := newHost(t)
	run := shortDir(t)
	sleeping := func() (*exec.Cmd, chan error) {
		cmd := exec.Command("sleep", "100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		return cmd, ended
	}
	cmd, ended := sleeping()
	d := Daemon{Kind: "kaval", PID: cmd.Process.Pid, Socket: daemonHome(t, run, "kaval", cmd.Process.Pid)}
	if s := h.run(t, End(testNonce, d, true)); s.facts["ended"] != "yes" {
		t.Errorf("got %+v", s)
	}
	<-ended

	other, ended := sleeping()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.PID = other.Process.Pid // and the gate names the one before
	p, err := h.Start(ctx, End(testNonce, d, true))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Errorf("a process that is no daemon was ended: %v", err)
	default:
	}
	other.Process.Kill()
	<-ended
}

func TestBridgeLineRefusesWhatNoLineCarries(t *testing.T) {
	for _, bad := range []string{"", "relative", "/a'b", "/a$b", "/a\nb", "/a/../b"} {
		if _, err := BridgeLine(bad, "/tmp/s", testNonce); err == nil {
			t.Errorf("%q as program: no error", bad)
		}
		if _, err := BridgeLine("/bin/kolu", bad, testNonce); err == nil {
			t.Errorf("%q as socket: no error", bad)
		}
	}
	if line, err := BridgeLine("/bin/kolu", "/tmp/a b/s", testNonce); err != nil || !strings.Contains(line, "/tmp/a b/s") {
		t.Errorf("got %s, %v", line, err)
	}
}

// TestAskTrustOfAHostWithoutADaemon has a program in its place that ends with Nix's own words.
func TestAskTrustOfAHostWithoutADaemon(t *testing.T) {
	h := newHost(t)
	dir := shortDir(t)
	h.wrapTool(t, dir, "nix-daemon", `echo "error: cannot connect to socket at '/nix/var/nix/daemon-socket/socket': Connection refused" >&2; exit 1`)
	_, _, err := AskTrust(t.Context(), h, Facts{Nix: NixFacts{Dir: dir}})
	if !fault.Is(err, fault.NixDaemonDown) {
		t.Errorf("got %v", err)
	}
	if _, _, err := AskTrust(t.Context(), h, Facts{}); err == nil {
		t.Error("no Nix: no error")
	}
}
