// Package version says which build this is: the version people read, the commit, and the build id, which is the
// content of the running executable and so differs whenever the bytes do.
package version

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// Version is what people read. The package builds set it with -ldflags "-X kolu/internal/version.Version=…".
var Version = "0.1.0"

// Commit is the commit that the build was made from, or "" where nothing recorded it.
var Commit = cmp.Or(linked, vcsRevision())

// linked is the commit as the package builds set it with -ldflags "-X kolu/internal/version.linked=…".
var linked string

func vcsRevision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// BuildID is the first 32 hex digits of the sha256 of the running executable; computed once, at the first call.
// It is "unknown" when the executable cannot be read any more.
var BuildID = sync.OnceValue(func() string {
	path, err := Executable()
	if err != nil {
		return "unknown"
	}
	if id, err := FileID(path); err == nil {
		return id
	}
	return "unknown"
})

// FileID is the build id of an executable file.
func FileID(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil))[:32], nil
}
