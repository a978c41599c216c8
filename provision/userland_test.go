package provision

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kolu/internal/fault"
)

// fakeTools puts scripts before everything else on a host's PATH.
func (h *testHost) fakeTools(t *testing.T, tools map[string]string) {
	t.Helper()
	dir := shortDir(t)
	for name, script := range tools {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(h.env, "PATH="+dir+":"+h.getenv("PATH"))
}

// TestMacThatCallsItselfAnIntel has what `uname` and `sysctl` say on Macs: under Rosetta the build for the true processor is the one that
// is looked for, and on a true Intel, where the key is 0 or not there, the other one.
func TestMacThatCallsItselfAnIntel(t *testing.T) {
	for name, tt := range map[string]struct{ uname, sysctl, want string }{
		"Rosetta": {"Darwin x86_64", `[ "$*" = "-n sysctl.proc_translated" ] && echo 1`, "aarch64-darwin"},
		"Intel":   {"Darwin x86_64", `echo "sysctl: unknown oid" >&2; exit 1`, "x86_64-darwin"},
		"said no": {"Darwin x86_64", `echo 0`, "x86_64-darwin"},
		"Apple":   {"Darwin arm64", `echo 0`, "aarch64-darwin"},
		"Linux":   {"Linux x86_64", `echo 1`, "x86_64-linux"},
	} {
		t.Run(name, func(t *testing.T) {
			var builds []Build
			for i, system := range Systems {
				builds = append(builds, Build{System: system, Version: "1", SHA256: strings.Repeat("0123456789"[i:i+1], 64), NarHash: strings.Repeat("b", 64)})
			}
			c := catalogOf(builds...)
			h := newHost(t)
			h.fakeTools(t, map[string]string{"uname": `[ "$1" = -sm ] && echo "` + tt.uname + `"`, "sysctl": tt.sysctl})
			if system, err := ParseFacts(h.run(t, c.Line("padi", testNonce)).facts).System(); err != nil || system != tt.want {
				t.Errorf("got %s, %v; want %s", system, err, tt.want)
			}
			b := testBuild(t, "mac", 0)
			b.System, b.SHA256 = tt.want, c.builds[tt.want].SHA256
			putBuild(t, b, filepath.Join(h.home(), ".local/share/kolu/builds", b.ID()))
			if s := h.run(t, c.Line("padi", testNonce)); s.facts["front"] == "" {
				t.Errorf("the build for %s was not found: %+v", tt.want, s)
			}
		})
	}
}

// needRoot skips where a test cannot have a mount namespace of its own.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test makes a mount namespace: run it as root")
		}
		t.Skip("this test makes a mount namespace: run it as root")
	}
}

// inNamespace has a host's commands run in a mount namespace that script has changed.
func (h *testHost) inNamespace(t *testing.T, script string) {
	t.Helper()
	needRoot(t)
	h.wrap = []string{"unshare", "-m", "/bin/sh", "-c", script + ` && exec "$@"`, "sh"}
}

// TestSmallUserlandOnABigKernel has a /bin/sh of 32 bits and a getconf that says so, on the kernel of 64 bits that runs here. The static
// build for that kernel goes there and runs.
func TestSmallUserlandOnABigKernel(t *testing.T) {
	needRoot(t)
	if thisSystem != "x86_64-linux" {
		t.Skip("only this processor runs programs of 32 bits")
	}
	dir := shortDir(t)
	sh32, sh := filepath.Join(dir, "sh32"), filepath.Join(dir, "sh")
	real, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	src := `package main
import ("os"; "syscall")
func main() { syscall.Exec("` + sh + `", os.Args, os.Environ()); os.Exit(126) }`
	for file, text := range map[string]string{sh: string(data), filepath.Join(dir, "main.go"): src} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", sh32, filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=386", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := exec.Command(sh32, "-c", "exit 0").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this kernel runs no program of 32 bits: %v", err)
		}
		t.Skipf("this kernel runs no program of 32 bits: %v", err)
	}
	h := newHost(t)
	h.fakeTools(t, map[string]string{"getconf": `[ "$1" = LONG_BIT ] && echo 32`})
	h.inNamespace(t, "mount --bind "+sh32+" "+real)
	b := testBuild(t, "small", 2<<20)
	f := withoutNix(h.probe(t, b))
	if system, err := f.System(); f.LongBit != 32 || err != nil || system != thisSystem {
		t.Fatalf("got %d bits, %s, %v", f.LongBit, system, err)
	}
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil || p.Rung != Upload {
		t.Fatalf("got %+v, %v", p, err)
	}
	h.mustStart(t, b, p)
}

