package repo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"kolu/daemon/padi"
)

const (
	// maxNames bounds a list of files, in bytes; with JSON around them they stay under daemon.MaxBody.
	maxNames = 4 << 20
	// maxEntries bounds the list of one directory.
	maxEntries = 20_000
)

// Files lists the files of the checkout that req.Repo is in; see padi.CodeTree.
func Files(ctx context.Context, req padi.FilesRequest) (padi.FileList, error) {
	l, err := checkout(req.Repo)
	if err != nil {
		return padi.FileList{}, err
	}
	which := []string{"--cached", "--others", "--exclude-standard"}
	if req.Ignored {
		which = []string{"--others", "--ignored", "--exclude-standard", "--directory"}
	}
	res, err := git(ctx, l.top, maxNames, append([]string{"ls-files", "-z"}, which...)...)
	if err != nil {
		return padi.FileList{}, err
	}
	names := fields(res)
	slices.Sort(names) // conflicts stand there once per side
	return padi.FileList{Paths: slices.Compact(names), Truncated: res.cut}, nil
}

// fields are the parts of an output that NUL ends; one that was cut in its middle is left out.
func fields(res result) []string {
	out := string(res.out)
	if res.cut {
		out = out[:strings.LastIndexByte(out, 0)+1]
	}
	if out == "" {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}

// Directory lists one directory of a checkout, by name, directories with a slash at the end.
func Directory(req padi.PathRequest) (padi.FileList, error) {
	root, name, err := open(req.Repo, req.Path)
	if err != nil {
		return padi.FileList{}, err
	}
	defer root.Close()
	dir, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return padi.FileList{}, pathErr(req.Path, err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return padi.FileList{}, pathErr(req.Path, err)
	}
	list := padi.FileList{Paths: []string{}, Truncated: len(entries) > maxEntries}
	for _, e := range entries[:min(len(entries), maxEntries)] {
		if name == "." && e.Name() == ".git" {
			continue
		}
		if isDir(root, path.Join(name, e.Name()), e) {
			list.Paths = append(list.Paths, e.Name()+"/")
		} else {
			list.Paths = append(list.Paths, e.Name())
		}
	}
	slices.Sort(list.Paths)
	return list, nil
}

// isDir follows a symbolic link as long as it stays in the checkout.
func isDir(root *os.Root, name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := root.Stat(name)
	return err == nil && info.IsDir()
}

// File reads a file of a checkout, at most its first padi.MaxFile bytes. ctx ends the reading of the rest, for the tag.
func File(ctx context.Context, req padi.PathRequest) (padi.File, error) {
	root, name, err := open(req.Repo, req.Path)
	if err != nil {
		return padi.File{}, err
	}
	defer root.Close()
	file, info, err := plain(root, name)
	if err != nil {
		return padi.File{}, pathErr(req.Path, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, padi.MaxFile+1))
	if err != nil {
		return padi.File{}, pathErr(req.Path, err)
	}
	f := padi.File{Path: name, Size: max(info.Size(), int64(len(data))), Encoding: "utf-8", Truncated: len(data) > padi.MaxFile}
	if f.Tag, err = tag(ctx, data, file); err != nil {
		return padi.File{}, pathErr(req.Path, err)
	}
	data = data[:min(len(data), padi.MaxFile)]
	if f.Truncated {
		data = wholeRunes(data)
	}
	f.Content = string(data)
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		f.Encoding, f.Content = "base64", base64.StdEncoding.EncodeToString(data)
	}
	return f, nil
}

// maxTagged bounds the files that have a tag, in bytes.
const maxTagged = 64 << 20

// tag tells one content of a file from another, whatever its time says; empty for one that is too long. rest follows what was read.
func tag(ctx context.Context, read []byte, rest io.Reader) (string, error) {
	h := sha256.New()
	h.Write(read)
	for size := int64(len(read)); ; {
		n, err := io.CopyN(h, rest, 1<<20)
		if size += n; errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil))[:32], nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || size > maxTagged {
			return "", err
		}
	}
}

// read gives one byte more than may be shown where the file is longer.
func read(root *os.Root, name string) ([]byte, fs.FileInfo, error) {
	f, info, err := plain(root, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, padi.MaxFile+1))
	return data, info, err
}

// plain opens plain files alone: another kind might never end. The caller closes it.
func plain(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is no plain file", padi.ErrOutside)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// wholeRunes drops the beginning of a character at the end.
func wholeRunes(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if start := len(b) - i; utf8.RuneStart(b[start]) {
			if !utf8.FullRune(b[start:]) {
				return b[:start]
			}
			break
		}
	}
	return b
}

// open gives the checkout's top as a root that nothing leads out of, and the path as a name in it. The caller closes the root.
func open(dir, name string) (*os.Root, string, error) {
	l, err := checkout(dir)
	if err != nil {
		return nil, "", err
	}
	if name, err = checkPath(name); err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(l.top)
	if err != nil {
		return nil, "", pathErr(l.top, err)
	}
	return root, name, nil
}

// checkPath cleans a path of a checkout. Git's own directory holds credentials and is no part of it.
func checkPath(name string) (string, error) {
	if name == "" {
		return ".", nil
	}
	clean := path.Clean(name)
	first, _, _ := strings.Cut(clean, "/")
	if !filepath.IsLocal(name) || strings.ContainsRune(name, 0) || strings.EqualFold(first, ".git") {
		return "", fmt.Errorf("%q: %w", name, padi.ErrOutside)
	}
	return clean, nil
}

// pathErr gives an error of a path its name in the contract.
func pathErr(name string, err error) error {
	_, isErrno := errors.AsType[syscall.Errno](err)
	_, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, padi.ErrOutside):
		return fmt.Errorf("%q: %w", name, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%q: %w", name, padi.ErrFileGone)
	case isPath && !isErrno: // os.Root's word for a way out has no name
		return fmt.Errorf("%q: %w", name, padi.ErrOutside)
	}
	return fmt.Errorf("read %q: %w", name, err)
}
