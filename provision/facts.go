package provision

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"kolu/internal/fault"
)

// Facts is what a host said of itself. Nothing in it is sure to be there, and nothing of it is to be trusted beyond what it
// is for: every path is absolute and clean, or empty.
type Facts struct {
	OS      string // as uname says it: Linux, Darwin
	Arch    string // x86_64, aarch64, arm64
	UID     int    // -1 where it is not known
	User    string
	Home    string
	LongBit int     // of the userland, or 0
	Places  []Place // where a build could stand, best first
	Nix     NixFacts
	Tools   []string // which of the tools that help are there
}

// NixFacts is what is known of Nix on a host.
type NixFacts struct {
	Dir     string // where nix-store is, or ""
	Version string // as it calls itself
	Daemon  bool   // its socket is there; whether anyone answers is not known
	Store   Place  // the store directory; State is rw, ro or ""
	Owner   string // of the store directory
}

// Place is a directory that a build could stand in.
type Place struct {
	Dir    string
	State  PlaceState
	Free   int64 // bytes, or -1 where it is not known
	Inodes int64 // or -1
	Kept   bool  // it is one of the user's own, which nobody else empties
}

// PlaceState says whether a place can be used.
type PlaceState string

// The states of a place. Ok means that a file was made and run there.
const (
	PlaceOK       PlaceState = "ok"
	PlaceUntried  PlaceState = "untried" // there was a better one
	PlaceNoExec   PlaceState = "noexec"
	PlaceReadOnly PlaceState = "ro"
	PlaceFull     PlaceState = "full"    // it may be written to and a file could not be made
	PlaceForeign  PlaceState = "foreign" // somebody else has the name
	PlaceAbsent   PlaceState = "absent"
	StoreWritable PlaceState = "rw"
)

// ParseFacts reads the facts of a preamble (KEY to VALUE). It ignores what it does not know and what makes no sense.
func ParseFacts(facts map[string]string) Facts {
	f := Facts{UID: -1, User: word(facts["user"]), Home: cleanPath(facts["home"]), Tools: strings.Fields(facts["tools"])}
	if fields := strings.Fields(facts["system"]); len(fields) == 2 {
		f.OS, f.Arch = word(fields[0]), word(fields[1])
	}
	if uid, err := strconv.ParseUint(facts["uid"], 10, 32); err == nil {
		f.UID = int(uid)
	}
	if bits, err := strconv.ParseUint(facts["longbit"], 10, 8); err == nil {
		f.LongBit = int(bits)
	}
	for _, key := range []string{"o", "0", "1", "2", "3"} {
		if p, ok := parsePlace(facts["place."+key]); ok {
			p.Kept = key == "o" || key == "0"
			f.Places = append(f.Places, p)
		}
	}
	f.Nix = NixFacts{
		Dir: cleanPath(facts["nix.dir"]), Version: fault.Printable(facts["nix.version"], 80),
		Daemon: facts["nix.daemon"] == "socket", Owner: word(facts["store.owner"]),
	}
	f.Nix.Store, _ = parsePlace(facts["store"])
	return f
}

// parsePlace reads "STATE FREE-KIB FREE-INODES PATH".
func parsePlace(s string) (Place, bool) {
	fields := strings.SplitN(s, " ", 4)
	if len(fields) != 4 {
		return Place{Free: -1, Inodes: -1}, false
	}
	dir := cleanPath(fields[3])
	free, inodes := count(fields[1]), count(fields[2])
	if free > 0 {
		free *= 1024
	}
	return Place{Dir: dir, State: PlaceState(word(fields[0])), Free: free, Inodes: inodes}, dir != ""
}

func count(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<50 {
		return -1
	}
	return n
}

// cleanPath takes absolute paths that a script can carry and that say no more than they seem to.
func cleanPath(s string) string {
	if len(s) > 1024 || !path.IsAbs(s) || !carries(s) || path.Clean(s) != s {
		return ""
	}
	return s
}

func word(s string) string {
	if madeOf(s, 1, 64, digits+lower+upper+"@._+-") {
		return s
	}
	return ""
}

func (f Facts) has(tool string) bool { return slices.Contains(f.Tools, tool) }

// System is the host's system, such as x86_64-linux, or a fault UnsupportedOS. It is the kernel's, which is what a static file
// needs; a 32 bit userland on a 64 bit kernel is no obstacle.
func (f Facts) System() (string, error) {
	cpu := map[string]string{"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}[f.Arch]
	os := map[string]string{"Linux": "linux", "Darwin": "darwin"}[f.OS]
	switch {
	case os == "":
		return "", &fault.Error{
			Code: fault.UnsupportedOS, Stage: stage, Who: fault.Host,
			Detail: fmt.Sprintf("the host says it runs %s, and kolu runs on linux and darwin", cmp.Or(f.OS, "nothing that uname names")),
			Remedy: "see what it is with: ssh HOST uname -sm",
		}
	case cpu == "": // a system all the same, so that the lack of a build names it
		return cmp.Or(f.Arch, "unknown") + "-" + os, nil
	}
	return cpu + "-" + os, nil
}
