package nix

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestBase32(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"00":                               "00",
		"ff":                               "7z",
		"d41d8cd98f00b204e9800998ecf8427e": "3y8bwfr609h3lh9ch0izcqq7fl", // of 128 bits, as nix-hash gives it
		"da39a3ee5e6b4b0d3255bfef95601890afd80709":                         "143xibwh31h9bvxzalr0sjvbbvpa6ffs",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": "0mdqa9w1p6cmli6976v4wi0sw9r4p5prkj7lzfd1877wk11c9c73",
	} {
		raw, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := Base32(raw); got != want {
			t.Errorf("Base32(%s) = %s, want %s", in, got, want)
		}
	}
}

func file(name, content string, executable bool) Node {
	return Node{Name: name, Executable: executable, Size: int64(len(content)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}
}

// sample has one of each: padding of every length, a name before and after its prefix, an empty file and directory.
func sample() Node {
	root := Node{Dir: true, Entries: []Node{
		{Name: "bin", Dir: true, Entries: []Node{file("kolu", "\x7fELF 12", true), {Name: "padi", Target: "kolu"}, {Name: "kaval-tui", Target: "kolu"}}},
		file("bin.txt", "one", false), {Name: "empty", Dir: true}, file("zero", "", false), {Name: "a", Target: "../b/c"},
	}}
	for n := range 9 {
		root.Entries = append(root.Entries, file("pad"+string(rune('0'+n)), strings.Repeat("x", n), false))
	}
	return root
}

// onDisk writes a tree for the tools of Nix to read.
func onDisk(t *testing.T, path string, n Node) {
	t.Helper()
	var err error
	switch {
	case n.Dir:
		err = os.Mkdir(path, 0o755)
		for _, e := range n.Entries {
			onDisk(t, filepath.Join(path, e.Name), e)
		}
	case n.Target != "":
		err = os.Symlink(n.Target, path)
	default:
		var r io.ReadCloser
		if r, err = n.Open(); err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(r)
		mode := os.FileMode(0o644)
		if n.Executable {
			mode = 0o755
		}
		err = os.WriteFile(path, content, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func needNix(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("nix-store"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("nix-store is missing: apt-get install nix-bin")
		}
		t.Skip("nix-store is missing: apt-get install nix-bin")
	}
}

func TestNARIsWhatNixWrites(t *testing.T) {
	needNix(t)
	dir := filepath.Join(t.TempDir(), "tree")
	onDisk(t, dir, sample())
	want, err := exec.Command("nix-store", "--dump", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := WriteNAR(&got, sample()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got %d bytes, nix writes %d; they differ", got.Len(), len(want))
	}
}

func TestSourcePathIsWhatNixGives(t *testing.T) {
	needNix(t)
	base, err := os.MkdirTemp("/tmp", "kn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("chmod", "-R", "u+w", base).Run()
		os.RemoveAll(base)
	})
	dir := filepath.Join(base, "kolu-0.1.0")
	onDisk(t, dir, sample())
	hash, _, err := HashNAR(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{base + "/s/nix/store", base + "/other"} {
		cmd := exec.Command("nix-store", "--add-fixed", "--recursive", "sha256", dir)
		cmd.Env = append(os.Environ(), "NIX_STORE_DIR="+store, "NIX_STATE_DIR="+store+"-state", "NIX_LOG_DIR="+store+"-log",
			"NIX_CONF_DIR="+store+"-conf", "NIX_REMOTE=", "NIX_CONFIG=build-users-group =\nsubstituters =")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		if got, want := SourcePath(store, "kolu-0.1.0", hash), strings.TrimSpace(string(out)); got != want {
			t.Errorf("got %s, nix gives %s", got, want)
		}
	}
}

func TestNARRefuses(t *testing.T) {
	short := file("f", "abc", false)
	short.Size = 4
	long := file("f", "abc", false)
	long.Size = 2
	broken := file("f", "abc", false)
	broken.Open = func() (io.ReadCloser, error) { return nil, os.ErrPermission }
	for name, root := range map[string]Node{
		"shorter file":    {Dir: true, Entries: []Node{short}},
		"longer file":     {Dir: true, Entries: []Node{long}},
		"unreadable file": {Dir: true, Entries: []Node{broken}},
		"name with slash": {Dir: true, Entries: []Node{file("a/b", "", false)}},
		"name dotdot":     {Dir: true, Entries: []Node{file("..", "", false)}},
		"no name":         {Dir: true, Entries: []Node{file("", "", false)}},
		"name twice":      {Dir: true, Entries: []Node{file("a", "", false), file("a", "", false)}},
	} {
		if err := WriteNAR(io.Discard, root); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := WriteNAR(failing{}, sample()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("broken writer: got %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
