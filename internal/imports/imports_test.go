package imports

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// listed is what `go list` says of one package.
type listed struct {
	ImportPath string
	Imports    []string
}

// TestImports fails for a package without a row and for an arrow that its row does not have, on each system we ship for.
func TestImports(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			packages, module := list(t, goos)
			for _, p := range packages {
				check(t, module, p)
			}
		})
	}
}

// TestRowsAreUsed fails for a row whose package is gone, so that the table stays a picture of the tree.
func TestRowsAreUsed(t *testing.T) {
	packages, module := list(t, "linux")
	for row := range MayImport {
		if !slices.ContainsFunc(packages, func(p listed) bool { return matches(row, short(module, p.ImportPath)) }) {
			t.Errorf("the row %q stands for no package", row)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		row, name string
		want      bool
	}{
		{"cli", "cli", true},
		{"cli/*", "cli/mcp", true},
		{"cli/*", "cli", false},
		{"cli/*", "cli/mcp/deep", false},
		{"internal/*", "internal/fault", true},
		{"fleet", "fleet/ssh", false},
	} {
		if got := matches(tt.row, tt.name); got != tt.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tt.row, tt.name, got, tt.want)
		}
	}
}

func check(t *testing.T, module string, p listed) {
	name := short(module, p.ImportPath)
	row, ok := rowOf(name)
	if !ok {
		t.Errorf("package %s has no row: say in internal/imports what it may import", name)
		return
	}
	for _, imported := range p.Imports {
		if ours(module, imported) {
			if !allowed(row, name, short(module, imported)) {
				t.Errorf("%s must not import %s: see its row in internal/imports", name, short(module, imported))
			}
			continue
		}
		if slices.Contains(KeepAway[name], imported) {
			t.Errorf("%s must not import %s: another part is there for it", name, imported)
		}
	}
}

func allowed(row []string, name, imported string) bool {
	if slices.Contains(Shared, imported) {
		return true
	}
	if imported == "internal/fault" && slices.ContainsFunc(FaultUsers, func(u string) bool { return matches(u, name) }) {
		return true
	}
	return slices.ContainsFunc(row, func(r string) bool { return matches(r, imported) })
}

// rowOf prefers a package's own row over one with a star.
func rowOf(name string) ([]string, bool) {
	if row, ok := MayImport[name]; ok {
		return row, true
	}
	row, ok := MayImport[path.Dir(name)+"/*"]
	return row, ok
}

func matches(row, name string) bool {
	if dir, ok := strings.CutSuffix(row, "/*"); ok {
		return path.Dir(name) == dir
	}
	return row == name
}

func ours(module, importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

func short(module, importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

func list(t *testing.T, goos string) (packages []listed, module string) {
	t.Helper()
	out := goList(t, goos, "-m")
	module = strings.TrimSpace(string(out))
	dec := json.NewDecoder(strings.NewReader(string(goList(t, goos, "-e", "-json=ImportPath,Imports", module+"/..."))))
	for {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 5 {
		t.Fatalf("go list names only %d packages", len(packages))
	}
	return packages, module
}

func goList(t *testing.T, goos string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("go list: %v\n%s", err, ee.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
