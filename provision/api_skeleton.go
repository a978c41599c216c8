package provision

import (
	"context"
	"errors"

	"kolu/internal/fault"
)

var errSkeleton = errors.New("not there yet")

// Catalog is where builds come from.
type Catalog struct {
	Version string
	builds  map[string]Build
}

// OpenCatalog finds the builds of this client. getenv is os.Getenv.
func OpenCatalog(ctx context.Context, getenv func(string) string) (*Catalog, error) {
	return nil, errSkeleton
}

// Build gives the build for a system, or a fault NoAgentBuild.
func (c *Catalog) Build(ctx context.Context, system string) (Build, error) {
	return Build{}, &fault.Error{Code: fault.NoAgentBuild}
}

// Line is the one line that starts program ("padi" or "kaval") with --stdio --nonce if its build is there, else prints the facts.
func (c *Catalog) Line(program, nonce string) string { return "" }

// Facts is what a host said of itself. Every field may be empty.
type Facts struct {
	OS, Arch string
}

// System is the host's system, or a fault UnsupportedOS.
func (f Facts) System() (string, error) { return "", errSkeleton }

// ParseFacts reads the facts of a preamble (KEY to VALUE); it ignores what it does not know.
func ParseFacts(facts map[string]string) Facts { return Facts{} }

// Install places a build on a host.
func Install(ctx context.Context, r Runner, f Facts, b Build, progress Progress) (Placed, error) {
	return Placed{}, errSkeleton
}

// StartLine is the line that starts the front of a placed build.
func StartLine(p Placed, program, nonce string) string { return "" }

// Local is the directory with the six names that this machine's daemons are started from. getenv is os.Getenv.
func Local(getenv func(string) string) (string, error) { return "", errSkeleton }
