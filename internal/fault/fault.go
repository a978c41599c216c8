// Package fault is the one error type for reaching a host: a closed set of codes, each with the stage it happened in, who is
// to blame, one sentence, and the next command to type. fleet, fleet/ssh, provision and stdio make them; the CLIs print them.
package fault

import (
	"errors"
	"strings"
)

// Code names a cause. The set is closed; docs/errors.md has a row for each.
type Code string

// The codes.
const (
	BadHost        Code = "bad-host"         // the host argument cannot be a host
	ConfigError    Code = "config-error"     // ssh_config does not resolve
	Unresolved     Code = "unresolved"       // no address for the name
	Unreachable    Code = "unreachable"      // refused, no route, timed out, dropped before a session
	Penalised      Code = "penalised"        // the server refuses this address for a while
	Auth           Code = "auth"             // the server refused every key
	LoginRefused   Code = "login-refused"    // authenticated, but no login allowed
	HostKeyUnknown Code = "host-key-unknown" // not in known_hosts
	HostKeyChanged Code = "host-key-changed" // another key than known_hosts has, or a revoked one
	NoShell        Code = "no-shell"         // the login shell ran nothing of ours
	Noise          Code = "noise"            // the login shell printed so much that nothing of ours was found
	PTYOnWire      Code = "pty-on-wire"      // the server forced a terminal on the session
	UnsupportedOS  Code = "unsupported-os"   // not linux or darwin
	NixMissing     Code = "nix-missing"      //
	NixRefused     Code = "nix-refused"      // the store would not take the path
	NixDaemonDown  Code = "nix-daemon-down"  //
	NoAgentBuild   Code = "no-agent-build"   // no build for the host's system here
	BadBuild       Code = "bad-build"        // the local build is not what its manifest says, or is not static
	NoExec         Code = "no-exec"          // no place on the host may hold an executable
	WrongArch      Code = "wrong-arch"       // the host says it is one system and runs programs of another
	NotWritable    Code = "not-writable"     // no place on the host may be written to
	DiskFull       Code = "disk-full"        //
	Interrupted    Code = "interrupted"      // the transfer or the session broke in the middle
	Contract       Code = "contract"         // the running daemon speaks another contract
	FrontDied      Code = "front-died"       // padi --stdio ended without a banner
	FrontRefused   Code = "front-refused"    // padi --stdio said no
	Timeout        Code = "timeout"          // nothing came for too long
	NoDaemon       Code = "no-daemon"        // no daemon is running where one was expected
	Internal       Code = "internal"
)

// Who is to blame: this machine, a jump host in between, or the host.
type Who string

// The parties.
const (
	Local Who = "local"
	Hop   Who = "hop"
	Host  Who = "host"
)

// Error is a failure to reach a host. The zero value of each field but Code and Detail is allowed.
type Error struct {
	Code  Code   `json:"code"`
	Stage string `json:"stage,omitempty"` // resolve, connect, auth, probe, provision, start, link
	Who   Who    `json:"who,omitempty"`
	Host  string `json:"host,omitempty"`
	// Detail is one line without the host and without the remedy: "permission denied (publickey)".
	Detail string `json:"detail"`
	// Remedy is the next command to type or the one thing to do.
	Remedy string `json:"remedy,omitempty"`
	// Evidence is the tail of what the other side printed, made printable.
	Evidence string `json:"evidence,omitempty"`
	Err      error  `json:"-"`
}

// Error gives one line: host, detail, and after a dash the remedy.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Host != "" {
		b.WriteString(e.Host + ": ")
	}
	b.WriteString(e.Detail)
	if e.Remedy != "" {
		b.WriteString(" — " + e.Remedy)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether err is a fault with the code.
func Is(err error, code Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}

// Printable makes bytes from elsewhere safe for one line of a terminal or a log: control characters and invalid UTF-8 become
// spaces or U+FFFD, runs of space shrink, and no more than max bytes from the end are kept.
func Printable(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > max {
		s = "…" + strings.ToValidUTF8(s[len(s)-max:], "")
	}
	return s
}
