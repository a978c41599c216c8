package provision

import (
	"fmt"
	"slices"
	"strings"
)

// Forgotten is what a host did with what kolu left there.
type Forgotten struct {
	Removed []string // paths that are gone
	Used    []string // builds, and roots of builds, that a process runs
	Shared  []string // builds in a home that other machines may share
	Kept    []string // what could not be removed
	Store   []string // store paths that nothing keeps any more and that the next collection takes
}

// Forget is the line that removes the builds of this user, their roots and what broken attempts left. What a process runs stays.
// Builds on a file system that is not the host's own stay too, unless all is set: who uses them cannot be seen there. With all the homes
// of daemons that are no more go as well.
func Forget(nonce string, all bool) string {
	checkWords("padi", nonce)
	any := ""
	if all {
		any = "yes"
	}
	return shLine(script(setNonce(nonce), say, `U=$(id -u)`, own, `any=`+any, strings.TrimSuffix(wheres, "; "), forget, ends))
}

var forget = `set +f; LC_ALL=C; export LC_ALL; n=$(uname -n); ` +
	`used(){ if [ /proc/$$/exe -ef /proc/self/exe ]; then for e in /proc/[0-9]*/exe; do if [ "$e" -ef "$1" ]; then return 0; fi; done; return 1; fi; ` +
	`case $(ps -axo comm= 2>/dev/null) in *"$1"*) return 0;; esac; return 1; }; ` +
	`gone(){ if [ -e "$1" ] || [ -L "$1" ]; then f kept "$1"; else f removed "$1"; fi; }; ` +
	`away(){ rm -rf "$1" 2>/dev/null; gone "$1"; }; ` +
	`here(){ case $(stat -f -c %T "$1" 2>/dev/null) in nfs*|smb*|cifs|fuse*|afs|lustre|gpfs|ceph|9p|v9fs) return 1;; esac; return 0; }; ` +
	`m builds; for d in ${o:+"$o"} "$h" "$r" "$v/builds" "$t/builds"; do case $d in "$v"/*|"$t"/*) own "${d%/builds}" || continue;; esac; if [ -d "$d" ]; then ` +
	`for g in "$d"/* "$d"/.tmp-*; do if [ -d "$g" ]; then case ${g##*/} in .tmp-*) ` +
	`q=${g##*/.tmp-}; if [ "${q#*-*-}" = "$n" ] && kill -0 "${q%%-*}" 2>/dev/null; then f used "$g"; else away "$g"; fi;; ` +
	fmt.Sprintf(`*) if used "$g/bin/%s"; then f used "$g"; elif [ "$any" ] || here "$g"; then away "$g"; else f shared "$g"; fi;; esac; fi; done; for g in "$d"/.part-*; do if [ -f "$g" ]; then away "$g"; fi; done; fi; done; `, Program) +
	`m roots; S=${NIX_STORE_DIR:-/nix/store}; D=; for d in /nix/var/nix/profiles/default/bin /run/current-system/sw/bin "$H/.nix-profile/bin" "$H/.local/state/nix/profile/bin"; do ` +
	`D="$D:$d"; done; PATH="$PATH$D"; ` +
	`for d in "$H/.local/state/kolu/roots" "$v/roots"; do if [ -d "$d" ]; then for g in "$d"/*; do if [ -L "$g" ]; then to=$(readlink "$g"); ` +
	`case $to in "$S"/*) ` +
	fmt.Sprintf(`if used "$to/bin/%s"; then f used "$g"; else rm -f "$g" 2>/dev/null; gone "$g"; if [ -e "$to" ]; then nix-store --delete "$to" >/dev/null 2>&1; `, Program) +
	`if [ -e "$to" ]; then f store "$to"; else f removed "$to"; fi; fi; fi;; esac; fi; done; fi; done; ` +
	`for d in "$h" "$H/.local/share/kolu" "$H/.local/state/kolu/roots" "$H/.local/state/kolu" "$r" "$XDG_RUNTIME_DIR/kolu" "$v/builds" "$v/roots" "$v" "$t/builds" "$t"; do rmdir "$d" 2>/dev/null; done; ` +
	`m homes; if [ "$any" ]; then ` + eachHome + `if own "$g" && [ -f "$g/$e.log" ]; then ` + alive + `if [ $z = dead ]; then ` +
	`rm -f "$g/$e.pid" "$g/$e.log" "$g/$e.log".* "$g/$e.start" "$g/state-root" "$g/owner" "$g/$q.sock" "$g"/agent*.sock 2>/dev/null; rm -rf "$g/bin" 2>/dev/null; ` +
	`rmdir "$g" 2>/dev/null; gone "$g"; fi; fi; done; done; fi; done; fi; :`

// ParseForgotten reads the facts that came for [Forget].
func ParseForgotten(facts map[string]string) Forgotten {
	return Forgotten{
		Removed: paths(facts["removed"]), Used: paths(facts["used"]), Shared: paths(facts["shared"]), Kept: paths(facts["kept"]), Store: paths(facts["store"]),
	}
}

// paths reads one path a line.
func paths(s string) []string {
	var all []string
	for line := range strings.Lines(s) {
		if p := cleanPath(strings.TrimSuffix(line, "\n")); p != "" && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// End is the line that waits until the process of a daemon is gone, after a signal to it if signal is set, and states "ended" then. It
// does nothing when the pid is another process by now: the gate of the daemon has to name it still.
func End(nonce string, d Daemon, signal bool) string {
	checkWords("padi", nonce)
	kill := ":"
	if signal {
		kill = `kill "$p"`
	}
	return shLine(script(setNonce(nonce), say, fmt.Sprintf(`p=%d`, d.PID), `g="`+strings.TrimSuffix(d.Socket, sockets[d.Kind])+d.Kind+`.pid"`,
		`q=; if [ -r "$g" ]; then read -r q rest <"$g"; fi`, `i=80; if [ "$q" = "$p" ]; then i=0; `+kill+`; fi`, // a gate that is gone means that the process is about to be
		`while [ $i -lt 90 ] && kill -0 "$p" 2>/dev/null; do sleep 0.1 2>/dev/null || sleep 1; i=$((i+1)); done`,
		`if kill -0 "$p" 2>/dev/null; then :; else f ended yes; fi`, ends))
}

// sockets are the names of the sockets of both kinds of daemon.
var sockets = map[string]string{"padi": "padi.sock", "kaval": "pty-host.sock"}
