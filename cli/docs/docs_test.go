package docs

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"kolu/cli"
	"kolu/cli/kavalcmd"
	"kolu/cli/kavaltui"
	"kolu/cli/kolucmd"
	"kolu/cli/padicmd"
	"kolu/cli/paditui"
)

var update = flag.Bool("update", false, "write docs/cli anew")

const dir = "../../docs/cli"

// trees are the six names.
var trees = map[string]func(*cli.Env) *cobra.Command{
	"kolu": kolucmd.New, "kaval-tui": kavaltui.New, "padi-tui": paditui.New, "pulam-tui": paditui.NewPulam,
	"kaval": kavalcmd.New, "padi": padicmd.New,
}

// TestPages fails when docs/cli is not what the commands say now. With -update it writes the pages.
func TestPages(t *testing.T) {
	want := pages(t)
	if *update {
		write(t, want)
	}
	if diff := cmp.Diff(want, read(t)); diff != "" {
		t.Errorf("docs/cli is out of date: go generate ./cli/docs\n%s", diff)
	}
}

// pages are the files as the commands make them, the same on every machine.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, tree := range trees {
		root := tree(&cli.Env{Name: name, Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Dir: "/"})
		tmp := t.TempDir()
		root.DisableAutoGenTag = true
		if err := doc.GenMarkdownTree(root, tmp); err != nil {
			t.Fatal(err)
		}
		collect(t, tmp, out)
	}
	return out
}

func collect(t *testing.T, from string, into map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		page, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		into[e.Name()] = strings.TrimRight(string(page), "\n") + "\n"
	}
}

func read(t *testing.T) map[string]string {
	t.Helper()
	got := map[string]string{}
	collect(t, dir, got)
	return got
}

func write(t *testing.T, pages map[string]string) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(page), fs.FileMode(0o644)); err != nil {
			t.Fatal(err)
		}
	}
}
