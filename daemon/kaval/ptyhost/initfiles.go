package ptyhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kolu/daemon/kaval"
)

// initFiles are the files of one spawn in a private directory. Nil is a spawn without any.
type initFiles struct{ dir string }

const initPrefix = "init-"

// clearInitFiles removes what a daemon that crashed left in its directory.
func clearInitFiles(runDir string) {
	left, _ := filepath.Glob(filepath.Join(runDir, initPrefix+"*")) // the pattern is well formed, the only error there is
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}

// writeInitFiles writes the files of a spawn, readable by this user alone. An error leaves nothing behind.
func writeInitFiles(runDir string, files []kaval.InitFile) (*initFiles, error) {
	if len(files) == 0 {
		return nil, nil
	}
	for _, f := range files {
		if !filepath.IsLocal(f.Name) || filepath.Clean(f.Name) == "." || strings.ContainsRune(f.Name, 0) {
			return nil, kaval.Invalidf("init file %q does not stay inside its directory", f.Name)
		}
	}
	dir, err := os.MkdirTemp(runDir, initPrefix)
	if err != nil {
		return nil, fmt.Errorf("%w: make a directory for init files: %w", kaval.ErrSpawn, err)
	}
	fs := &initFiles{dir: dir}
	for _, f := range files {
		if err := fs.write(f); err != nil {
			fs.remove()
			return nil, fmt.Errorf("%w: write init file: %w", kaval.ErrSpawn, err)
		}
	}
	return fs, nil
}

// write creates one file and the directories above it; a file that is there already is never replaced.
func (fs *initFiles) write(f kaval.InitFile) error {
	root, err := os.OpenRoot(fs.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(f.Name), 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(f.Content)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return err
}

// expand puts the directory in place of "{dir}".
func (fs *initFiles) expand(s string) string {
	if fs == nil {
		return s
	}
	return strings.ReplaceAll(s, "{dir}", fs.dir)
}

func (fs *initFiles) expandAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fs.expand(s)
	}
	return out
}

func (fs *initFiles) remove() {
	if fs != nil {
		_ = os.RemoveAll(fs.dir) // the next start clears what could not be removed
	}
}
