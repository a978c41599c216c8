package provision

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Local is the directory with the six names that this machine's daemons are started from: the one that holds the running
// executable, when its six names are there, else kolu/builds/ID/bin below $XDG_DATA_HOME or ~/.local/share, where the running executable is copied
// once. A daemon started from there outlives the file it was copied from, as go run's. getenv is os.Getenv. Several processes may
// call it at once. It removes nothing.
func Local(getenv func(string) string) (string, error) {
	self, err := executable()
	if err != nil {
		return "", err
	}
	if dir := filepath.Dir(self); hasNames(dir, self) {
		return dir, nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("install the running executable: HOME is not set")
	}
	facts, err := newCacheDir(getenv).facts(self)
	if err != nil {
		return "", fmt.Errorf("install the running executable: %w", err)
	}
	data := getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		data = filepath.Join(home, ".local", "share")
	}
	builds := filepath.Join(data, "kolu", "builds")
	dir := filepath.Join(builds, facts.SHA256[:32])
	if err := placeHere(self, builds, dir, facts); err != nil {
		return "", fmt.Errorf("install the running executable: %w", err)
	}
	return filepath.Join(dir, "bin"), nil
}

// hasNames reports that all six names in dir are the executable.
func hasNames(dir, self string) bool {
	for _, name := range Names {
		if at, err := filepath.EvalSymlinks(filepath.Join(dir, name)); err != nil || at != self {
			return false
		}
	}
	return true
}

// whole reports that a build of this size stands at dir.
func whole(dir string, size int64) bool {
	file := filepath.Join(dir, "bin", Program)
	info, err := os.Lstat(file)
	return err == nil && info.Mode().IsRegular() && info.Size() == size && info.Mode()&0o111 != 0 && hasNames(filepath.Dir(file), file)
}

func placeHere(self, builds, dir string, facts fileFacts) error {
	if builds, err := filepath.EvalSymlinks(builds); err == nil { // a link above must not hide what is there
		dir = filepath.Join(builds, filepath.Base(dir))
	}
	if whole(dir, facts.Size) {
		return nil
	}
	if err := os.MkdirAll(builds, 0o755); err != nil {
		return err
	}
	clearOld(builds)
	tmp, err := os.MkdirTemp(builds, fmt.Sprintf(".tmp-%d-", os.Getpid()))
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp, self, facts); err != nil {
		return err
	}
	return settle(tmp, dir, facts.Size)
}

// clearOld removes what attempts of more than a day ago left behind.
func clearOld(builds string) {
	entries, _ := os.ReadDir(builds)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), ".tmp-") && time.Since(info.ModTime()) > 24*time.Hour {
			os.RemoveAll(filepath.Join(builds, e.Name()))
		}
	}
}

// fill makes the layout of a build in an empty directory.
func fill(dir, self string, facts fileFacts) error {
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if err := copyFile(self, filepath.Join(bin, Program), facts.Size); err != nil {
		return err
	}
	for _, name := range Names {
		if name == Program {
			continue
		}
		if err := os.Symlink(Program, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755)
}

func copyFile(from, to string, size int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, in)
	if err == nil && n != size {
		err = fmt.Errorf("%s changed while it was copied", from)
	}
	return errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close())
}

// settle gives a whole tree its name. A directory cannot be renamed onto one that holds something: then another process
// was quicker, or what is there is broken and goes first.
func settle(tmp, dir string, size int64) error {
	for range 3 {
		err := os.Rename(tmp, dir)
		if err == nil || whole(dir, size) {
			return nil
		}
		broken, mkErr := os.MkdirTemp(filepath.Dir(dir), fmt.Sprintf(".tmp-%d-", os.Getpid()))
		if mkErr != nil {
			return errors.Join(err, mkErr)
		}
		os.Rename(dir, filepath.Join(broken, "broken"))
		os.RemoveAll(broken)
	}
	return fmt.Errorf("%s holds something that cannot be replaced", dir)
}
