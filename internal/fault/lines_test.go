package fault_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/lines.txt anew")

const root = "../.."

// codes reads the closed set from this package: the names of the constants and what they are on the wire.
func codes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Code" {
				found[v.Names[0].Name] = render(v.Values[0])
			}
		}
		return true
	})
	if len(found) < 20 {
		t.Fatalf("found %d codes", len(found))
	}
	return found
}

// sources are the files of the module that may make a fault.
func sources(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, dir := range []string{"cli", "fleet", "provision", "stdio"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// lines are the sentences that the sources make for each code: the detail, and after a dash the remedy. What is only known when
// it happens stands there as the format has it, or as "…".
func lines(t *testing.T) []string {
	t.Helper()
	known := codes(t)
	var all []string
	for _, path := range sources(t) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var parts []ast.Expr
			switch n := n.(type) {
			case *ast.CompositeLit:
				parts = n.Elts
			case *ast.CallExpr:
				parts = n.Args
				if isOf(n.Fun, "Is") != "" {
					return true
				}
			default:
				return true
			}
			code, said := "", []string{}
			for _, p := range parts {
				key := ""
				if kv, ok := p.(*ast.KeyValueExpr); ok {
					key, p = fmt.Sprint(kv.Key), kv.Value
				}
				if name := isOf(p, ""); known[name] != "" {
					code = known[name]
				} else if text := render(p); strings.Contains(text, " ") && key != "Stage" && !strings.HasPrefix(text, "(") {
					said = append(said, text)
				}
			}
			if code != "" {
				all = append(all, code+": "+strings.Join(said, " — "))
			}
			return true
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// isOf gives the name that is taken from the package fault, if it is the wanted one or any is wanted.
func isOf(e ast.Expr, want string) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || fmt.Sprint(sel.X) != "fault" || want != "" && sel.Sel.Name != want {
		return ""
	}
	return sel.Sel.Name
}

// render is the text of an expression as far as it is written down.
func render(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return render(e.X) + render(e.Y)
		}
	case *ast.CallExpr:
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return render(e.Args[0])
		}
	}
	return "…"
}

// TestLines holds every line that a user may read when a host cannot be reached. A sentence is changed on purpose or not at all: run
// `go test ./internal/fault -update` and read the difference.
func TestLines(t *testing.T) {
	said := slices.DeleteFunc(lines(t), func(l string) bool { return strings.HasSuffix(l, ": ") })
	got := strings.Join(said, "\n") + "\n"
	golden := filepath.Join("testdata", "lines.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	for _, l := range difference(got, string(want)) {
		t.Error(l)
	}
	t.Error("the lines are not those of testdata/lines.txt: run `go test ./internal/fault -update` if that is meant")
}

func difference(got, want string) []string {
	var out []string
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, l := range g {
		if !slices.Contains(w, l) {
			out = append(out, "new:  "+l)
		}
	}
	for _, l := range w {
		if !slices.Contains(g, l) {
			out = append(out, "gone: "+l)
		}
	}
	return out
}

// Every code has a line of its own and a row in docs/errors.md, and the page has no row for a code that does not exist.
func TestCodesAreMadeAndDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = true
	}
	made := map[string]bool{}
	for _, l := range lines(t) {
		code, _, _ := strings.Cut(l, ":")
		made[code] = true
	}
	known := map[string]bool{}
	for name, code := range codes(t) {
		known[code] = true
		if !documented[code] {
			t.Errorf("%s (%s) has no row in docs/errors.md", code, name)
		}
		if !made[code] {
			t.Errorf("%s (%s) is made nowhere", code, name)
		}
	}
	for code := range documented {
		if !known[code] {
			t.Errorf("docs/errors.md has a row for %s, which is no code", code)
		}
	}
}
