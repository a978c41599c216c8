package provision

import (
	"fmt"
	"slices"
	"strings"
)

// usualStore is the store that a line looks in before anything is known of the host.
const usualStore = "/nix/store"

// kernels are the words of uname for each system.
var kernels = map[string]string{
	"x86_64-linux":   `"Linux x86_64"|"Linux amd64"`,
	"aarch64-linux":  `"Linux aarch64"|"Linux arm64"`,
	"x86_64-darwin":  `"Darwin x86_64"`,
	"aarch64-darwin": `"Darwin arm64"`,
}

// Line is what a client sends to a host that it knows nothing of: one physical line for whatever login shell is there. If a
// build of this catalog stands on the host it becomes program ("padi" or "kaval") with --stdio --nonce NONCE; else it prints what the
// host is and ends. nonce is 8 to 64 letters and digits; anything else is a mistake of the caller and panics.
func (c *Catalog) Line(program, nonce string) string {
	checkWords(program, nonce)
	return shLine(script(setNonce(nonce), say, "p="+program, "m shell", c.pick(), lookFor(becomeIt), probe, ends))
}

func checkWords(program, nonce string) {
	if !madeOf(program, 1, 32, lower+"-") || !madeOf(nonce, 8, 64, digits+lower+upper) {
		panic(fmt.Sprintf("provision: bad program %q or nonce %q", program, nonce))
	}
}

// pick sets i and s to the id and the store path of the build for the kernel that runs there, and C to the closure that the user
// named for it. The kernel's word is the right one for a static file, whatever userland is around it.
func (c *Catalog) pick() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	b.WriteString(`i=; s=; C=; u=$(uname -sm); ` + native + `case $u in `)
	for _, system := range Systems {
		build, ok := c.builds[system]
		if !ok || !slices.Contains(Systems[:], system) {
			continue
		}
		fmt.Fprintf(&b, "%s) i=%s s=%s C=%s;; ", kernels[system], build.ID(), build.StorePath(usualStore), build.Closure)
	}
	b.WriteString(`*) ;; esac`)
	return b.String()
}

// native sees through Rosetta, under which a Mac with an Apple processor calls itself the other one.
const native = `case $u in "Darwin x86_64") if [ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" = 1 ]; then u="Darwin arm64"; fi;; esac; `

// own tells a directory that is ours from one, or a link, that somebody else put there.
const own = `own(){ [ -d "$1" ] && [ -O "$1" ] && if [ -L "$1" ]; then false; else :; fi; }`

// lookFor does something with each build that is there, "$1". Unpacking makes the last of the six names last, so that one stands
// for all; a file of no bytes, as a power cut leaves it, does not count. Directories that others could have made are ours or not
// taken.
func lookFor(do string) string {
	return `U=$(id -u); ` +
		`b(){ if [ -x "$1/bin/` + lastName + `" ] && [ -s "$1/bin/` + Program + `" ]; then ` + do + `; fi; }; ` +
		own + `; ` + wheres +
		`if [ "$C" ]; then b "$C"; fi; ` +
		`if [ "$i" ]; then if [ "$o" ]; then b "$o/$i"; fi; b "$s"; b "$h/$i"; ` +
		`if [ "$XDG_RUNTIME_DIR" ]; then b "$r/$i"; fi; ` +
		`for d in "$v" "$t"; do if own "$d"; then b "$d/builds/$i"; fi; done; fi`
}

// becomeIt execs the front of a build.
const becomeIt = `m exec "$1/bin/$p" --stdio; exec "$1/bin/$p" --stdio --nonce $N`

// wheres names the directories that builds of this user may stand in: first the one that the user named, if any.
const wheres = `H=${HOME%/}; case $KOLU_BUILDS in /*) o=${KOLU_BUILDS%/};; *) o=;; esac; ` +
	`case $XDG_DATA_HOME in /*) h=${XDG_DATA_HOME%/};; *) h="$H/.local/share";; esac; h="$h/kolu/builds"; r="$XDG_RUNTIME_DIR/kolu/builds"; v=/var/tmp/kolu-$U; t=/tmp/kolu-$U; `

