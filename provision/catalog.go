package provision

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"kolu/internal/fault"
	"kolu/internal/version"
)

// AgentsVar names a directory with a manifest, in place of the one beside the client.
const AgentsVar = "KOLU_AGENTS"

// Systems are the systems that a host may have.
var Systems = [...]string{"x86_64-linux", "aarch64-linux", "x86_64-darwin", "aarch64-darwin"}

// systemOf gives the system for the words of the Go tool, or "".
func systemOf(goos, goarch string) string {
	cpu := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[goarch]
	if cpu == "" || goos != "linux" && goos != "darwin" {
		return ""
	}
	return cpu + "-" + goos
}

// Catalog is where builds come from: a manifest, and the running executable for its own system.
//
// Opening one reads no build. A Catalog may be used concurrently.
type Catalog struct {
	version string
	dir     string // of the manifest, or ""
	cache   cacheDir
	self    string // the running executable, when the manifest has nothing for this system
	source  string // the module that the running executable was made from, or ""

	closure, closureSystem string // what the user named in place of the static build of a system, or ""

	mu     sync.Mutex // for what follows
	builds map[string]Build
	failed map[string]error // what could not be made
}

// OpenCatalog finds the builds of this client. getenv is os.Getenv. It fails with a fault BadBuild when a manifest is there and
// wrong; where there is none, the running executable is the catalog.
//
// A running executable that is not static (go run may link it against the C library) cannot go to a host. It is then built
// anew from its source, once, which takes some seconds; the same goes for other systems than this one.
func OpenCatalog(ctx context.Context, getenv func(string) string) (*Catalog, error) {
	self, err := executable()
	if err != nil {
		return nil, &fault.Error{Code: fault.BadBuild, Stage: stage, Who: fault.Local, Detail: err.Error(), Err: err}
	}
	c := &Catalog{version: version.Version, builds: map[string]Build{}, cache: newCacheDir(getenv), failed: map[string]error{}}
	if err := c.readManifests(getenv, self); err != nil {
		return nil, err
	}
	own := systemOf(runtime.GOOS, runtime.GOARCH)
	if err := c.readClosure(getenv, own); err != nil {
		return nil, err
	}
	if _, ok := c.builds[own]; !ok {
		c.self = self
	}
	if c.dir == "" {
		c.source = moduleSource(self)
	}
	c.prepare(ctx, own)
	for system, b := range c.builds {
		c.builds[system] = c.withClosure(b)
	}
	return c, nil
}

// stage is the stage of every fault of this package.
const stage = "provision"

func executable() (string, error) {
	path, err := version.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running executable: %w", err)
	}
	return filepath.EvalSymlinks(path)
}

// readManifests takes the first manifest there is. One that the environment names has to be there.
func (c *Catalog) readManifests(getenv func(string) string, self string) error {
	if dir := getenv(AgentsVar); dir != "" {
		return c.readManifest(dir)
	}
	bin := filepath.Dir(self)
	share := filepath.Join(filepath.Dir(bin), "share", "kolu")
	for _, dir := range []string{bin, filepath.Join(share, "agents"), share} {
		if _, err := os.Stat(filepath.Join(dir, ManifestName)); err == nil {
			return c.readManifest(dir)
		}
	}
	return nil
}

func (c *Catalog) readManifest(dir string) error {
	m, err := readManifest(dir)
	if err != nil {
		return &fault.Error{
			Code: fault.BadBuild, Stage: stage, Who: fault.Local, Err: err, Detail: err.Error(),
			Remedy: "make it anew with: make agents",
		}
	}
	c.dir, c.version = dir, m.Version
	for _, b := range m.Builds {
		build := b.build(dir, m.Version)
		build.cache = c.cache
		c.builds[b.System] = build
	}
	return nil
}

