package vmtests

import (
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kolu/provision"
)

// allAgents builds for every system, as `make agents` does, once for the suite.
func (s *suite) allAgents(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(s.dir, "all")
	if _, err := os.Stat(filepath.Join(dir, "kolu-agents.json")); err == nil {
		return dir
	}
	script, err := filepath.Abs("../nix/build")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(script, "agents", dir).CombinedOutput(); err != nil {
		t.Fatalf("nix/build agents: %v\n%s", err, out)
	}
	return dir
}

// TestTheAgents holds what `make agents` makes against its manifest: four systems, each file static, for its processor, without a
// path of this machine, and on a Mac still with the signature that the linker made.
func TestTheAgents(t *testing.T) {
	dir := setup(t).allAgents(t)
	c, err := provision.OpenCatalog(t.Context(), func(key string) string {
		return map[string]string{provision.AgentsVar: dir, "HOME": t.TempDir()}[key]
	})
	if err != nil {
		t.Fatal(err)
	}
	for system, cpu := range map[string]any{
		"x86_64-linux": elf.EM_X86_64, "aarch64-linux": elf.EM_AARCH64, "x86_64-darwin": macho.CpuAmd64, "aarch64-darwin": macho.CpuArm64,
	} {
		b, err := c.Build(t.Context(), system)
		if err != nil || b.File != filepath.Join(dir, system, "kolu") {
			t.Errorf("%s: %s, %v", system, b.File, err)
			continue
		}
		sum, err := exec.Command("sha256sum", b.File).Output()
		if err != nil || !strings.HasPrefix(string(sum), b.SHA256+" ") {
			t.Errorf("%s: the manifest has the sum %s, the file %s (%v)", system, b.SHA256, sum, err)
		}
		data, err := os.ReadFile(b.File)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), filepath.Dir(dir)) || strings.Contains(string(data), os.Getenv("HOME")+"/go/") {
			t.Errorf("%s holds a path of this machine", system)
		}
		if got := processor(t, b.File); got != cpu {
			t.Errorf("%s is for %v", system, got)
		}
	}
}

// processor reads for which one a file is, and fails on a file that needs another one to run.
func processor(t *testing.T, file string) any {
	t.Helper()
	if f, err := elf.Open(file); err == nil {
		defer f.Close()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s wants an interpreter", file)
			}
		}
		return f.Machine
	}
	f, err := macho.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const codeSignature = 0x1d
	signed := false
	for _, l := range f.Loads {
		signed = signed || f.ByteOrder.Uint32(l.Raw()) == codeSignature
	}
	if f.Cpu == macho.CpuArm64 && !signed { // an Intel runs it without
		t.Errorf("%s lost its signature", file)
	}
	return f.Cpu
}

