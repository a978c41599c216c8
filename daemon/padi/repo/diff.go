package repo

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"kolu/daemon/padi"
)

// maxDiff bounds one file's diff, in bytes. JSON may make six of one, and stays under daemon.MaxBody.
const maxDiff = 2 << 20

// Diff says how one file differs; see padi.CodeTree.
func Diff(ctx context.Context, req padi.GitDiffRequest) (padi.GitDiff, error) {
	l, err := checkout(req.Repo)
	if err != nil {
		return padi.GitDiff{}, err
	}
	names, err := diffNames(req)
	if err != nil {
		return padi.GitDiff{}, err
	}
	base, err := baseOf(ctx, l, req.Mode)
	if err != nil {
		return padi.GitDiff{}, err
	}
	args := []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/", base, "--"}
	res, err := git(ctx, l.top, maxDiff, append(args, names...)...)
	if err != nil {
		return padi.GitDiff{}, err
	}
	if len(res.out) == 0 {
		return undiffed(ctx, l, names[0])
	}
	return parseDiff(res, names), nil
}

// diffNames are the file's name and, of one that was renamed, its old name.
func diffNames(req padi.GitDiffRequest) ([]string, error) {
	name, err := checkPath(req.Path)
	if err != nil {
		return nil, err
	}
	if name == "." {
		return nil, fmt.Errorf("%w: a diff is of one file", padi.ErrOutside)
	}
	if req.OldPath == "" {
		return []string{name}, nil
	}
	old, err := checkPath(req.OldPath)
	return []string{name, old}, err
}

// baseOf is the commit to compare the files with.
func baseOf(ctx context.Context, l layout, mode padi.DiffMode) (string, error) {
	switch mode {
	case "", padi.Local:
		_, err := git(ctx, l.top, maxWords, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
		if saysNo(err) { // before the first commit everything is new against the empty tree
			res, err := git(ctx, l.top, maxWords, "hash-object", "-t", "tree", "--stdin")
			return strings.TrimSpace(string(res.out)), err
		}
		return "HEAD", err
	case padi.Branch:
		base, err := diffBase(ctx, l)
		if err == nil && base == nil {
			err = fmt.Errorf("%w: there is no origin", padi.ErrNoBase)
		}
		if err != nil {
			return "", err
		}
		return base.SHA, nil
	}
	return "", noMode(mode)
}

// parseDiff takes the names out of what git printed.
func parseDiff(res result, names []string) padi.GitDiff {
	d := padi.GitDiff{OldFileName: names[len(names)-1], NewFileName: names[0], Truncated: res.cut}
	header := res.out
	if i := bytes.Index(header, []byte("\n@@ ")); i >= 0 {
		header = header[:i]
	}
	for line := range bytes.Lines(header) {
		switch {
		case bytes.HasPrefix(line, []byte("new file mode ")):
			d.OldFileName = ""
		case bytes.HasPrefix(line, []byte("deleted file mode ")):
			d.NewFileName = ""
		case bytes.HasPrefix(line, []byte("Binary files ")):
			d.Binary = true
		}
	}
	d.Hunks = []string{strings.ToValidUTF8(string(res.out), "\ufffd")}
	return d
}

// undiffed is a file in which git sees no difference: it is as it was, or git does not have it, and then all of it is new.
func undiffed(ctx context.Context, l layout, name string) (padi.GitDiff, error) {
	res, err := git(ctx, l.top, maxNames, "ls-files", "-z", "--cached", "--", name)
	if err != nil {
		return padi.GitDiff{}, err
	}
	if len(res.out) > 0 {
		return padi.GitDiff{OldFileName: name, NewFileName: name, Hunks: []string{}}, nil
	}
	root, err := os.OpenRoot(l.top)
	if err != nil {
		return padi.GitDiff{}, pathErr(l.top, err)
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil {
		return padi.GitDiff{}, pathErr(name, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := root.Readlink(name)
		if err != nil {
			return padi.GitDiff{}, pathErr(name, err)
		}
		return newFile(name, "120000", []byte(target)), nil
	}
	data, info, err := read(root, name)
	if err != nil {
		return padi.GitDiff{}, pathErr(name, err)
	}
	mode := "100644"
	if info.Mode()&0o100 != 0 {
		mode = "100755"
	}
	return newFile(name, mode, data), nil
}

// binaryWithin is how far git looks for a NUL to tell a file that is no text.
const binaryWithin = 8000

// newFile is the diff of a file that is new as a whole, as git would print it.
func newFile(name, mode string, data []byte) padi.GitDiff {
	d := padi.GitDiff{NewFileName: name, Hunks: []string{}, Truncated: len(data) > padi.MaxFile}
	data = data[:min(len(data), padi.MaxFile)]
	head := fmt.Sprintf("diff --git %s %s\nnew file mode %s\n", path.Join("a", name), path.Join("b", name), mode)
	if bytes.IndexByte(data[:min(len(data), binaryWithin)], 0) >= 0 {
		d.Binary = true
		d.Hunks = append(d.Hunks, head+fmt.Sprintf("Binary files /dev/null and %s differ\n", path.Join("b", name)))
		return d
	}
	var b strings.Builder
	b.WriteString(head)
	if len(data) > 0 {
		lines := bytes.Count(data, []byte{'\n'})
		whole := bytes.HasSuffix(data, []byte{'\n'})
		if !whole {
			lines++
		}
		span := ""
		if lines != 1 {
			span = fmt.Sprintf(",%d", lines)
		}
		fmt.Fprintf(&b, "--- /dev/null\n+++ %s\n@@ -0,0 +1%s @@\n", path.Join("b", name), span)
		for line := range bytes.Lines(data) {
			b.WriteByte('+')
			b.Write(line)
		}
		if !whole {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	d.Hunks = append(d.Hunks, strings.ToValidUTF8(b.String(), "\ufffd"))
	return d
}
