package provision

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"kolu/internal/version"
)

// ManifestName is the file that describes the builds beside it.
const ManifestName = "kolu-agents.json"

// Manifest describes the builds of one directory. Every File is relative to it.
type Manifest struct {
	Version string          `json:"version"`
	Builds  []ManifestBuild `json:"builds"`
}

// ManifestBuild is one build of a manifest.
type ManifestBuild struct {
	System  string `json:"system"`
	File    string `json:"file"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	NarHash string `json:"narHash"`
	NarSize int64  `json:"narSize"`
	// Closure is a store path of this machine that goes to hosts of the system instead, with everything it refers to.
	Closure string `json:"closure,omitempty"`
}

func (b ManifestBuild) build(dir, version string) Build {
	return Build{
		System: b.System, Version: version, File: filepath.Join(dir, filepath.FromSlash(b.File)),
		Size: b.Size, SHA256: b.SHA256, NarHash: b.NarHash, NarSize: b.NarSize, Closure: b.Closure,
	}
}

// goodVersion is what a version may be: it becomes part of a store path and of a shell line.
var goodVersion = pattern(`^[0-9A-Za-z][0-9A-Za-z+._-]{0,63}$`)

func goodHash(s string) bool { return madeOf(s, 64, 64, digits+"abcdef") }

func readManifest(dir string) (Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		return Manifest{}, fmt.Errorf("read the manifest of the builds: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", path, err)
	}
	if err := m.check(); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", path, err)
	}
	return m, nil
}

func (m Manifest) check() error {
	if !goodVersion().MatchString(m.Version) {
		return fmt.Errorf("bad version %q", m.Version)
	}
	seen := map[string]bool{}
	for _, b := range m.Builds {
		switch {
		case !slices.Contains(Systems[:], b.System):
			return fmt.Errorf("unknown system %q", b.System)
		case seen[b.System]:
			return fmt.Errorf("two builds for %s", b.System)
		case !goodHash(b.SHA256) || !goodHash(b.NarHash) || b.Size <= 0 || b.NarSize <= b.Size:
			return fmt.Errorf("bad size or hash for %s", b.System)
		case !filepath.IsLocal(filepath.FromSlash(b.File)):
			return fmt.Errorf("%q leaves the directory", b.File)
		case b.Closure != "" && !goodStorePath().MatchString(b.Closure):
			return fmt.Errorf("%q is no store path", b.Closure)
		}
		seen[b.System] = true
	}
	return nil
}

// WriteManifest describes the builds that stand in dir as SYSTEM/kolu and writes the manifest beside them. A build that is not
// static is an error.
func WriteManifest(dir string) (Manifest, error) {
	m := Manifest{Version: version.Version}
	for _, system := range Systems {
		file := filepath.Join(dir, system, Program)
		if _, err := os.Stat(file); os.IsNotExist(err) {
			continue
		}
		facts, err := measure(file)
		if err != nil {
			return Manifest{}, err
		}
		if facts.NotStatic != "" {
			return Manifest{}, fmt.Errorf("describe %s: %s", file, facts.NotStatic)
		}
		m.Builds = append(m.Builds, ManifestBuild{
			System: system, File: system + "/" + Program,
			Size: facts.Size, SHA256: facts.SHA256, NarHash: facts.NarHash, NarSize: facts.NarSize,
		})
	}
	if len(m.Builds) == 0 {
		return Manifest{}, fmt.Errorf("no build in %s (it wants SYSTEM/%s)", dir, Program)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return Manifest{}, err
	}
	return m, replaceFile(filepath.Join(dir, ManifestName), append(data, '\n'), 0o644)
}
