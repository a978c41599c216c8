package client

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// untold gives the warnings about a daemon of another machine that this user has not been given yet, and takes note of them. Each is
// said once for as long as that daemon lives: verbs follow each other, and what was said of a host with the first one only hides the
// answers of the next. `kolu host doctor` says all of them every time. Where nothing can be noted, all are untold.
func untold(getenv func(string) string, host, kind, identity string, warnings []string) []string {
	dir := toldDir(getenv)
	if dir == "" || identity == "" || len(warnings) == 0 {
		return warnings
	}
	sum := sha256.Sum256([]byte(kind + " " + host))
	file := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	var said []string
	if text, err := os.ReadFile(file); err == nil {
		if lines := strings.Split(string(text), "\n"); lines[0] == identity {
			said = lines[1:]
		}
	}
	var fresh []string
	for _, w := range warnings {
		if line := oneLine(w); !slices.Contains(said, line) {
			fresh, said = append(fresh, w), append(said, line)
		}
	}
	if len(fresh) > 0 {
		note(file, identity+"\n"+strings.Join(said, "\n"))
	}
	return fresh
}

// toldDir is where what was said is noted, or "".
func toldDir(getenv func(string) string) string {
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kolu", "told")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "kolu", "told")
	}
	return ""
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// note replaces a file in one step. A failure costs no more than hearing a warning twice.
func note(file, text string) {
	if os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".tmp-*")
	if err != nil {
		return
	}
	_, err = tmp.WriteString(text)
	if err2 := tmp.Close(); err != nil || err2 != nil || os.Rename(tmp.Name(), file) != nil {
		os.Remove(tmp.Name())
	}
}
