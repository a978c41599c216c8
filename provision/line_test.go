package provision

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var thisSystem = systemOf(runtime.GOOS, runtime.GOARCH)

// shells are the login shells that a line has to pass through unharmed.
var shells = []struct {
	name, pkg string
	argv      []string
}{
	{"bash", "bash", []string{"bash", "-c"}},
	{"dash", "dash", []string{"dash", "-c"}},
	{"busybox ash", "busybox", []string{"busybox", "ash", "-c"}},
	{"zsh", "zsh", []string{"zsh", "-c"}},
	{"fish", "fish", []string{"fish", "-c"}},
	{"tcsh", "tcsh", []string{"tcsh", "-c"}},
	{"ksh93", "ksh93u+m", []string{"ksh", "-c"}},
	{"mksh", "mksh", []string{"mksh", "-c"}},
}

func TestLineProbesThroughEveryShell(t *testing.T) {
	c := catalogOf(testBuild(t, "x", 0))
	for _, sh := range shells {
		t.Run(sh.name, func(t *testing.T) {
			need(t, sh.argv[0], sh.pkg)
			h := newHost(t, "LC_ALL=en_US.UTF-8")
			h.shell = sh.argv
			s := h.run(t, c.Line("padi", testNonce))
			if !s.ended || s.noise != "" || s.err != nil {
				t.Fatalf("got end %v, noise %q, %v, stderr %q", s.ended, s.noise, s.err, s.stderr)
			}
			f := ParseFacts(s.facts)
			if system, err := f.System(); err != nil || system != thisSystem {
				t.Errorf("got system %q, %v", system, err)
			}
			if f.UID != os.Getuid() || f.Home != h.home() || f.User != me() {
				t.Errorf("got uid %d, user %q, home %q", f.UID, f.User, f.Home)
			}
			want := h.home() + "/.local/share/kolu/builds"
			if len(f.Places) < 3 || f.Places[0].Dir != want || f.Places[0].State != PlaceOK || f.Places[0].Free <= 0 || f.Places[0].Inodes <= 0 {
				t.Errorf("got places %+v", f.Places)
			}
			if left, _ := os.ReadDir(h.home()); len(left) > 0 && sh.name != "fish" { // fish keeps a history
				t.Errorf("the probe left %v", left)
			}
		})
	}
}

func TestLineStartsABuildThroughEveryShell(t *testing.T) {
	b := testBuild(t, "y", 0)
	c := catalogOf(b)
	for _, sh := range shells {
		t.Run(sh.name, func(t *testing.T) {
			need(t, sh.argv[0], sh.pkg)
			h := newHost(t, "LC_ALL=en_US.UTF-8")
			h.shell = sh.argv
			putBuild(t, b, filepath.Join(h.home(), ".local/share/kolu/builds", b.ID()))
			s := h.run(t, c.Line("padi", testNonce))
			if want := "padi en_US.UTF-8|--stdio --nonce " + testNonce; s.facts["front"] != want {
				t.Errorf("got %q, want %q; %+v", s.facts["front"], want, s)
			}
		})
	}
}

// putBuild unpacks a build as an upload leaves it.
func putBuild(t *testing.T, b Build, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := fill(dir, b.File, fileFacts{Size: b.Size}); err != nil {
		t.Fatal(err)
	}
}

func TestLineTakesNoBrokenBuild(t *testing.T) {
	b := testBuild(t, "z", 0)
	breaks := map[string]func(bin string) error{
		"the last link is missing": func(bin string) error { return os.Remove(filepath.Join(bin, lastName)) },
		"no bytes":                 func(bin string) error { return os.Truncate(filepath.Join(bin, Program), 0) },
		"not executable":           func(bin string) error { return os.Chmod(filepath.Join(bin, Program), 0o644) },
	}
	for name, spoil := range breaks {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			dir := filepath.Join(h.home(), ".local/share/kolu/builds", b.ID())
			putBuild(t, b, dir)
			if err := spoil(filepath.Join(dir, "bin")); err != nil {
				t.Fatal(err)
			}
			if s := h.run(t, catalogOf(b).Line("padi", testNonce)); !s.ended || s.facts["front"] != "" {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestLineIsOneLineOfPlainWords(t *testing.T) {
	var builds []Build
	for _, system := range Systems {
		builds = append(builds, Build{System: system, Version: "10.20.30", SHA256: strings.Repeat("a", 64), NarHash: strings.Repeat("b", 64)})
	}
	line := catalogOf(builds...).Line("kaval", testNonce)
	if strings.ContainsAny(line, "\\!\n\r") {
		t.Errorf("the line has what some shell spoils: %s", line)
	}
	if strings.Contains(line, testNonce) {
		t.Error("an echo of the line would hold the nonce")
	}
	for _, word := range strings.Split(line, "'") {
		if len(word) > maxWord {
			t.Errorf("a word of %d bytes", len(word))
		}
	}
	if len(line) > 8<<10 {
		t.Errorf("the line has %d bytes", len(line))
	}
}

func TestLineSurvivesStrangeHomes(t *testing.T) {
	b := testBuild(t, "h", 0)
	for name, home := range map[string]string{
		"with a space": "a b", "with a quote": "it's", "with a dollar": "$HOME", "with a star": "*", "with letters": "வணக்கம்",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			dir := filepath.Join(h.home(), home)
			h.env = append(h.env, "HOME="+dir)
			putBuild(t, b, filepath.Join(dir, ".local/share/kolu/builds", b.ID()))
			if s := h.run(t, catalogOf(b).Line("padi", testNonce)); s.facts["front"] == "" {
				t.Errorf("got %+v", s)
			}
			if err := os.RemoveAll(filepath.Join(dir, ".local")); err != nil {
				t.Fatal(err)
			}
			s := h.run(t, catalogOf(b).Line("padi", testNonce))
			if f := ParseFacts(s.facts); !s.ended || f.UID < 0 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestProbeWithoutAnything(t *testing.T) {
	h := newHost(t)
	h.env = []string{"PATH=" + shortDir(t)}
	s := h.run(t, catalogOf().Line("padi", testNonce))
	if !s.ended {
		t.Fatalf("got %+v", s)
	}
	if f := ParseFacts(s.facts); f.Nix.Store.Free != -1 || f.Nix.Store.Inodes != -1 { // not known, which is not nothing
		t.Errorf("of a store that is not there: got %+v", f.Nix.Store)
	}
	if f := ParseFacts(s.facts); f.OS != "" || f.UID != -1 || f.Home != "" {
		t.Errorf("got %+v", f)
	}
}

func TestProbeKnowsPlacesThatAreNotOurs(t *testing.T) {
	h := newHost(t)
	h.env = append(h.env, "XDG_RUNTIME_DIR="+filepath.Join(h.home(), "gone"), "HOME="+filepath.Join(h.home(), "absent"))
	f := ParseFacts(h.run(t, catalogOf().Line("padi", testNonce)).facts)
	if len(f.Places) < 1 || f.Places[0].State != PlaceAbsent {
		t.Errorf("got %+v", f.Places)
	}
}

func TestRestrictedShellRunsNothing(t *testing.T) {
	need(t, "rbash", "bash")
	h := newHost(t)
	h.shell = []string{"rbash", "-c"}
	if s := h.run(t, catalogOf().Line("padi", testNonce)); s.ended || len(s.marks) > 0 {
		t.Errorf("got %+v", s)
	}
}

func BenchmarkProbe(b *testing.B) {
	line := catalogOf().Line("padi", testNonce)
	for b.Loop() {
		if err := exec.Command("/bin/sh", "-c", line).Run(); err != nil {
			b.Fatal(err)
		}
	}
}
