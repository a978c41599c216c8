package provision

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kolu/internal/fault"
)

// probe runs the line of a catalog that has b and gives the facts.
func (h *testHost) probe(t *testing.T, b Build) Facts {
	t.Helper()
	s := h.run(t, catalogOf(b).Line("padi", testNonce))
	if !s.ended {
		t.Fatalf("no facts: %+v", s)
	}
	return ParseFacts(s.facts)
}

// mustStart runs the front over there both ways: by the line of the catalog and by StartLine.
func (h *testHost) mustStart(t *testing.T, b Build, p Placed) {
	t.Helper()
	for name, line := range map[string]string{"Line": catalogOf(b).Line("kaval", testNonce), "StartLine": StartLine(p, "kaval", testNonce)} {
		s := h.run(t, line)
		if !strings.HasPrefix(s.facts["front"], "kaval ") || s.facts["self"] != p.Bin+"/kolu" && name == "StartLine" {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

// withoutNix hides Nix, wherever this machine has it.
func withoutNix(f Facts) Facts {
	f.Nix = NixFacts{}
	return f
}

func TestUpload(t *testing.T) {
	b := testBuild(t, "upload", 2<<20)
	for name, tools := range map[string][]string{
		"sha256sum and gzip": {"gzip", "sha256sum", "cksum"}, "neither": {"cksum"}, "gzip alone": {"gzip", "cksum"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			f := withoutNix(h.probe(t, b))
			f.Tools = tools
			h.env = append(h.env, "PATH="+tinyPath(t, tools...))
			var steps []Step
			p, err := Install(t.Context(), h, f, b, func(s Step) { steps = append(steps, s) })
			if err != nil {
				t.Fatalf("%v; %+v", err, p.Tried)
			}
			want := filepath.Join(h.home(), ".local/share/kolu/builds", b.ID(), "bin")
			if p.Rung != Upload || p.Bin != want || len(p.Tried) > 0 || len(p.Warnings) > 0 {
				t.Errorf("got %+v", p)
			}
			if packed := p.Sent < b.Size; packed != f.has("gzip") {
				t.Errorf("%d bytes were sent for %d", p.Sent, b.Size)
			}
			if !whole(filepath.Dir(p.Bin), b.Size) {
				t.Error("the build is not whole")
			}
			if got := lastOf(steps, StageSend); got.Done != b.Size || got.Total != b.Size {
				t.Errorf("the last step of sending is %+v", got)
			}
			h.mustStart(t, b, p)
			onlyBuild(t, h, b)
		})
	}
}

func lastOf(steps []Step, stage string) (last Step) {
	for _, s := range steps {
		if s.Stage == stage {
			last = s
		}
	}
	return last
}

// onlyBuild reports anything beside the build in the directory of builds.
func onlyBuild(t *testing.T, h *testHost, b Build) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.home(), ".local/share/kolu/builds"))
	if err != nil || len(entries) != 1 || entries[0].Name() != b.ID() {
		t.Errorf("got %v, %v", entries, err)
	}
}