// prepare judges the running executable, so that Line knows its build. A failure shows up when that build is asked for.
func (c *Catalog) prepare(ctx context.Context, own string) {
	if c.self != "" {
		c.Build(ctx, own)
	}
	for _, system := range Systems {
		if _, ok := c.builds[system]; ok || c.source == "" {
			continue
		}
		if b, ok := c.builtBefore(system); ok {
			c.builds[system] = b
		}
	}
}

// Version is the version of the builds.
func (c *Catalog) Version() string { return c.version }

// Available lists the systems that Build gives at once.
func (c *Catalog) Available() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.available()
}

func (c *Catalog) available() []string { return slices.Sorted(maps.Keys(c.builds)) }

// Build gives the build for a system. Where there is none it is made if this client runs from its source; else the error is a
// fault NoAgentBuild that names what there is. A build that is not static is a fault BadBuild.
func (c *Catalog) Build(ctx context.Context, system string) (Build, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.builds[system]; ok {
		return b, nil
	}
	if err := c.failed[system]; err != nil {
		return Build{}, err
	}
	b, err := c.make(ctx, system)
	b = c.withClosure(b)
	switch {
	case err == nil:
		c.builds[system] = b
	case ctx.Err() == nil:
		c.failed[system] = err
	}
	return b, err
}

func (c *Catalog) make(ctx context.Context, system string) (Build, error) {
	if !slices.Contains(Systems[:], system) {
		return Build{}, c.noBuild(system)
	}
	var why error
	if c.self != "" && system == systemOf(runtime.GOOS, runtime.GOARCH) {
		b, err := c.describe(system, c.self)
		if err == nil {
			return b, nil
		}
		why = err
	}
	if c.source == "" {
		if why != nil {
			return Build{}, badSelf(c.self, why)
		}
		return Build{}, c.noBuild(system)
	}
	return c.buildFromSource(ctx, system)
}

func (c *Catalog) noBuild(system string) error {
	have := strings.Join(c.available(), ", ")
	return &fault.Error{
		Code: fault.NoAgentBuild, Stage: stage, Who: fault.Local,
		Detail: fmt.Sprintf("the host is %s and this client has no build for it (it has: %s)", system, cmp.Or(have, "none")),
		Remedy: "make one with `make agents` in the source of kolu and set " + AgentsVar + " to its dist/agents",
	}
}

func badSelf(file string, err error) error {
	return &fault.Error{
		Code: fault.BadBuild, Stage: stage, Who: fault.Local, Err: err,
		Detail: fmt.Sprintf("%s cannot run on another machine: %v", file, err),
		Remedy: "build it with `make build` (or CGO_ENABLED=0 go build), or set " + AgentsVar,
	}
}

// describe makes the record of a file, from the cache when the file is as it was.
func (c *Catalog) describe(system, file string) (Build, error) {
	b := Build{System: system, Version: c.version, File: file, cache: c.cache}
	facts, err := c.cache.facts(file)
	if err != nil {
		return Build{}, err
	}
	if facts.NotStatic != "" {
		return Build{}, fmt.Errorf("%s", facts.NotStatic)
	}
	b.Size, b.SHA256, b.NarHash, b.NarSize = facts.Size, facts.SHA256, facts.NarHash, facts.NarSize
	return b, nil
}

// check makes sure, before anything is sent, that a build's file is what its record says.
func (c cacheDir) check(b Build) error {
	facts, err := c.facts(b.File)
	switch {
	case err != nil:
	case facts.NotStatic != "":
		err = fmt.Errorf("%s", facts.NotStatic)
	case facts.SHA256 != b.SHA256 || facts.NarHash != b.NarHash || facts.Size != b.Size:
		err = fmt.Errorf("its bytes are not those of the manifest")
	}
	if err == nil {
		return nil
	}
	return &fault.Error{
		Code: fault.BadBuild, Stage: stage, Who: fault.Local, Err: err,
		Detail: fmt.Sprintf("the build %s cannot be used: %v", b.File, err), Remedy: "make it anew with: make agents",
	}
}
