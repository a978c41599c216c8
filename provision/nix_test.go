package provision

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kolu/internal/fault"
)

// nixHost is a host with a store of its own, kept by the real Nix.
func nixHost(t *testing.T) *testHost {
	t.Helper()
	need(t, "nix-store", "nix-bin")
	base := shortDir(t)
	return newHost(t, "NIX_STORE_DIR="+base+"/store", "NIX_STATE_DIR="+base+"/var", "NIX_LOG_DIR="+base+"/log",
		"NIX_CONF_DIR="+base+"/etc", "NIX_REMOTE=", "NIX_CONFIG=build-users-group =\nsubstituters =")
}

// nixFacts are the facts of such a host; the store directory appears with the first use.
func (h *testHost) nixFacts(t *testing.T, b Build) Facts {
	t.Helper()
	if err := os.MkdirAll(h.getenv("NIX_STORE_DIR"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := h.probe(t, b)
	if f.Nix.Dir == "" || f.Nix.Store.Dir != h.getenv("NIX_STORE_DIR") || !strings.Contains(f.Nix.Version, "(Nix)") {
		t.Fatalf("got %+v", f.Nix)
	}
	return f
}

// wrapNix puts a script in place of nix-store; "$real" in it is the real one.
func (h *testHost) wrapNix(t *testing.T, f *Facts, script string) {
	t.Helper()
	real, err := exec.LookPath("nix-store")
	if err != nil {
		t.Fatal(err)
	}
	f.Nix.Dir = shortDir(t)
	script = "#!/bin/sh\nreal=" + real + "\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(f.Nix.Dir, "nix-store"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (h *testHost) nixStore(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("nix-store", args...)
	cmd.Env = h.env
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// mustBeRooted checks that the path is valid and outlives a collection.
func (h *testHost) mustBeRooted(t *testing.T, p Placed) {
	t.Helper()
	path := filepath.Dir(p.Bin)
	if at, err := os.Readlink(p.Root); err != nil || at != path {
		t.Errorf("the root %q leads to %q, %v; want %s", p.Root, at, err, path)
	}
	if _, err := h.nixStore(t, "--gc"); err != nil {
		t.Error(err)
	}
	if _, err := h.nixStore(t, "--check-validity", path); err != nil {
		t.Errorf("%s did not outlive a collection: %v", path, err)
	}
}

func (h *testHost) mustRun(t *testing.T, p Placed) {
	t.Helper()
	if s := h.run(t, StartLine(p, "padi", testNonce)); !strings.HasPrefix(s.facts["front"], "padi ") {
		t.Errorf("got %+v", s)
	}
}

func TestNix(t *testing.T) {
	b := testBuild(t, "nix", 1<<20)
	h := nixHost(t)
	f := h.nixFacts(t, b)
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Rung != Nix || p.Bin != b.StorePath(f.Nix.Store.Dir)+"/bin" || p.Sent < b.Size || len(p.Tried) > 0 {
		t.Errorf("got %+v", p)
	}
	h.mustBeRooted(t, p)
	h.mustRun(t, p)

	again, err := Install(t.Context(), h, f, b, nil)
	if err != nil || again.Rung != Valid || again.Bin != p.Bin || again.Root != p.Root || again.Sent > 4096 {
		t.Errorf("the second time: got %+v, %v", again, err)
	}
}

func TestNixByTwoAtOnce(t *testing.T) {
	b := testBuild(t, "nixtwo", 1<<20)
	h := nixHost(t)
	f := h.nixFacts(t, b)
	if _, err := h.nixStore(t, "--gc"); err != nil { // makes the database
		t.Fatal(err)
	}
	errs := make(chan error)
	for range 3 {
		go func() {
			p, err := Install(t.Context(), h, f, b, nil)
			if err == nil && len(p.Tried) > 0 {
				err = p.Tried[0].Err
			}
			errs <- err
		}()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Errorf("%v: %s", err, faultOf(t, err).Evidence)
		}
	}
}

func TestNixLeavesForeignRootNamesAlone(t *testing.T) {
	b := testBuild(t, "root", 0)
	h := nixHost(t)
	f := h.nixFacts(t, b)
	roots := filepath.Join(h.home(), ".local/state/kolu/roots")
	name := b.System + "-" + filepath.Base(b.StorePath(f.Nix.Store.Dir))[:12]
	if err := os.MkdirAll(filepath.Join(roots, name+"-2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(roots, name), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(roots, name+"-3")); err != nil {
		t.Fatal(err)
	}
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil || p.Root != filepath.Join(roots, name+"-4") {
		t.Fatalf("got %+v, %v", p, err)
	}
	h.mustBeRooted(t, p)
	if data, err := os.ReadFile(filepath.Join(roots, name)); err != nil || string(data) != "mine" {
		t.Errorf("got %q, %v", data, err)
	}
	if at, _ := os.Readlink(filepath.Join(roots, name+"-3")); at != "/etc" {
		t.Errorf("the link of somebody else now leads to %q", at)
	}
}

func TestNixWithNoiseAndWithOneSessionAtATime(t *testing.T) {
	b := testBuild(t, "noise", 0)
	h := nixHost(t)
	f := h.nixFacts(t, b)
	h.wrapNix(t, &f, `[ "$1" = --serve ] && head -c 60000 /dev/zero | tr "\0" "*"; exec $real "$@"`)
	p, err := Install(t.Context(), &oneAtATime{testHost: h}, f, b, nil)
	if err != nil || p.Rung != Nix {
		t.Fatalf("got %+v, %v", p, err)
	}
	h.mustBeRooted(t, p)
}

// TestNixCollectedInBetween collects the store while the path has no root yet: with two sessions the lock of the server holds it; with
// one the path is gone once, and is sent again.
func TestNixCollectedInBetween(t *testing.T) {
	b := testBuild(t, "between", 0)
	for name, one := range map[string]bool{"two sessions": false, "one session": true} {
		t.Run(name, func(t *testing.T) {
			h := nixHost(t)
			f := h.nixFacts(t, b)
			var r Runner = h
			if one {
				r = &collecting{oneAtATime: oneAtATime{testHost: h}, t: t}
			}
			sent := 0
			p, err := Install(t.Context(), r, f, b, func(s Step) {
				switch {
				case s.Stage == StageRoot && !one:
					if out, err := h.nixStore(t, "--gc"); err != nil {
						t.Errorf("%v: %s", err, out)
					}
				case s.Stage == StageVerify:
					sent++
				}
			})
			if err != nil || p.Rung != Nix || len(p.Tried) > 0 {
				t.Fatalf("got %+v, %v", p, err)
			}
			if want := map[bool]int{false: 1, true: 2}[one]; sent != want {
				t.Errorf("sent %d times, want %d", sent, want)
			}
			h.mustBeRooted(t, p)
		})
	}
}

// collecting is a host with one session at a time that collects its store once between two of them.
type collecting struct {
	oneAtATime
	t       *testing.T
	refused bool
	done    bool
}

func (h *collecting) Start(ctx context.Context, line string) (Process, error) {
	if h.refused && !h.done {
		h.done = true
		if out, err := h.nixStore(h.t, "--gc"); err != nil {
			h.t.Errorf("%v: %s", err, out)
		}
	}
	p, err := h.oneAtATime.Start(ctx, line)
	h.refused = h.refused || err != nil
	return p, err
}

// oneAtATime refuses a command while another one runs, as MaxSessions 1 does.
type oneAtATime struct {
	*testHost
	last *testProcess
}

func (h *oneAtATime) Start(ctx context.Context, line string) (Process, error) {
	if h.last != nil {
		select {
		case <-h.last.ended:
		default:
			return nil, errors.New("session request failed")
		}
	}
	p, err := h.testHost.Start(ctx, line)
	if err == nil {
		h.last = p.(*testProcess)
	}
	return p, err
}

func TestAddFixedWhereServeIsRefused(t *testing.T) {
	b := testBuild(t, "fixed", 2<<20)
	for name, script := range map[string]string{
		"refused":         `[ "$1" = --serve ] && { echo "only what is listed" >&2; exit 1; }; exec $real "$@"`,
		"another program": `[ "$1" = --serve ] && { echo hello; cat >/dev/null; exit 0; }; exec $real "$@"`,
		"too much noise":  `[ "$1" = --serve ] && { head -c 80000 /dev/zero; exit 1; }; exec $real "$@"`,
		"too old":         `[ "$1" = --serve ] && { printf "\313\356\122\124\0\0\0\0\004\002\0\0\0\0\0\0"; cat >/dev/null; exit 0; }; exec $real "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			h := nixHost(t)
			f := h.nixFacts(t, b)
			h.wrapNix(t, &f, script)
			in := &installer{run: h, facts: f, build: b, patience: usualPatience}
			if name == "another program" {
				in.quick = 2 * time.Second
			}
			p, err := in.install(t.Context())
			if err != nil {
				t.Fatalf("%v; %v", err, p.Tried)
			}
			if p.Rung != AddFixed || p.Bin != b.StorePath(f.Nix.Store.Dir)+"/bin" || len(p.Tried) != 1 || p.Tried[0].Rung != Nix {
				t.Errorf("got %+v", p)
			}
			h.mustBeRooted(t, p)
			h.mustRun(t, p)
			if left, err := os.ReadDir(f.Places[0].Dir); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

// greets is a server that says hello and that the path is not valid.
const greets = `printf "\313\356\122\124\0\0\0\0\007\002\0\0\0\0\0\0\0\0\0\0\0\0\0\0"; `

func TestNixRefusalsAreNamedAndTheUploadFollows(t *testing.T) {
	b := testBuild(t, "refusals", 1<<20)
	for name, tt := range map[string]struct {
		script string
		code   fault.Code
		says   string
	}{
		"daemon down":         {`echo "error: cannot connect to socket at '/nix/var/nix/daemon-socket/socket': Connection refused" >&2; exit 1`, fault.NixDaemonDown, "does not answer"},
		"allowed-users":       {`echo "error: user 'eve' is not allowed to connect to the Nix daemon" >&2; exit 1`, fault.NixRefused, "allowed-users"},
		"not writable":        {`echo "error: creating directory '/nix/store': Permission denied" >&2; exit 1`, fault.NixRefused, "may not write"},
		"no program":          {`echo "sh: nix-store: not found" >&2; exit 127`, fault.NixMissing, "does not start"},
		"old signature text":  {greets + `head -c 300000 >/dev/null; echo "error: cannot add path '/nix/store/x' because it lacks a valid signature" >&2; exit 1`, fault.NixRefused, "signature"},
		"new signature text":  {greets + `head -c 300000 >/dev/null; echo "error: cannot add path '/nix/store/x' because it lacks a signature by a trusted key" >&2; exit 1`, fault.NixRefused, "signature"},
		"disk full in middle": {greets + `head -c 300000 >/dev/null; echo "error: writing to file: No space left on device" >&2; exit 1`, fault.DiskFull, "no space"},
		"dies without a word": {greets + `head -c 300000 >/dev/null; exit 1`, fault.NixRefused, "without taking"},
		"answers no":          {greets + `printf "\0\0\0\0\0\0\0\0"; sleep 0`, fault.NixRefused, "without taking"},
		"ends after hello":    {greets + `exit 0`, fault.NixRefused, "without taking"},
		"damaged": {`[ "$1" = --serve ] && exec $real "$@"; [ "$1" = --realise ] && exec $real "$@"; ` +
			`rm -rf "$2/bin" 2>/dev/null || { chmod -R u+w "$2" && rm -rf "$2/bin"; }; exec $real "$@"`, fault.NixRefused, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			h := nixHost(t)
			f := h.nixFacts(t, b)
			h.wrapNix(t, &f, tt.script)
			p, err := Install(t.Context(), h, f, b, nil)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(p.Tried, func(r Refusal) bool { return r.Err.Code == tt.code && strings.Contains(r.Err.Detail, tt.says) })
			if i < 0 {
				for _, r := range p.Tried {
					t.Errorf("refused %s: %s: %v (%s)", r.Rung, r.Err.Code, r.Err, r.Err.Evidence)
				}
			}
			if p.Rung != Upload {
				t.Errorf("got %s", p.Rung)
			}
			h.mustRun(t, p)
		})
	}
}

func TestNixWithoutRoomIsRefusedBeforeTheBytes(t *testing.T) {
	b := testBuild(t, "room", 1<<20)
	h := nixHost(t)
	f := h.nixFacts(t, b)
	f.Nix.Store.Free = 10 << 20
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil || p.Rung != Upload || len(p.Tried) != 1 || p.Tried[0].Err.Code != fault.DiskFull {
		t.Fatalf("got %+v, %v", p, err)
	}
	if p.Sent > b.Size+4096 {
		t.Errorf("%d bytes were sent", p.Sent)
	}
}

// TestCutInTheMiddle ends the client's side at many bytes of both ways, and finds nothing usable until an attempt is let through.
func TestCutInTheMiddle(t *testing.T) {
	b := testBuild(t, "cut", 3<<20)
	for _, way := range []Rung{Nix, Upload} {
		t.Run(string(way), func(t *testing.T) {
			h := nixHost(t)
			f := h.nixFacts(t, b)
			if way == Upload {
				f = withoutNix(f)
			}
			for i := range 10 {
				at := b.Size * int64(i) / 10
				ctx, cancel := context.WithCancel(t.Context())
				_, err := Install(ctx, h, f, b, func(s Step) {
					if s.Stage == StageSend && s.Done >= at {
						cancel()
					}
				})
				cancel()
				if !fault.Is(err, fault.Interrupted) {
					t.Fatalf("cut at %d: got %v", at, err)
				}
				// The last bytes may have been on their way, and then the host finishes by itself.
				s := h.run(t, catalogOf(b).Line("padi", testNonce))
				if self := s.facts["self"]; self != "" && !whole(filepath.Dir(filepath.Dir(self)), b.Size) {
					t.Fatalf("cut at %d: a build that is not whole was started", at)
				}
			}
			p, err := Install(t.Context(), h, f, b, nil)
			if err != nil || p.Rung != way {
				t.Fatalf("got %+v, %v", p, err)
			}
			h.mustRun(t, p)
			if way == Upload {
				onlyBuild(t, h, b)
			}
		})
	}
}

// TestHostKilledInTheMiddle kills the far shell, which can then clear nothing up; the next attempt does.
func TestHostKilledInTheMiddle(t *testing.T) {
	b := testBuild(t, "kill", 3<<20)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	f.Places = f.Places[:1]
	for i := range 4 {
		at := b.Size * int64(i) / 4
		r := &killing{testHost: h}
		_, err := Install(t.Context(), r, f, b, func(s Step) {
			if s.Stage == StageSend && s.Done >= at {
				r.last.cmd.Process.Kill()
			}
		})
		if err == nil {
			t.Fatalf("killed at %d: no error", at)
		}
		if s := h.run(t, catalogOf(b).Line("padi", testNonce)); s.facts["front"] != "" {
			t.Fatalf("killed at %d: a build that is not whole was started", at)
		}
	}
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.mustStart(t, b, p)
	onlyBuild(t, h, b)
}

type killing struct {
	*testHost
	last *testProcess
}

func (h *killing) Start(ctx context.Context, line string) (Process, error) {
	p, err := h.testHost.Start(ctx, line)
	if err == nil {
		h.last = p.(*testProcess)
	}
	return p, err
}

// mounted is a file system of its own, for root.
func mounted(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test mounts a file system: run it as root")
		}
		t.Skip("this test mounts a file system: run it as root")
	}
	dir := shortDir(t)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "kolu-test", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

func TestHomeThatIsNoexec(t *testing.T) {
	b := testBuild(t, "noexec", 0)
	h := newHost(t)
	h.env = append(h.env, "HOME="+mounted(t, "noexec"))
	f := withoutNix(h.probe(t, b))
	if f.Places[0].State != PlaceNoExec {
		t.Fatalf("got %+v", f.Places)
	}
	f.Places[1] = Place{Dir: filepath.Join(shortDir(t), "builds"), State: PlaceOK, Free: -1, Inodes: -1}
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil || p.Bin != filepath.Join(f.Places[1].Dir, b.ID(), "bin") || len(p.Warnings) != 1 {
		t.Errorf("got %+v, %v", p, err)
	}
	f.Places = f.Places[:1]
	_, err = Install(t.Context(), h, f, b, nil)
	if got := faultOf(t, err); got.Code != fault.NoExec || !strings.Contains(got.Detail, h.home()) {
		t.Errorf("got %v", got)
	}
	f.Places[0].State = PlaceUntried // found out by the upload itself
	_, err = Install(t.Context(), h, f, b, nil)
	if got := faultOf(t, err); got.Code != fault.NoExec {
		t.Errorf("got %v", got)
	}
	if left, _ := os.ReadDir(f.Places[0].Dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestDiskThatFills(t *testing.T) {
	b := testBuild(t, "full", 6<<20)
	h := newHost(t)
	h.env = append(h.env, "HOME="+mounted(t, "size=4m"))
	f := withoutNix(h.probe(t, b))
	f.Places = f.Places[:1]
	for _, known := range []bool{true, false} {
		if !known {
			f.Places[0].Free = -1
		}
		p, err := Install(t.Context(), h, f, b, nil)
		if got := faultOf(t, err); got.Code != fault.DiskFull || !strings.Contains(got.Detail, f.Places[0].Dir) || got.Remedy == "" {
			t.Errorf("known %v: got %v (%s)", known, got, got.Evidence)
		}
		if known && p.Sent > 0 {
			t.Errorf("%d bytes were sent", p.Sent)
		}
		if left, _ := os.ReadDir(f.Places[0].Dir); len(left) > 0 {
			t.Errorf("known %v: %v is left", known, left)
		}
	}
	if err := exec.Command("sh", "-c", fmt.Sprintf("cat /dev/zero > %s/fill 2>/dev/null; :", h.home())).Run(); err != nil {
		t.Fatal(err)
	}
	if f := h.probe(t, b); f.Places[0].State != PlaceFull && f.Places[0].Free != 0 {
		t.Errorf("on a full disk: got %+v", f.Places)
	}
}

func TestStoreThatFills(t *testing.T) {
	b := testBuild(t, "storefull", 6<<20)
	h := nixHost(t)
	store := filepath.Join(mounted(t, "size=4m"), "store")
	h.env = append(h.env, "NIX_STORE_DIR="+store)
	f := h.nixFacts(t, b)
	f.Nix.Store.Free = -1
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil || p.Rung != Upload || len(p.Tried) != 1 || p.Tried[0].Err.Code != fault.DiskFull {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestSilenceEndsInATimeout(t *testing.T) {
	b := testBuild(t, "silent", 0)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	in := &installer{run: mute{h}, facts: f, build: b, patience: patience{quick: time.Second, send: time.Second, verify: time.Second, end: time.Second}}
	_, err := in.install(t.Context())
	if got := faultOf(t, err); got.Code != fault.Timeout {
		t.Errorf("got %v", got)
	}
}

// mute is a host whose shell never says anything.
type mute struct{ *testHost }

func (h mute) Start(ctx context.Context, _ string) (Process, error) {
	return h.testHost.Start(ctx, "{ cat >/dev/null; true; }")
}

// TestDeadLinkHoldsNobody has processes that never end, as a link that went dead leaves them.
func TestDeadLinkHoldsNobody(t *testing.T) {
	b := testBuild(t, "dead link", 0)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	ctx, cancel := context.WithCancel(t.Context())
	r := endless{mute: mute{h}, started: cancel}
	f.Nix.Dir = "/usr/bin" // the first step writes, the next one reads
	in := &installer{run: r, facts: f, build: b, patience: usualPatience}
	in.end = 10 * time.Millisecond
	if _, err := in.install(ctx); !fault.Is(err, fault.Interrupted) {
		t.Errorf("got %v", err)
	}
}

type endless struct {
	mute
	started func()
}

func (h endless) Start(ctx context.Context, line string) (Process, error) {
	p, err := h.mute.Start(ctx, line)
	h.started()
	return unending{p}, err
}

type unending struct{ Process }

func (unending) Wait() error           { select {} }
func (unending) Close() error          { return nil }
func (unending) Stdout() io.ReadCloser { return blocked{} }
func (unending) Stdin() io.WriteCloser { return blocked{} }

type blocked struct{}

func (blocked) Read([]byte) (int, error)  { select {} }
func (blocked) Write([]byte) (int, error) { select {} }
func (blocked) Close() error              { return nil }

func TestOldBuildsGoAndRunningOnesStay(t *testing.T) {
	b := testBuild(t, "prune", 0)
	h := newHost(t)
	h.env = append(h.env, "HOME="+mounted(t, "size=300m"))
	f := withoutNix(h.probe(t, b))
	builds := f.Places[0].Dir
	sleep, err := os.ReadFile(need(t, "sleep", "coreutils"))
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-(keepDays + 5) * 24 * time.Hour)
	put := func(name string, at time.Time) string {
		dir := filepath.Join(builds, name)
		putBuild(t, b, dir)
		if err := os.WriteFile(filepath.Join(dir, "bin", Program), sleep, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	unused, running, recent := put("unused", old), put("running", old), put("recent", time.Now())
	daemon := exec.Command(filepath.Join(running, "bin", "padi"), "100")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Wait()
	defer daemon.Process.Kill()
	if _, err := Install(t.Context(), h, f, b, nil); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{unused: false, running: true, recent: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", dir, err == nil, want)
		}
	}
}
