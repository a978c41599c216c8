package provision

import (
	"fmt"
	"time"
)

// This file is the far side of an upload: what a host is told to do with the bytes.

// line receives the file into a directory of its own and judges it there. An attempt that is cut leaves what came as .part-ID; the
// next one, whoever's it is, takes that by its name, which only one can do, states its size and sum, and gets the rest.
func (s *sending) line(nonce string) string {
	b, unpack, forgo := s.in.build, `cat`, `:`
	if s.packed {
		unpack = `gzip -dc`
	}
	if s.fresh {
		forgo = `rm -f "$P"`
	}
	links := ""
	for _, name := range Names {
		if name != Program {
			links += `ln -s ` + Program + ` "$T/bin/` + name + `" && `
		}
	}
	return shLine(script(
		setNonce(nonce), say, `LC_ALL=C`, `export LC_ALL`, `umask 077`,
		`B="`+s.dir+`"`, `i=`+b.ID(), `h=$(uname -n)`, `U=$(id -u)`, `T=`, `P="$B/.part-$i"`,
		`has(){ command -v "$1" >/dev/null 2>&1; }`,
		`trap "" PIPE`, // with the client gone a word to it would end the shell before it has tidied up
		`fail(){ if [ "$T" ]; then rm -rf "$T"; fi; f fail "$1"; exit 1; }`,
		own, sums, s.keepPart(),
		`mkdir -p "$B" || fail mkdir`,
		`case $B in /tmp/*|/var/tmp/*) own "${B%/builds}" || fail foreign;; esac`,
		forgo, leftovers,
		`T="$B/.tmp-$$-`+nonce[:8]+`-$h"`, `mkdir "$T" "$T/bin" || fail mkdir`, `X="$T/bin/`+Program+`"`, `: >"$T/of-$i"`,
		`if mv "$P" "$X" 2>/dev/null; then f part $(wc -c <"$X") "$(sum "$X")"; fi`,
		`m ready`, s.in.receive(unpack), `m got`,
		`s=$(wc -c <"$X")`, `[ $s -eq `+fmt.Sprint(b.Size)+` ] || cut size`,
		`w=`+b.SHA256, `if [ "$(sums)" = cksum ]; then w=`+s.crc+`; fi`,
		`[ "$(sum "$X")" = "$w" ] || fail sum`,
		`rm -f "$T/of-$i" "$P"`,
		`chmod 755 "$X" || fail write`, links+`: || fail write`, s.last,
		`echo "@kolu $N end"`,
	))
}

// sums finds the tool for sums that is there, and sum gives that of a file.
const sums = `sums(){ for k in sha256sum shasum openssl cksum; do if has $k; then echo $k; return; fi; done; }; ` +
	`sum(){ case $(sums) in sha256sum) set -- $(sha256sum <"$1");; shasum) set -- $(shasum -a 256 <"$1");; ` +
	`openssl) set -- $(openssl dgst -sha256 <"$1"); shift $(($#-1));; *) set -- $(cksum <"$1");; esac; echo "$1"; }`

// leftovers takes away what attempts that have ended left behind, but for the bytes of this build.
const leftovers = `for d in "$B"/.tmp-*; do r=${d##*/.tmp-}; q=${r%%-*}; if [ -d "$d" ]; then ` +
	`if [ "${r#*-*-}" = "$h" ] && { kill -0 "$q" || false; } 2>/dev/null; then :; ` +
	`elif [ "${r#*-*-}" = "$h" ] || [ "$(find "$d" -prune -mtime +0 2>/dev/null)" ]; then if [ -f "$d/of-$i" ]; then part "$d/bin/` + Program + `"; fi; rm -rf "$d"; fi; fi; done; ` +
	`for d in "$B"/.part-*; do if [ -f "$d" ] && [ "$(find "$d" -prune -mtime +0 2>/dev/null)" ]; then rm -f "$d"; fi; done`

// partAbove is the size from which what a cut attempt brought is kept for the next one.
const partAbove = 1 << 20

// keepPart defines part, which keeps a file for the next attempt when that pays, and cut, which does so with ours and gives up. On a
// file system that is full nothing is kept: it would only take the room.
func (s *sending) keepPart() string {
	return fmt.Sprintf(`part(){ s=$(wc -c <"$1"); if [ "$s" -ge %d ] && [ "$s" -lt %d ]; then mv "$1" "$P"; fi; } 2>/dev/null; `+
		`cut(){ if (printf %%65536s "" >"$T/room") 2>/dev/null; then part "$X"; fi; fail "$1"; }`, partAbove, s.in.build.Size)
}