// probe prints the facts. Each is optional and nothing but sh itself is needed for the first of them. It leaves nothing behind:
// whether a place may hold executables is found out by running a file there, which is removed again. The file is made in a new
// directory of ours, since others may write to /tmp as well.
const probe = `set -f; LC_ALL=C; export LC_ALL; umask 077; ` +
	`has(){ command -v "$1" >/dev/null 2>&1; }; ` +
	`f system $u; f uid $U; ` +
	`f user "${USER:-${LOGNAME:-}}"; f home "$H"; ` +
	// nix is asked for its version beside the rest: starting it takes longer than all of that
	`m nix; D=; if has nix-store; then D=$(command -v nix-store); D=${D%/nix-store}; fi; ` +
	`for d in "$D" /nix/var/nix/profiles/default/bin /run/current-system/sw/bin "$H/.nix-profile/bin" "$H/.local/state/nix/profile/bin" ` +
	`"/etc/profiles/per-user/$USER/bin" /usr/bin /usr/local/bin; do ` +
	`if [ "$d" ] && [ -x "$d/nix-store" ]; then f nix.dir "$d"; f nix.version "$("$d/nix-store" --version </dev/null 2>/dev/null)" & break; fi; done; ` +
	// free: the free KiB and inodes where $1 is, "-" for what is not known
	`free(){ set -- "$1" $(df -Pk "$1" 2>/dev/null); k=${12:--}; a=-; case $u in Linux*) set -- "$1" $(df -Pi "$1" 2>/dev/null); a=${12:--};; esac; }; ` +
	// place N DIR: once there is a good place, others are named and not tried; an upload finds out by itself
	`good=; place(){ if [ "$good" ]; then f place.$1 "untried - - $2"; else try $1 "$2"; if [ $z = ok ] && [ "$k" -gt 262144 ] 2>/dev/null; then good=1; fi; fi; }; ` +
	// try N DIR: its state, free KiB, free inodes, path. up is the nearest directory that is there.
	`try(){ n=$1; d=$2; up=$d; while [ -n "$up" ]; do if [ -d "$up" ]; then break; fi; up=${up%/*}; done; ` +
	`x=$up/.kolu-probe-$N; if mkdir "$x" 2>/dev/null; then ` +
	`if (printf : >"$x/x") 2>/dev/null; then chmod 700 "$x/x" 2>/dev/null; if ("$x/x") >/dev/null 2>&1; then z=ok; else z=noexec; fi; else z=full; fi; ` +
	`rm -rf "$x"; elif [ -w "$up/" ]; then z=full; else z=ro; fi; free "$up/"; f "place.$n" "$z $k $a $d"; }; ` +
	`mine(){ if [ -e "$2" ] || [ -L "$2" ]; then if own "$2"; then place $1 "$2/builds"; else f place.$1 "foreign - - $2/builds"; fi; else place $1 "$2/builds"; fi; }; ` +
	`m places; if [ "$o" ]; then place o "$o"; fi; if [ "$H" ] && [ -d "$H" ]; then place 0 "$h"; else f place.0 "absent - - $h"; fi; ` +
	`if [ "$XDG_RUNTIME_DIR" ] && [ -d "$XDG_RUNTIME_DIR" ]; then place 1 "$r"; fi; mine 2 "$v"; mine 3 "$t"; ` +
	`S=${NIX_STORE_DIR:-/nix/store}; if [ -d "$S" ]; then if [ -w "$S" ]; then z=rw; else z=ro; fi; free "$S"; f store "$z $k $a $S"; ` +
	`set -- $(ls -ld "$S" 2>/dev/null); f store.owner "$3"; fi; ` +
	`if [ -S "${NIX_STATE_DIR:-/nix/var/nix}/daemon-socket/socket" ]; then f nix.daemon socket; fi; ` +
	`m tools; T=; for d in gzip sha256sum shasum openssl cksum base64 getconf; do if has $d; then T="$T $d"; fi; done; f tools $T; ` +
	`if has getconf; then f longbit $(getconf LONG_BIT 2>/dev/null); fi`

// ends waits for what was started beside the rest and says that all facts are there.
const ends = `wait; echo "@kolu $N end"`

// StartLine is the line that starts the front of a placed build. It panics like [Catalog.Line].
func StartLine(p Placed, program, nonce string) string {
	checkWords(program, nonce)
	return shLine(script(setNonce(nonce), say, `m exec "`+p.Bin+`/`+program+`" --stdio`, `exec "`+p.Bin+`/`+program+`" --stdio --nonce $N`))
}