// TestShippedFileNeedsNothing runs the file that goes to hosts in a root directory that has nothing else, not even /lib.
func TestShippedFileNeedsNothing(t *testing.T) {
	s := setup(t)
	root := t.TempDir()
	for _, dir := range []string{"lib", "lib64", "usr/lib"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.Command("cp", s.bin+"/kolu", root).Run(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("chroot", root, "/kolu", "--version").CombinedOutput()
	if err != nil || len(out) == 0 {
		t.Errorf("%v: %s", err, out)
	}
	want, err := exec.Command(s.bin+"/kolu", "--version").Output()
	if err != nil || string(out) != string(want) {
		t.Errorf("got %q, want %q, %v", out, want, err)
	}
}

// TestStdoutIsTheAnswerAlone parses what `x=$(padi-tui status --host h --json)` gets from a host that prints on stdout of every command: cold,
// warm, and with a client of another build. What is said beside it is on stderr, and each warning once.
func TestStdoutIsTheAnswerAlone(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	alias := s.host(t, "nixd+noisy/guest", 0)
	c := newClient(t)
	k := &killer{t: t, b: b, c: c, alias: alias}
	k.host, _, _ = strings.Cut(alias, "-")
	k.cold()
	other := filepath.Join(c.home, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	system, err := exec.Command("../nix/build", "system").Output()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("../nix/build", "one", strings.TrimSpace(string(system)), filepath.Join(other, "padi-tui"))
	build.Env = append(os.Environ(), "KOLU_COMMIT=0000000000000000000000000000000000000000")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	id := ""
	for _, tt := range []struct {
		name, program string
		rung          string
		noise         bool
	}{{"cold", "padi-tui", "nix", true}, {"warm", "padi-tui", "valid", false}, {"skewed", filepath.Join(other, "padi-tui"), "", false}} {
		r := c.run(tt.program, "status", "--host", alias, "--json")
		var rows []struct {
			ID   string
			Link struct{ Rung, Transport string }
		}
		if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil || r.code != 0 {
			t.Fatalf("%s: %v: %v", tt.name, err, r)
		}
		if strings.Contains(r.stderr, "Welcome") != tt.noise {
			t.Errorf("%s: the host's noise is told %v, want %v: %v", tt.name, !tt.noise, tt.noise, r)
		}
		if strings.Contains(r.stderr, "\x1b") || strings.Contains(r.stderr, "\r") {
			t.Errorf("%s: a bar without a terminal: %q", tt.name, r.stderr)
		}
		if tt.name == "cold" {
			if !strings.Contains(r.stderr, "the build went there by nix") {
				t.Errorf("the rung is not named: %v", r)
			}
			id = c.ok("padi-tui", "create", "--toplevel", "--host", alias, "--", "cat")
			continue
		}
		if len(rows) != 1 || rows[0].ID != id || rows[0].Link.Transport == "" || tt.rung != "" && rows[0].Link.Rung != tt.rung {
			t.Errorf("%s: %v", tt.name, r)
		}
	}
	r, _ := doctor(t, c, alias)
	r.says(t, "shell", "warn", "Welcome")
}

// TestNothingButTheLink has no way to anywhere else, on either end, and a Nix that would ask the usual cache: a first verb and the next ones
// need neither.
func TestNothingButTheLink(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	alias := s.host(t, "nix28", 0)
	c := newClient(t)
	for where, routes := range map[string]string{"the host": b.in(t, alias, "ip route show default; ip -6 route show default"), "here": c.ok("ip", "route", "show", "default")} {
		if strings.TrimSpace(routes) != "" {
			t.Fatalf("%s has a way out: %s", where, routes)
		}
	}
	b.in(t, alias, "cp /etc/nix/nix.conf /etc/nix/was; sed -i /^substituters/d /etc/nix/nix.conf")
	defer b.in(t, alias, "mv /etc/nix/was /etc/nix/nix.conf")
	k := &killer{t: t, b: b, c: c, alias: alias, host: alias}
	k.cold()
	sent := b.sent(t, alias)
	if r := c.run("padi-tui", "status", "--host", alias); r.code != 0 || b.sent(t, alias)-sent < 3_000_000 {
		t.Fatalf("%d bytes went over: %v", b.sent(t, alias)-sent, r)
	}
	sent = b.sent(t, alias)
	if r := c.run("padi-tui", "status", "--host", alias); r.code != 0 || b.sent(t, alias)-sent > 64<<10 {
		t.Errorf("%d bytes went over: %v", b.sent(t, alias)-sent, r)
	}
}

// TestToolsOfTheInteractiveShell has a program that only the interactive part of the start-up file puts on the PATH: a terminal finds it, and
// says so when there is no such program.
func TestToolsOfTheInteractiveShell(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	alias := s.host(t, "nonix/guest", 0)
	host, _, _ := strings.Cut(alias, "-")
	b.in(t, host, `mkdir -p /home/guest/tools; cp /home/guest/.bashrc /home/guest/was
		printf "#!/bin/sh\necho tool-\$1-\$((40+2))\n" >/home/guest/tools/mytool; chmod 755 /home/guest/tools/mytool
		printf 'case $- in *i*) ;; *) return;; esac\nexport PATH=$HOME/tools:$PATH\n' >/home/guest/.bashrc`)
	defer b.in(t, host, "mv /home/guest/was /home/guest/.bashrc; rm -rf /home/guest/tools")
	c := newClient(t)
	if out := c.ssh(alias, "command -v mytool || echo none"); out != "none" {
		t.Fatalf("a command over ssh finds it too: %s", out)
	}
	for program, want := range map[string]string{"mytool": "tool-x-42", "nosuchtool": "nosuchtool: command not found"} {
		id := c.ok("padi-tui", "create", "--toplevel", "--host", alias, "--", program, "x")
		until(t, want, func() bool {
			return strings.Contains(unwrap(c.ok("kaval-tui", "snapshot", "--host", alias, id, "--viewport")), want)
		})
		c.ok("kaval-tui", "kill", "--host", alias, id)
	}
}
