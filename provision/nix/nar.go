package nix

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// Node is a file tree: a directory (Entries, with Dir set), a link (Target) or a file (Size bytes that Open gives).
type Node struct {
	Name       string
	Dir        bool
	Entries    []Node
	Target     string
	Executable bool
	Size       int64
	Open       func() (io.ReadCloser, error)
}

// WriteNAR writes the archive of a tree. A file that gives fewer or more bytes than its Size is an error: the archive is then
// of no use, and nothing of it may be kept.
func WriteNAR(w io.Writer, root Node) error {
	out := &writer{w: bufio.NewWriterSize(w, 128<<10)}
	out.str("nix-archive-1")
	if err := out.node(root); err != nil {
		return err
	}
	return out.flush()
}

func (w *writer) node(n Node) error {
	w.strs("(", "type")
	var err error
	switch {
	case n.Dir:
		err = w.directory(n)
	case n.Target != "":
		w.strs("symlink", "target", n.Target)
	default:
		err = w.file(n)
	}
	w.str(")")
	return cmp.Or(err, w.err)
}

func (w *writer) directory(n Node) error {
	w.str("directory")
	entries := slices.SortedFunc(slices.Values(n.Entries), func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for i, e := range entries {
		if err := checkName(e.Name); err != nil {
			return err
		}
		if i > 0 && entries[i-1].Name == e.Name {
			return fmt.Errorf("archive: two entries named %q", e.Name)
		}
		w.strs("entry", "(", "name", e.Name, "node")
		if err := w.node(e); err != nil {
			return err
		}
		w.str(")")
	}
	return w.err
}

func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("archive: bad name %q", name)
	}
	return nil
}

func (w *writer) file(n Node) error {
	w.str("regular")
	if n.Executable {
		w.strs("executable", "")
	}
	w.str("contents")
	w.u64(uint64(n.Size))
	if w.err != nil {
		return w.err
	}
	f, err := n.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	switch got, err := io.Copy(w.w, io.LimitReader(f, n.Size+1)); {
	case err != nil:
		return err
	case got != n.Size:
		return fmt.Errorf("archive: %s has another size than %d bytes", cmp.Or(n.Name, "file"), n.Size)
	}
	w.pad(n.Size)
	return w.err
}

// HashNAR gives the sha256 of the archive of a tree, in hex, and its size.
func HashNAR(root Node) (hash string, size int64, err error) {
	h := sha256.New()
	count := &counter{w: h}
	if err := WriteNAR(count, root); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), count.n.Load(), nil
}

type counter struct {
	w io.Writer
	n atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}
