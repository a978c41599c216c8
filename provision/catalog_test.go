package provision

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kolu/internal/fault"
)

// agentsDir is a directory with builds for the systems and their manifest.
func agentsDir(t *testing.T, systems ...string) string {
	t.Helper()
	b := testBuild(t, "agents", 0)
	data, err := os.ReadFile(b.File)
	if err != nil {
		t.Fatal(err)
	}
	dir := shortDir(t)
	for _, system := range systems {
		if err := os.MkdirAll(filepath.Join(dir, system), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, system, Program), append(data, system...), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := WriteManifest(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func getenvOf(t *testing.T, kv ...string) func(string) string {
	env := map[string]string{"HOME": shortDir(t)}
	for _, s := range kv {
		k, v, _ := strings.Cut(s, "=")
		env[k] = v
	}
	return func(key string) string { return env[key] }
}

func TestCatalogFromAManifest(t *testing.T) {
	dir := agentsDir(t, Systems[:]...)
	c, err := OpenCatalog(t.Context(), getenvOf(t, AgentsVar+"="+dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range Systems {
		b, err := c.Build(t.Context(), system)
		if err != nil {
			t.Fatal(err)
		}
		facts, err := measure(filepath.Join(dir, system, Program))
		if err != nil {
			t.Fatal(err)
		}
		if b.SHA256 != facts.SHA256 || b.NarHash != facts.NarHash || b.ID() != facts.SHA256[:32] || b.Size != facts.Size || b.NarSize != facts.NarSize {
			t.Errorf("%s: got %+v, want %+v", system, b, facts)
		}
		if !strings.Contains(c.Line("padi", testNonce), b.ID()) || b.StorePath("/nix/store") == b.StorePath("/other/store") {
			t.Errorf("%s is not in the line", system)
		}
		if err := b.cache.check(b); err != nil {
			t.Error(err)
		}
	}
}

func TestCatalogLacksASystem(t *testing.T) {
	c, err := OpenCatalog(t.Context(), getenvOf(t, AgentsVar+"="+agentsDir(t, "x86_64-linux", "aarch64-linux", "aarch64-darwin")))
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"x86_64-darwin", "riscv64-linux"} {
		_, err = c.Build(t.Context(), system)
		got := faultOf(t, err)
		if got.Code != fault.NoAgentBuild || !strings.Contains(got.Detail, system) || !strings.Contains(got.Detail, "aarch64-linux, x86_64-linux") ||
			!strings.Contains(got.Remedy, AgentsVar) {
			t.Errorf("got %v", got)
		}
	}
}

func TestBadManifests(t *testing.T) {
	good := ManifestBuild{System: "x86_64-linux", File: "f", Size: 10, NarSize: 20, SHA256: strings.Repeat("a", 64), NarHash: strings.Repeat("b", 64)}
	with := func(change func(*ManifestBuild)) []ManifestBuild {
		b := good
		change(&b)
		return []ManifestBuild{b}
	}
	for name, m := range map[string]any{
		"no file":           nil,
		"not JSON":          "x",
		"shell in version":  Manifest{Version: "1$(id)", Builds: []ManifestBuild{good}},
		"no version":        Manifest{Builds: []ManifestBuild{good}},
		"unknown system":    Manifest{Version: "1", Builds: with(func(b *ManifestBuild) { b.System = "vax-vms" })},
		"file outside":      Manifest{Version: "1", Builds: with(func(b *ManifestBuild) { b.File = "../x" })},
		"absolute file":     Manifest{Version: "1", Builds: with(func(b *ManifestBuild) { b.File = "/bin/sh" })},
		"short hash":        Manifest{Version: "1", Builds: with(func(b *ManifestBuild) { b.SHA256 = "abc" })},
		"quote in the hash": Manifest{Version: "1", Builds: with(func(b *ManifestBuild) { b.NarHash = "'" + strings.Repeat("a", 63) })},
		"no size":           Manifest{Version: "1", Builds: with(func(b *ManifestBuild) { b.Size = 0 })},
		"twice":             Manifest{Version: "1", Builds: []ManifestBuild{good, good}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			if m != nil {
				data, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, ManifestName), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := OpenCatalog(t.Context(), getenvOf(t, AgentsVar+"="+dir))
			if got := faultOf(t, err); got.Code != fault.BadBuild || got.Who != fault.Local || !strings.Contains(got.Detail, dir) {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestBuildThatIsNotWhatItsManifestSays(t *testing.T) {
	dir := agentsDir(t, thisSystem)
	c, err := OpenCatalog(t.Context(), getenvOf(t, AgentsVar+"="+dir))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Build(t.Context(), thisSystem)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(b.File)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"one byte":  func() error { return os.WriteFile(b.File, append(data[:len(data)-1:len(data)-1], 'X'), 0o755) },
		"truncated": func() error { return os.WriteFile(b.File, data[:len(data)/2], 0o755) },
		"removed":   func() error { return os.Remove(b.File) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		h := newHost(t)
		_, err := Install(t.Context(), h, Facts{OS: b.os(), Arch: b.arch()}, b, nil)
		if got := faultOf(t, err); got.Code != fault.BadBuild || !strings.Contains(got.Detail, b.File) || len(h.lines) > 0 {
			t.Errorf("%s: got %v after %d lines", name, got, len(h.lines))
		}
		os.WriteFile(b.File, data, 0o755)
	}
}

func (b Build) arch() string { arch, _, _ := strings.Cut(b.System, "-"); return arch }
func (b Build) os() string {
	_, os, _ := strings.Cut(b.System, "-")
	return strings.ToUpper(os[:1]) + os[1:]
}

func TestStaticOrNot(t *testing.T) {
	b := testBuild(t, "static", 0)
	for file, want := range map[string]string{
		b.File:    "",
		"/bin/sh": "dynamically",
	} {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := notStatic(f); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	if got := notStatic(strings.NewReader("#!/bin/sh\n")); got == "" {
		t.Error("a script passed for an executable")
	}
}

func TestManifestTakesStaticBuildsAlone(t *testing.T) {
	dir := shortDir(t)
	if _, err := WriteManifest(dir); err == nil {
		t.Error("a manifest of nothing")
	}
	if err := os.Mkdir(filepath.Join(dir, thisSystem), 0o755); err != nil {
		t.Fatal(err)
	}
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, thisSystem, Program), sh, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteManifest(dir); err == nil || !strings.Contains(err.Error(), "dynamically") {
		t.Errorf("got %v", err)
	}
}

// TestNothingIsReadTwice swaps the bytes of a file under its name, size, time and inode: who still gives the old facts has not read it.
func TestNothingIsReadTwice(t *testing.T) {
	b := testBuild(t, "cache", 0)
	cache := newCacheDir(getenvOf(t))
	first, err := cache.facts(b.File)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(b.File)
	if err != nil {
		t.Fatal(err)
	}
	swap := func() {
		f, err := os.OpenFile(b.File, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("other"), b.Size-5); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	swap()
	if err := os.Chtimes(b.File, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if again, err := cache.facts(b.File); err != nil || again != first {
		t.Errorf("the file was read again: %+v, %v", again, err)
	}
	if err := os.Chtimes(b.File, info.ModTime(), info.ModTime().Add(1)); err != nil {
		t.Fatal(err)
	}
	if changed, err := cache.facts(b.File); err != nil || changed.SHA256 == first.SHA256 {
		t.Errorf("a changed file got the old facts: %v", err)
	}
}

func TestCacheThatCannotBeUsed(t *testing.T) {
	b := testBuild(t, "nocache", 0)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cache := range []cacheDir{"", cacheDir(filepath.Join(file, "below"))} {
		if facts, err := cache.facts(b.File); err != nil || facts.SHA256 != b.SHA256 {
			t.Errorf("%q: got %+v, %v", cache, facts, err)
		}
	}
}

func TestLocalInstallsOnceForMany(t *testing.T) {
	home := shortDir(t)
	getenv := getenvOf(t, "HOME="+home)
	self, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	bins := make([]string, 4)
	for i := range bins {
		wg.Go(func() {
			var err error
			if bins[i], err = Local(getenv); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	facts, err := measure(self)
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(home, ".local/share/kolu/builds", facts.SHA256[:32], "bin")
	for _, bin := range bins {
		if bin != want {
			t.Errorf("got %s, want %s", bin, want)
		}
	}
	if got, err := measure(filepath.Join(want, "padi-tui")); err != nil || got.SHA256 != facts.SHA256 {
		t.Errorf("got %v, %v", got, err)
	}
	entries, err := os.ReadDir(filepath.Join(home, ".local/share/kolu/builds"))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
	if err := os.Truncate(filepath.Join(want, Program), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := Local(getenv); err != nil || !whole(filepath.Dir(want), facts.Size) {
		t.Errorf("a broken build stays: %v", err)
	}
}

func TestLocalKnowsItsOwnNames(t *testing.T) {
	b := testBuild(t, "names", 0)
	dir := filepath.Join(shortDir(t), "x")
	putBuild(t, b, dir)
	bin := filepath.Join(dir, "bin")
	if !hasNames(bin, filepath.Join(bin, Program)) {
		t.Error("the six names are there")
	}
	if err := os.Remove(filepath.Join(bin, "padi")); err != nil {
		t.Fatal(err)
	}
	if hasNames(bin, filepath.Join(bin, Program)) {
		t.Error("a name is missing")
	}
	if _, err := Local(func(string) string { return "" }); err == nil {
		t.Error("installed without a home")
	}
}

func FuzzParseFacts(f *testing.F) {
	f.Add("place.0", "ok 1 2 /a/b")
	f.Add("place.1", "ok 99999999999999999999 -1 /a/../b")
	f.Add("nix.dir", "/nix/`id`")
	f.Add("home", "/a\x1b[2J")
	f.Add("system", "Linux x86_64")
	f.Fuzz(func(t *testing.T, key, value string) {
		facts := ParseFacts(map[string]string{key: value})
		for _, p := range append(facts.Places, facts.Nix.Store) {
			if p.Dir != "" && (!carries(p.Dir) || !filepath.IsAbs(p.Dir)) || p.Free < -1 || p.Inodes < -1 {
				t.Errorf("took %+v", p)
			}
		}
		if facts.Home != "" && !carries(facts.Home) || facts.Nix.Dir != "" && !carries(facts.Nix.Dir) || strings.ContainsAny(facts.User+facts.Nix.Owner, "\x1b\n '\"") {
			t.Errorf("took %+v", facts)
		}
		facts.System()
		in := &installer{facts: facts, build: Build{System: "x86_64-linux", Version: "1", SHA256: strings.Repeat("a", 64), NarHash: strings.Repeat("b", 64)}}
		in.serveLine()
		in.rootLine(in.build.StorePath(in.storeDir()), testNonce)
		for _, p := range facts.Places {
			(&sending{in: in, dir: p.Dir, last: in.renameScript(), crc: "1", packed: true}).line(testNonce)
			(&sending{in: in, dir: p.Dir, last: in.fixedScript("/nix/store/x"), crc: "1", packed: true}).line(testNonce)
		}
	})
}
