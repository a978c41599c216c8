package provision

import (
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"kolu/provision/nix"

	"kolu/internal/version"
)

// fileFacts is what is known of one executable file.
type fileFacts struct {
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	NarHash string `json:"narHash"`
	NarSize int64  `json:"narSize"`
	// NotStatic says why the file would not run on another machine, or "".
	NotStatic string `json:"notStatic,omitempty"`
}

// measure reads a whole executable.
func measure(file string) (fileFacts, error) {
	f, err := os.Open(file)
	if err != nil {
		return fileFacts{}, fmt.Errorf("read the build: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fileFacts{}, fmt.Errorf("read the build: %w", err)
	}
	facts := fileFacts{Size: info.Size(), NotStatic: notStatic(f)}
	sum := sha256.New()
	facts.NarHash, facts.NarSize, err = nix.HashNAR(layout(info.Size(), func() (io.ReadCloser, error) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		return io.NopCloser(io.TeeReader(f, sum)), nil
	}))
	if err != nil {
		return fileFacts{}, fmt.Errorf("read the build %s: %w", file, err)
	}
	facts.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return facts, nil
}

// layout is the tree of a build: bin with the one file and the links.
func layout(size int64, open func() (io.ReadCloser, error)) nix.Node {
	bin := nix.Node{Name: "bin", Dir: true}
	for _, name := range Names {
		if name == Program {
			bin.Entries = append(bin.Entries, nix.Node{Name: name, Executable: true, Size: size, Open: open})
			continue
		}
		bin.Entries = append(bin.Entries, nix.Node{Name: name, Target: Program})
	}
	return nix.Node{Dir: true, Entries: []nix.Node{bin}}
}

// tree is the layout of a build, read from its file.
func (b Build) tree() nix.Node {
	return layout(b.Size, func() (io.ReadCloser, error) { return os.Open(b.File) })
}

// notStatic says why an executable needs more than its kernel, or "". Every program of darwin is linked with its system
// library and runs on every release that the Go tool supports, so there it is the kind of file alone that counts.
func notStatic(f io.ReaderAt) string {
	if m, err := macho.NewFile(f); err == nil {
		if m.Type != macho.TypeExec {
			return "it is no executable"
		}
		return ""
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return "it is neither an ELF nor a Mach-O executable"
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			return "it is linked dynamically (it wants an interpreter)"
		}
	}
	if libs, err := e.ImportedLibraries(); err == nil && len(libs) > 0 {
		return fmt.Sprintf("it is linked dynamically (it wants %s)", libs[0])
	}
	return ""
}

// cacheDir remembers the facts of files by path, size, time and inode, so that nothing large is read twice. Without a
// directory it remembers nothing.
type cacheDir string

// keepFacts is how long the facts of a file that nobody asks for are kept.
const keepFacts = 30 * 24 * time.Hour

func newCacheDir(getenv func(string) string) cacheDir {
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return cacheDir(filepath.Join(dir, "kolu"))
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return cacheDir(filepath.Join(home, ".cache", "kolu"))
	}
	return ""
}

// SelfID is the build id of the running program (version.BuildID), remembered from call to call so that a verb does not read its whole file;
// "" where it can't be told.
func SelfID(getenv func(string) string) string {
	file, err := version.Executable()
	if err != nil {
		return ""
	}
	facts, err := newCacheDir(getenv).facts(file)
	if err != nil || len(facts.SHA256) < 32 {
		return ""
	}
	return facts.SHA256[:32]
}

// facts gives the facts of a file, measured at most once.
func (c cacheDir) facts(file string) (fileFacts, error) {
	info, err := os.Stat(file)
	if err != nil {
		return fileFacts{}, fmt.Errorf("read the build: %w", err)
	}
	if c == "" {
		return measure(file)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "1 %q %d %d %s", file, info.Size(), info.ModTime().UnixNano(), inode(info)))
	entry := filepath.Join(string(c), "files", hex.EncodeToString(key[:16])+".json")
	var facts fileFacts
	if data, err := os.ReadFile(entry); err == nil && json.Unmarshal(data, &facts) == nil && facts.Size == info.Size() {
		return facts, nil
	}
	facts, err = measure(file)
	if err != nil {
		return fileFacts{}, err
	}
	c.remember(entry, facts)
	return facts, nil
}

// remember is best effort: without it the next call measures again.
func (c cacheDir) remember(entry string, facts fileFacts) {
	dir := filepath.Dir(entry)
	data, err := json.Marshal(facts)
	if err != nil || os.MkdirAll(dir, 0o700) != nil || replaceFile(entry, data, 0o600) != nil {
		return
	}
	old, _ := os.ReadDir(dir)
	for _, e := range old {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > keepFacts {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// replaceFile puts data at path in one step: a reader sees the old file or the new one.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