// receive adds stdin to $X. It gives up when the file does not grow for a while: a link may end without the end of stdin, since a
// master of OpenSSH forgets the sessions of a client that was killed while it had something for it.
func (in *installer) receive(unpack string) string {
	return script(
		`D="$"`, `: >"$T/pid"`,
		watchdog(`p=$(cat "$T/pid") && n=$(wc -c <"$X")`, in.stall)+
			`/bin/sh -c "echo $D$D >&4; exec `+unpack+` 4>&-" 4>"$T/pid" >>"$X" || cut write`,
		`rm -f "$T/pid"`,
	)
}

// serving is an exec of a program that reads from the client, which ends too when nothing comes for a while. What it has read is
// known from /proc alone; without that it lives until its stdin ends.
func (in *installer) serving(program string) string {
	return shLine(script(`LC_ALL=C`, `export LC_ALL`, `p=$$`,
		`io(){ n=; while read -r k v; do if [ "$k" = rchar: ]; then n=$v; fi; done <"/proc/$p/io"; [ "$n" ]; }`,
		watchdog(`io`, in.idle)+`exec `+program))
}

// watchdog starts a process beside the shell that ends $p once $n, which look sets, has not changed for so long. It ends when look fails
// or with the shell.
func watchdog(look string, after time.Duration) string {
	return fmt.Sprintf(`(l=-; q=0; while sleep %d && kill -0 $$ && `+look+`; do `+
		`if [ "$n" = "$l" ]; then q=$((q+1)); else q=0; l=$n; fi; if [ $q -ge %d ] && [ "$p" ]; then kill $p; fi; done) </dev/null >/dev/null 2>&1 & `,
		int(glance.Seconds()), after/glance)
}

// glance is how often the host looks whether something comes.
const glance = 2 * time.Second

// runs runs an executable once. One that is for another processor than the host's own programs is not even tried, since some shells
// would take it for a script; then the fact arch says what those are for. Only 64 bit programs are judged so.
const runs = `mach(){ set -- $(od -An -tx1 -j4 -N16 "$1" 2>/dev/null); if [ "$1" = 02 ]; then echo "${15}${16}"; fi; }; ` +
	`runs(){ a=$(mach /bin/sh); c=$(mach "$1"); if [ "$a" ] && [ "$c" ]; then if [ "$a" = "$c" ]; then :; else f arch "$a"; return 1; fi; fi; ` +
	`"$1" --version >/dev/null </dev/null; }`

// keepDays is how long a build that nobody runs is kept.
const keepDays = 30

// renameScript ends an upload: the file is run once, goes to the disk, and the whole directory gets its name in one step. Where
// somebody else was quicker, mv puts it inside theirs, from where it is removed.
func (in *installer) renameScript() string {
	return script(
		runs, `runs "$X" || fail exec`,
		`if [ "$h" ] && has sync; then sync "$X" 2>/dev/null; fi`,
		`ok(){ [ -x "$1/bin/`+lastName+`" ] && [ "$(wc -c <"$1/bin/`+Program+`" 2>/dev/null)" -eq $s ] 2>/dev/null; }`,
		`t=${T##*/}`, `if ok "$B/$i"; then rm -rf "$T"; else `+
			`if [ -e "$B/$i" ]; then mv "$B/$i" "$B/$t-old" && rm -rf "$B/$t-old"; fi; `+
			`mv "$T" "$B/$i" || fail write; rm -rf "$B/$i/$t"; fi`,
		`ok "$B/$i" || fail write`, `f placed "$B/$i"`, prune,
	)
}

// prune removes builds that were placed long ago and that nothing runs. It does so only on file systems that belong to this
// machine alone, and where it can see what programs run; else it leaves everything. Programs are told apart by inode, so no
// link on the way to a build hides that it runs.
var prune = fmt.Sprintf(`used(){ for e in /proc/[0-9]*/exe; do if [ "$e" -ef "$1" ]; then return 0; fi; done; return 1; }; `+
	`y=$(stat -f -c %%T "$B" 2>/dev/null); case $y in ext2/ext3|xfs|btrfs|zfs|tmpfs|f2fs) `+
	`if [ /proc/$$/exe -ef /proc/self/exe ]; then for d in "$B"/*; do if [ "$d" = "$B/$i" ] || used "$d/bin/%[1]s"; then continue; fi; `+
	`if [ -x "$d/bin/%[1]s" ] && [ "$(find "$d" -prune -mtime +%[2]d 2>/dev/null)" ]; then rm -rf "$d"; fi; done; fi;; esac`, Program, keepDays)
