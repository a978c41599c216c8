package provision

import (
	"kolu/provision/nix"
)

// Program names the executable in a build; the other names are links to it.
const Program = "kolu"

// Names are the six names of a build, in the order that an archive has them. The last one is the last thing that
// unpacking makes, so its presence shows that the unpacking got to its end.
var Names = [...]string{"kaval", "kaval-tui", Program, "padi", "padi-tui", "pulam-tui"}

const lastName = "pulam-tui"

// Build is one static executable for one system.
type Build struct {
	System  string // x86_64-linux, aarch64-linux, x86_64-darwin, aarch64-darwin
	Version string
	File    string // on this machine
	Size    int64
	SHA256  string // 64 hex digits, of the file
	NarHash string // 64 hex digits, of the archive of the layout
	NarSize int64
	// Closure is a store path with the six names in its bin that the user wants on the host instead, with all it refers to; or
	// "". It is in this machine's store.
	Closure string

	cache cacheDir // where what is known of File is remembered
}

// ID is the name of a build outside a store: the first 32 hex digits of its sha256.
func (b Build) ID() string {
	if len(b.SHA256) < 32 {
		return ""
	}
	return b.SHA256[:32]
}

// Name is the name part of the store path.
func (b Build) Name() string { return "kolu-" + b.Version }

// StorePath is where the build stands in a store that is kept at storeDir, whoever puts it there.
func (b Build) StorePath(storeDir string) string {
	return nix.SourcePath(storeDir, b.Name(), b.NarHash)
}
