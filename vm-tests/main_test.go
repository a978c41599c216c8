package vmtests

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kolu/provision"
)

// kinds are the hosts of the suite's own testbed. A scenario that changes its host has one to itself, found by its place among
// the hosts of its kind.
var kinds = []string{
	"nix28", "nixd", "nonix", // the plain ones
	"nonix+dropbear", "nixd+fish", "nixd+zsh", "nixd+noisy", "nixd+nopath", "nonix+noexec", "nonix+noexec+noexectmp",
	"nixd", "nonix", // [1]: the client is killed in the middle of an upload
	"nixd", "nonix", // [2]: everything is counted
	"nonix",         // [3]: tampered with until it cannot be used
	"nonix",         // [4]: its key changes
	"nixd", "nonix", // [3], [5]: several first clients at once, then a reboot
	"nixd", "nonix", // [4], [6]: the client is killed at fifty moments of a first verb
	"nixd", "nixd", "nix28", // [5], [6], [1]: a closure
	"nonix", "nixd", // [7], [7]: looked at and forgotten
}

var names = []string{"kaval", "padi", "kaval-tui", "padi-tui", "pulam-tui"}

// suite is what the tests share; it is set once, before they run.
type suite struct {
	dir    string // private, short, removed at the end
	bin    string // the programs
	agents string // the same file as a manifest has it, for what is not started from bin
	config string // of ssh; "" leaves it to ssh
	hosts  []host
	bed    *testbed // nil with hosts from the environment
}

type host struct{ name, kind string }

var shared *suite

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm-tests:", err)
		code = 1
	}
	os.Exit(code)
}

var errNoHosts = errors.New("no hosts: set KOLU_VM_HOSTS and KOLU_VM_SSH_CONFIG, or run as root on Linux for a testbed")

func runSuite(m *testing.M) (code int, err error) {
	dir := os.Getenv("KOLU_VM_DIR") // of whoever ends what a run that was cut short has left
	if dir == "" {
		if dir, err = os.MkdirTemp("/tmp", "kvm"); err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
	}
	s := &suite{dir: dir, bin: filepath.Join(dir, "bin"), agents: filepath.Join(dir, "agents")}
	switch err := s.findHosts(); {
	case errors.Is(err, errNoHosts) && os.Getenv("CI") != "true":
		fmt.Fprintln(os.Stderr, "vm-tests: EVERY TEST IS SKIPPED:", err)
		return m.Run(), nil
	case err != nil:
		return 0, err
	}
	defer s.end()
	if err := s.build(); err != nil {
		return 0, err
	}
	shared = s
	return m.Run(), nil
}

func (s *suite) findHosts() error {
	if list := os.Getenv("KOLU_VM_HOSTS"); list != "" {
		for _, word := range strings.Fields(list) {
			name, kind, ok := strings.Cut(word, "=")
			if !ok {
				return fmt.Errorf("KOLU_VM_HOSTS: %q is not NAME=KIND", word)
			}
			s.hosts = append(s.hosts, host{name, kind})
		}
		s.config = os.Getenv("KOLU_VM_SSH_CONFIG")
		return nil
	}
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return errNoHosts
	}
	bed, err := startTestbed(cmp.Or(os.Getenv("TESTBED_NAME"), "tbvm"), cmp.Or(os.Getenv("TESTBED_NET"), "10.82.0"))
	if err != nil {
		return err
	}
	s.bed = bed
	s.config = bed.config
	for i, kind := range kinds {
		name := fmt.Sprintf("h%d", i+1)
		s.hosts = append(s.hosts, host{name, kind}, host{name + "-guest", kind + "/guest"}, host{name + "-root", kind + "/root"})
	}
	return nil
}

func (s *suite) end() {
	if s.bed != nil && os.Getenv("KOLU_VM_KEEP") == "" {
		if err := s.bed.run("down"); err != nil {
			fmt.Fprintln(os.Stderr, "vm-tests:", err)
		}
	}
}

// build makes the file that we ship, with its other names beside it.
func (s *suite) build() error {
	if err := os.Mkdir(s.bin, 0o755); err != nil {
		return err
	}
	script, err := filepath.Abs("../nix/build")
	if err != nil {
		return err
	}
	system, err := exec.Command(script, "system").Output()
	if err != nil {
		return fmt.Errorf("nix/build system: %w", err)
	}
	out, err := exec.Command(script, "one", strings.TrimSpace(string(system)), filepath.Join(s.bin, "kolu")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("nix/build: %w\n%s", err, out)
	}
	for _, name := range names {
		if err := os.Symlink("kolu", filepath.Join(s.bin, name)); err != nil {
			return err
		}
	}
	agent := filepath.Join(s.agents, strings.TrimSpace(string(system)))
	if err := os.MkdirAll(agent, 0o755); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(s.bin, "kolu"), filepath.Join(agent, "kolu")); err != nil {
		return err
	}
	_, err = provision.WriteManifest(s.agents)
	return err
}

// setup gives the suite, or skips where there are no hosts at all.
func setup(t *testing.T) *suite {
	t.Helper()
	if shared == nil {
		t.Skip(errNoHosts)
	}
	return shared
}

// host gives the nth host of a kind. Hosts from the environment may lack a kind; the testbed never does.
func (s *suite) host(t *testing.T, kind string, n int) string {
	t.Helper()
	for _, h := range s.hosts {
		if h.kind != kind {
			continue
		}
		if n == 0 {
			return h.name
		}
		n--
	}
	if s.bed != nil {
		t.Fatalf("the testbed has no %s", kind)
	}
	t.Skipf("KOLU_VM_HOSTS names no further host of the kind %s", kind)
	return ""
}

// needBed gives the testbed, for scenarios that break a host or its link.
func (s *suite) needBed(t *testing.T) *testbed {
	t.Helper()
	if s.bed == nil {
		t.Skip("only a testbed can stage this")
	}
	return s.bed
}
