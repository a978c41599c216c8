package vmtests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// skewed builds the client of another time: the same source with another commit, and with contract in the place of ours where it
// is not empty. It gives the directory with the programs.
func (s *suite) skewed(t *testing.T, commit, contract string) (bin string) {
	t.Helper()
	bin = filepath.Join(s.dir, "bin-"+commit)
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for i, source := range []string{"../daemon/padi/padi.go", "../daemon/kaval/kaval.go"} {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		path, err := filepath.Abs(source)
		if err != nil {
			t.Fatal(err)
		}
		if contract == "" {
			continue
		}
		changed := regexp.MustCompile(`(?m)^const Contract = ".*"$`).ReplaceAll(text, fmt.Appendf(nil, "const Contract = %q", contract))
		if string(changed) == string(text) {
			t.Fatalf("%s says no contract", source)
		}
		replace[path] = filepath.Join(bin, fmt.Sprintf("contract%d.go", i))
		if err := os.WriteFile(replace[path], changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(bin, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-overlay", file, "-tags", "netgo,osusergo,timetzdata",
		"-ldflags", "-s -w -buildid= -X kolu/internal/version.linked="+commit, "-o", filepath.Join(bin, "kolu"), "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, name := range names {
		if err := os.Symlink("kolu", filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// TestMixedVersions dials a host a hundred times by its own build, by another one of the same version and contract, by one that needs
// more than the daemons there serve, and by one of another major contract. Each says what does not fit, the first two do their work,
// and none changes the daemons or the terminals.
func TestMixedVersions(t *testing.T) {
	s := setup(t)
	host := s.host(t, "nonix", 0)
	own := newClient(t)
	id := own.ok("padi-tui", "create", "--toplevel", "--host", host, "--", "cat")
	defer own.run("kolu", "kill", host+"/"+id)
	before := facts(own, host)
	build := regexp.MustCompile(`build ([0-9a-f]{12})`)
	for _, tt := range []struct {
		name, bin string
		code      int
		says      []string // of status, of list
	}{
		{"own", s.bin, 0, []string{"", ""}},
		{"other", s.skewed(t, "other", ""), 0, []string{"the padi at " + host + " is build", "the kaval at " + host + " is build"}},
		{"minor", s.skewed(t, "minor", "1.999"), 1, []string{"needs 1.999", "needs 1.999"}},
		{"major", s.skewed(t, "major", "999.0"), 1, []string{"this client speaks 999.0", "this client speaks 999.0"}},
	} {
		c := newClient(t)
		c.bin = tt.bin
		c.env = append(c.env, "PATH="+filepath.Join(c.home, "tools")+":"+tt.bin+":"+os.Getenv("PATH"))
		for i := range 25 {
			transport := []string{"master", "native"}[i%2]
			argv, says := []string{"padi-tui", "status"}, tt.says[0]
			if i%4 >= 2 {
				argv, says = []string{"kaval-tui", "list"}, tt.says[1]
			}
			r := c.run(argv[0], argv[1], "--host", host, "--ssh", transport)
			if r.code != tt.code || !strings.Contains(r.stderr, says) || (r.code == 0) != strings.Contains(r.stdout, id[:8]) {
				t.Fatalf("%s: dial %d by %s: %v", tt.name, i, argv, r)
			}
			if ids := build.FindAllStringSubmatch(r.stderr, -1); tt.name == "other" && (len(ids) != 2 || ids[0][1] == ids[1][1]) {
				t.Errorf("%s: the two builds are not named: %v", tt.name, r)
			}
			if tt.code != 0 && !strings.Contains(r.stderr, "terminals are left alone") {
				t.Errorf("%s: nothing says that the terminals stay: %v", tt.name, r)
			}
		}
		if after := facts(own, host); after != before {
			t.Fatalf("%s: before:\n%s\nafter:\n%s", tt.name, before, after)
		}
	}
}