// TestHostWithoutProc has nothing in /proc, as a chroot or a container has it: the probe, every rung and forgetting work, and what
// cannot be seen to be unused is left alone.
func TestHostWithoutProc(t *testing.T) {
	const without = "mount -t tmpfs tmpfs /proc"
	b := testBuild(t, "no proc", 2<<20)
	for _, way := range []Rung{Nix, AddFixed, Upload} {
		t.Run(string(way), func(t *testing.T) {
			h := nixHost(t)
			f := h.nixFacts(t, b)
			h.inNamespace(t, without)
			if s := h.run(t, "ls /proc"); s.noise != "" || s.err != nil {
				t.Fatalf("/proc is not empty: %+v", s)
			}
			if seen := h.probe(t, b); seen.Places[0].State != PlaceOK || seen.Nix.Dir == "" || seen.UID != os.Getuid() {
				t.Errorf("got %+v", seen)
			}
			switch way {
			case AddFixed:
				h.wrapNix(t, &f, `[ "$1" = --serve ] && exit 1; exec $real "$@"`)
			case Upload:
				f = withoutNix(f)
			}
			old := filepath.Join(f.Places[0].Dir, "old")
			putBuild(t, b, old)
			p, err := Install(t.Context(), h, f, b, nil)
			if err != nil || p.Rung != way {
				t.Fatalf("got %+v, %v", p, err)
			}
			h.mustRun(t, p)
			if _, err := os.Stat(old); err != nil {
				t.Errorf("a build of which nobody knows whether it runs: %v", err)
			}
			if e := ParseExamination(h.run(t, catalogOf(b).Examine(testNonce)).facts); e.UID != os.Getuid() || !slices.Contains(e.Left, old) {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// TestTMPDIRIsNotUsed has a TMPDIR where nothing can be executed, and one where nothing can be written: no rung needs it.
func TestTMPDIRIsNotUsed(t *testing.T) {
	b := testBuild(t, "tmpdir", 2<<20)
	for name, options := range map[string]string{"noexec": "noexec", "full": "size=4k,nr_inodes=1"} {
		for _, way := range []Rung{Nix, AddFixed, Upload} {
			t.Run(name+"/"+string(way), func(t *testing.T) {
				tmp := mounted(t, options)
				h := nixHost(t)
				h.env = append(h.env, "TMPDIR="+tmp)
				f := h.nixFacts(t, b)
				switch way {
				case AddFixed:
					h.wrapNix(t, &f, `[ "$1" = --serve ] && exit 1; exec $real "$@"`)
				case Upload:
					f = withoutNix(f)
				}
				p, err := Install(t.Context(), h, f, b, nil)
				if err != nil || p.Rung != way {
					t.Fatalf("got %+v, %v", p, err)
				}
				h.mustRun(t, p)
				if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
					t.Errorf("in TMPDIR: %v, %v", left, err)
				}
				for _, place := range f.Places {
					if strings.HasPrefix(place.Dir, tmp) {
						t.Errorf("TMPDIR is a place for builds: %+v", place)
					}
				}
			})
		}
	}
}

// notedNix has a host whose nix-store notes each call, and gives the calls so far.
func (h *testHost) notedNix(t *testing.T, f *Facts) func() []string {
	t.Helper()
	log := filepath.Join(shortDir(t), "calls")
	h.wrapNix(t, f, `echo "$*" >>`+log+`; exec $real "$@"`)
	return func() []string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// TestNothingIsRealisedUnasked: --realise of a path that is not there would ask caches that may not answer. It comes only after the store
// said that the path is valid, and never when it is not.
func TestNothingIsRealisedUnasked(t *testing.T) {
	b := testBuild(t, "realise", 0)
	h := nixHost(t)
	f := h.nixFacts(t, b)
	calls := h.notedNix(t, &f)
	in := &installer{run: h, facts: f, build: b, patience: usualPatience}
	path := b.StorePath(f.Nix.Store.Dir)
	if _, err := in.root(t.Context(), path); err != errCollected {
		t.Errorf("a path that is not there: got %v", err)
	}
	putBuild(t, b, path) // files without a record are not valid
	if _, err := in.root(t.Context(), path); err == nil {
		t.Error("a path that the store does not know was rooted")
	}
	for _, call := range calls() {
		if strings.HasPrefix(call, "--realise") {
			t.Errorf("called: nix-store %s", call)
		}
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	before := len(calls())
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil || p.Rung != Nix {
		t.Fatalf("got %+v, %v", p, err)
	}
	got := calls()[before:]
	serve := slices.Index(got, "--serve --write")
	valid := slices.Index(got, "--check-validity "+path)
	realise := slices.IndexFunc(got, func(c string) bool { return strings.HasPrefix(c, "--realise "+path) })
	if serve != 0 || valid < 1 || realise < valid {
		t.Errorf("got %q", got)
	}
}

// TestNixNeedsNoFeature has a Nix with every experimental feature off and with no other program than nix-store: that is enough.
func TestNixNeedsNoFeature(t *testing.T) {
	b := testBuild(t, "features", 0)
	h := nixHost(t)
	h.env = append(h.env, "NIX_CONFIG=build-users-group =\nsubstituters =\nexperimental-features =")
	f := h.nixFacts(t, b)
	calls := h.notedNix(t, &f) // a directory that has nix-store alone
	h.env = append(h.env, "PATH="+tinyPath(t, "gzip", "sha256sum", "cksum"))
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil || p.Rung != Nix {
		t.Fatalf("got %+v, %v", p, err)
	}
	h.mustRun(t, p)
	if len(calls()) < 3 {
		t.Errorf("got %q", calls())
	}
}

// TestPlaceThatTheUserChose: KOLU_BUILDS comes before everything else and needs no warning, and XDG_DATA_HOME takes the place of
// ~/.local/share. What was placed there is found, examined and forgotten.
func TestPlaceThatTheUserChose(t *testing.T) {
	b := testBuild(t, "chosen", 0)
	for name, variable := range map[string]string{"override": "KOLU_BUILDS", "data home": "XDG_DATA_HOME"} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			chosen := filepath.Join(shortDir(t), "a b")
			h.env = append(h.env, variable+"="+chosen+"/")
			want := filepath.Join(chosen, map[string]string{"XDG_DATA_HOME": "kolu/builds"}[variable])
			f := withoutNix(h.probe(t, b))
			if f.Places[0].Dir != want || f.Places[0].State != PlaceOK || !f.Places[0].Kept {
				t.Fatalf("got %+v", f.Places)
			}
			p, err := Install(t.Context(), h, f, b, nil)
			if err != nil || p.Bin != filepath.Join(want, b.ID(), "bin") || len(p.Warnings) > 0 {
				t.Fatalf("got %+v, %v", p, err)
			}
			h.mustStart(t, b, p)
			if left, _ := os.ReadDir(h.home()); len(left) > 0 {
				t.Errorf("in the home: %v", left)
			}
			if e := ParseExamination(h.run(t, catalogOf(b).Examine(testNonce)).facts); e.Build != filepath.Dir(p.Bin) || !slices.Contains(e.Left, e.Build) {
				t.Errorf("got %+v", e)
			}
			if got := ParseForgotten(h.run(t, Forget(testNonce, true)).facts); !slices.Equal(got.Removed, []string{filepath.Dir(p.Bin)}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestChosenPlaceThatIsNoexec has an override where nothing may be executed, and a /tmp like that: it is refused by name and the home
// is next. Relative words choose nothing.
func TestChosenPlaceThatIsNoexec(t *testing.T) {
	b := testBuild(t, "chosen noexec", 0)
	h := newHost(t)
	chosen := mounted(t, "noexec")
	h.env = append(h.env, "KOLU_BUILDS="+chosen, "XDG_DATA_HOME=relative")
	f := withoutNix(h.probe(t, b))
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil || p.Bin != filepath.Join(h.home(), ".local/share/kolu/builds", b.ID(), "bin") {
		t.Fatalf("got %+v, %v", p, err)
	}
	if len(p.Tried) != 1 || p.Tried[0].Place != chosen || p.Tried[0].Err.Code != fault.NoExec {
		t.Errorf("tried %+v", p.Tried)
	}
	h.env = append(h.env, "KOLU_BUILDS=relative")
	if f := h.probe(t, testBuild(t, "another", 0)); strings.HasPrefix(f.Places[0].Dir, chosen) || !strings.HasPrefix(f.Places[0].Dir, h.home()) {
		t.Errorf("got %+v", f.Places)
	}
}