// tinyPath is a PATH with the tools that every system has, and those named.
func tinyPath(t *testing.T, tools ...string) string {
	t.Helper()
	dir := shortDir(t)
	for _, tool := range append(tools, "id", "uname", "mkdir", "rm", "mv", "ln", "cat", "wc", "chmod", "find", "ls", "df", "readlink") {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The end of stdin may never come: the link is there, and whoever wrote to it is gone.
func TestUploadThatStallsEndsByItself(t *testing.T) {
	b := testBuild(t, "stalls", 2<<20)
	h := newHost(t)
	in := &installer{run: h, facts: withoutNix(h.probe(t, b)), build: b, patience: usualPatience}
	in.stall = glance
	dir := filepath.Join(h.home(), "builds")
	for _, packed := range []bool{false, true} {
		p, err := h.Start(t.Context(), (&sending{in: in, dir: dir, last: in.renameScript(), packed: packed}).line(testNonce))
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(p.Stdout())
		if err != nil || !strings.HasSuffix(string(said), " fact fail write\n") {
			t.Errorf("%q, %v", said, err)
		}
		if err := p.Wait(); err == nil {
			t.Error("no error")
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestUploadByTwoAtOnce(t *testing.T) {
	b := testBuild(t, "two", 1<<20)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	errs := make(chan error)
	const clients = 6
	for range clients {
		go func() {
			_, err := Install(t.Context(), h, f, b, nil)
			errs <- err
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	onlyBuild(t, h, b)
	h.mustStart(t, b, Placed{Bin: filepath.Join(h.home(), ".local/share/kolu/builds", b.ID(), "bin")})
}

func TestUploadReplacesABrokenBuild(t *testing.T) {
	b := testBuild(t, "broken", 0)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	dir := filepath.Join(h.home(), ".local/share/kolu/builds", b.ID())
	putBuild(t, b, dir)
	if err := os.Truncate(filepath.Join(dir, "bin", Program), 1000); err != nil {
		t.Fatal(err)
	}
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.mustStart(t, b, p)
	onlyBuild(t, h, b)
}

func TestUploadClearsWhatDeadAttemptsLeft(t *testing.T) {
	b := testBuild(t, "dead", 0)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	builds := filepath.Join(h.home(), ".local/share/kolu/builds")
	dead, alive := exec.Command("true"), exec.Command("sleep", "100")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if err := alive.Start(); err != nil {
		t.Fatal(err)
	}
	defer alive.Wait()
	defer alive.Process.Kill()
	name := func(pid int, host string) string {
		return filepath.Join(builds, ".tmp-"+strconv.Itoa(pid)+"-abcdefgh-"+host)
	}
	gone, kept, elsewhere := name(dead.Process.Pid, host), name(alive.Process.Pid, host), name(dead.Process.Pid, "other-"+host)
	for _, dir := range []string{gone, kept, elsewhere} {
		if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Install(t.Context(), h, f, b, nil); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{gone: false, kept: true, elsewhere: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", dir, err == nil, want)
		}
	}
}

func TestUploadGoesOnToTheNextPlace(t *testing.T) {
	b := testBuild(t, "next", 0)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	good := Place{Dir: filepath.Join(h.home(), "good/builds"), State: PlaceOK, Free: -1, Inodes: -1}
	f.Places = []Place{
		{Dir: "/a/builds", State: PlaceNoExec}, {Dir: "/b/builds", State: PlaceReadOnly}, {Dir: "/c/builds", State: PlaceForeign},
		{Dir: "/d/builds", State: PlaceOK, Free: 1 << 20, Inodes: -1}, {Dir: "/e/builds", State: PlaceOK, Free: -1, Inodes: 3},
		{Dir: "/dev/null/builds", State: PlaceOK, Free: -1, Inodes: -1}, good,
	}
	p, err := Install(t.Context(), h, f, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []fault.Code
	for _, r := range p.Tried {
		got = append(got, r.Err.Code)
	}
	want := []fault.Code{fault.NoExec, fault.NotWritable, fault.NotWritable, fault.DiskFull, fault.DiskFull, fault.NotWritable}
	if !slices.Equal(got, want) || p.Bin != good.Dir+"/"+b.ID()+"/bin" {
		t.Errorf("got %v at %s, want %v", got, p.Bin, want)
	}
}

func TestNoPlaceNamesEachAndWhy(t *testing.T) {
	b := testBuild(t, "none", 0)
	h := newHost(t)
	for name, tt := range map[string]struct {
		places []Place
		code   fault.Code
		says   []string
	}{
		"noexec":   {[]Place{{Dir: "/a", State: PlaceNoExec}, {Dir: "/b", State: PlaceReadOnly}}, fault.NoExec, []string{"/a: ", "noexec", "/b: not writable", "nix: not there"}},
		"full":     {[]Place{{Dir: "/a", State: PlaceOK, Free: 5 << 20, Inodes: 9000}, {Dir: "/b", State: PlaceNoExec}}, fault.DiskFull, []string{"/a: no space", "5 MiB free"}},
		"readonly": {[]Place{{Dir: "/a", State: PlaceReadOnly}}, fault.NotWritable, []string{"/a: not writable"}},
		"nothing":  {nil, fault.NotWritable, []string{"nix: not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := withoutNix(h.probe(t, b))
			f.Places = tt.places
			_, err := Install(t.Context(), h, f, b, nil)
			got := faultOf(t, err)
			if got.Code != tt.code || got.Remedy == "" {
				t.Errorf("got %s: %v", got.Code, got)
			}
			for _, want := range tt.says {
				if !strings.Contains(got.Detail, want) {
					t.Errorf("%q lacks %q", got.Detail, want)
				}
			}
		})
	}
}

func TestInstallRefusesBeforeAnythingIsSent(t *testing.T) {
	b := testBuild(t, "refuse", 0)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	asked := len(h.lines)
	windows, otherCPU, spoilt := f, f, b
	windows.OS, otherCPU.Arch = "MINGW64_NT-10.0", "riscv64"
	spoilt.SHA256 = strings.Repeat("0", 64)
	for name, tt := range map[string]struct {
		f    Facts
		b    Build
		code fault.Code
	}{
		"another system": {windows, b, fault.UnsupportedOS},
		"another cpu":    {otherCPU, b, fault.NoAgentBuild},
		"spoilt build":   {f, spoilt, fault.BadBuild},
	} {
		if _, err := Install(t.Context(), h, tt.f, tt.b, nil); faultOf(t, err).Code != tt.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if len(h.lines) != asked {
		t.Error("the host was asked")
	}
}

// forAnotherCPU is b for a machine that nobody has.
func forAnotherCPU(t *testing.T, b Build) Build {
	t.Helper()
	file := filepath.Join(shortDir(t), Program)
	data, err := os.ReadFile(b.File)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[18:], []byte{0xf7, 0}) // eBPF
	if err := os.WriteFile(file, data, 0o755); err != nil {
		t.Fatal(err)
	}
	facts, err := measure(file)
	if err != nil {
		t.Fatal(err)
	}
	b.File, b.SHA256, b.NarHash = file, facts.SHA256, facts.NarHash
	return b
}

// TestWrongArch has a uname that lies: the build that fits it is for another processor than the host's own programs. It is named on
// either rung, no other place is tried, and nothing is left that a line would start.
func TestWrongArch(t *testing.T) {
	b := forAnotherCPU(t, testBuild(t, "enoexec", 0))
	for _, way := range []Rung{Upload, Nix} {
		t.Run(string(way), func(t *testing.T) {
			h := newHost(t)
			f := withoutNix(h.probe(t, b))
			if way == Nix {
				h = nixHost(t)
				f = h.nixFacts(t, b)
			}
			p, err := Install(t.Context(), h, f, b, nil)
			got := faultOf(t, err)
			want, _, _ := strings.Cut(thisSystem, "-")
			if got.Code != fault.WrongArch || !strings.Contains(got.Detail, "programs of the host are for "+want) || !strings.Contains(got.Detail, b.System) || got.Remedy == "" || len(p.Tried) > 0 {
				t.Errorf("got %v; %+v", got, p.Tried)
			}
			if left, _ := os.ReadDir(f.Places[0].Dir); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
			if left, _ := os.ReadDir(filepath.Join(h.home(), ".local/state/kolu/roots")); len(left) > 0 {
				t.Errorf("the root %v is left", left)
			}
		})
	}
}

// TestUploadOfABuildThatDoesNotRun has a host that cannot say what its programs are for.
func TestUploadOfABuildThatDoesNotRun(t *testing.T) {
	b := forAnotherCPU(t, testBuild(t, "enoexec2", 0))
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	h.env = append(h.env, "PATH="+tinyPath(t, "sha256sum"))
	f.Places, f.Tools = f.Places[:1], []string{"sha256sum"}
	_, err := Install(t.Context(), h, f, b, nil)
	if faultOf(t, err).Code != fault.NoExec {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(f.Places[0].Dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestPlaceWithoutInodes has a home whose file system has bytes and no inodes, and one whose quota is used up in the middle.
func TestPlaceWithoutInodes(t *testing.T) {
	b := testBuild(t, "inodes", 0)
	h := newHost(t)
	h.env = append(h.env, "HOME="+mounted(t, "size=400m,nr_inodes=20"))
	f := withoutNix(h.probe(t, b))
	f.Places = f.Places[:1]
	p, err := Install(t.Context(), h, f, b, nil)
	if got := faultOf(t, err); got.Code != fault.DiskFull || !strings.Contains(got.Detail, "inodes") || p.Sent > 0 {
		t.Errorf("got %v after %d bytes", got, p.Sent)
	}
}

func TestQuotaThatRunsOut(t *testing.T) {
	b := testBuild(t, "quota", 0)
	h := newHost(t)
	f := withoutNix(h.probe(t, b))
	f.Places, f.Tools = f.Places[:1], nil
	tools := tinyPath(t, "sha256sum", "head")
	if err := os.Remove(filepath.Join(tools, "cat")); err != nil {
		t.Fatal(err)
	}
	h.wrapTool(t, tools, "cat", `head -c 100000; echo "cat: write error: Disk quota exceeded" >&2; exit 1`)
	h.env = append(h.env, "PATH="+tools)
	_, err := Install(t.Context(), h, f, b, nil)
	if got := faultOf(t, err); got.Code != fault.DiskFull || !strings.Contains(got.Detail, f.Places[0].Dir) {
		t.Errorf("got %v (%s)", got, got.Evidence)
	}
	if left, _ := os.ReadDir(f.Places[0].Dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func (h *testHost) wrapTool(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestCksumIsThatOfPOSIX(t *testing.T) {
	path := need(t, "cksum", "coreutils")
	for _, content := range []string{"", "a", strings.Repeat("kolu", 50_000)} {
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path)
		cmd.Stdin = bytes.NewReader([]byte(content))
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		want, _, _ := strings.Cut(string(out), " ")
		if got, err := (Build{File: file}).cksum(int64(len(content))); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
