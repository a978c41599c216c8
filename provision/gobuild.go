package provision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"kolu/internal/fault"
	"kolu/internal/version"
)

// moduleSource is the directory of kolu's own module that the running executable was made from: the working directory or one
// above. It is "" for an installed kolu, which must not guess.
func moduleSource(self string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != "kolu" {
		return ""
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if ofModule(dir) {
			if fresh(self, dir) {
				return dir
			}
			return ""
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

func ofModule(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(first) == "module kolu"
}

// fresh reports that an executable is one that go run or go test made, or one that was built into its own source: the
// places where what runs is what the source says.
func fresh(self, dir string) bool {
	rel, err := filepath.Rel(dir, self)
	return err == nil && filepath.IsLocal(rel) || strings.Contains(filepath.ToSlash(self), "/go-build")
}

// builtPath is where the build of a system is kept that was made for the running executable.
func (c *Catalog) builtPath(system string) (string, error) {
	if c.cache == "" {
		return "", errors.New("there is no cache directory to keep it in: HOME is not set")
	}
	facts, err := c.cache.facts(c.self)
	if err != nil {
		return "", err
	}
	return filepath.Join(string(c.cache), "agents", facts.SHA256[:32], system, Program), nil
}

func (c *Catalog) builtBefore(system string) (Build, bool) {
	file, err := c.builtPath(system)
	if err != nil {
		return Build{}, false
	}
	if _, err := os.Stat(file); err != nil {
		return Build{}, false
	}
	b, err := c.describe(system, file)
	return b, err == nil
}

// buildFromSource makes the build of a system from the source that this client runs from.
func (c *Catalog) buildFromSource(ctx context.Context, system string) (Build, error) {
	if b, ok := c.builtBefore(system); ok {
		return b, nil
	}
	file, err := c.builtPath(system)
	if err != nil {
		return Build{}, noCompile(system, c.source, err)
	}
	if err := compile(ctx, c.source, system, file); err != nil {
		return Build{}, noCompile(system, c.source, err)
	}
	c.cache.forgetBuilt(filepath.Dir(filepath.Dir(file)))
	return c.describe(system, file)
}

// keepBuilt is how long builds of an executable that was replaced meanwhile are kept.
const keepBuilt = 7 * 24 * time.Hour

// forgetBuilt removes what was built long ago for other executables than the one at hand.
func (c cacheDir) forgetBuilt(current string) {
	all := filepath.Join(string(c), "agents")
	entries, _ := os.ReadDir(all)
	for _, e := range entries {
		dir := filepath.Join(all, e.Name())
		if info, err := e.Info(); err == nil && dir != current && time.Since(info.ModTime()) > keepBuilt {
			os.RemoveAll(dir)
		}
	}
}

func noCompile(system, source string, err error) error {
	return &fault.Error{
		Code: fault.BadBuild, Stage: stage, Who: fault.Local, Err: err,
		Detail: fmt.Sprintf("build kolu for %s from %s: %v", system, source, err),
		Remedy: "run `make agents` there and set " + AgentsVar + " to its dist/agents",
	}
}

// compile runs the Go tool as the package does, and puts the result at file in one step.
func compile(ctx context.Context, source, system, file string) error {
	cpu, goos, _ := strings.Cut(system, "-")
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[cpu]
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.tmp-%d", file, os.Getpid())
	defer os.Remove(tmp)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "netgo,osusergo,timetzdata",
		"-ldflags", "-s -w -buildid= -X kolu/internal/version.linked="+version.Commit, "-o", tmp, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, fault.Printable(said.String(), 300))
	}
	return os.Rename(tmp, file)
}
