package provision

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"kolu/internal/fault"
)

// gzipAbove is the size from which a build is packed for the way.
const gzipAbove = 1 << 20

// upload puts the build into a directory of the user's.
func (in *installer) upload(ctx context.Context, p Place) error {
	if err := in.usable(p); err != nil {
		return refuse(Upload, p.Dir, err)
	}
	dir, err := in.send(ctx, Upload, p.Dir, in.renameScript())
	if err != nil {
		return err
	}
	in.placed.Rung, in.placed.Bin = Upload, dir+"/bin"
	if !strings.HasPrefix(p.Dir, in.facts.Home+"/") {
		in.placed.Warnings = append(in.placed.Warnings, "the build stands in "+p.Dir+", which the host may empty")
	}
	return nil
}

func (in *installer) usable(p Place) *fault.Error {
	switch p.State {
	case PlaceOK, PlaceUntried:
		return in.room(p)
	case PlaceNoExec:
		return &fault.Error{Code: fault.NoExec, Detail: "files there may not be executed (noexec)",
			Remedy: "allow it on one of these, or install Nix on the host"}
	case PlaceFull:
		return diskFull(p.Dir, "a file could not be made")
	case PlaceForeign:
		return &fault.Error{Code: fault.NotWritable, Detail: "the name belongs to somebody else"}
	case PlaceAbsent:
		return &fault.Error{Code: fault.NotWritable, Detail: "the directory above it does not exist"}
	}
	return &fault.Error{Code: fault.NotWritable, Detail: "not writable"}
}

// send brings the file over in one exec, has the host verify it, and runs last there, which ends by stating "placed". The tree then
// stands in $T; $B is dir and $i the id.
func (in *installer) send(ctx context.Context, rung Rung, dir, last string) (placed string, err error) {
	nonce, b := newNonce(), in.build
	packed := b.Size > gzipAbove && in.facts.has("gzip")
	crc := ""
	if !in.facts.has("sha256sum") && !in.facts.has("shasum") && !in.facts.has("openssl") {
		if crc, err = cksum(b.File); err != nil {
			return "", err
		}
	}
	cmd, err := in.start(ctx, in.sendLine(nonce, dir, last, crc, packed), nonce)
	if err != nil {
		return "", err
	}
	fed := make(chan error, 1)
	feeding, arch := false, ""
	defer func() {
		cmd.close()
		if feeding {
			select {
			case <-fed:
			case <-time.After(cmd.end):
			}
		}
	}()
	for {
		l, err := cmd.next()
		if err != nil {
			return "", in.sendFault(cmd, rung, dir, "cut", err)
		}
		key, value, _ := strings.Cut(l.rest, " ")
		switch {
		case l.word == "mark" && l.rest == "ready" && !feeding:
			feeding = true
			cmd.alive(cmd.send)
			go func() { fed <- in.feed(cmd, packed) }()
		case l.word == "mark" && l.rest == "got":
			in.progress.tell(StageVerify, 0, 0)
			cmd.alive(cmd.verify)
		case l.word == "fact" && key == "arch":
			arch = value
		case l.word == "fact" && key == "fail" && value == "exec" && arch != "":
			return "", in.wrongArch(arch)
		case l.word == "fact" && key == "fail":
			return "", in.sendFault(cmd, rung, dir, value, errors.New("the host gave up at: "+fault.Printable(value, 100)))
		case l.word == "fact" && key == "placed":
			placed = value
		case l.word == "end":
			cmd.finish()
			return placed, in.landed(placed)
		}
	}
}

// landed refuses a place that no line of ours could name.
func (in *installer) landed(placed string) error {
	if cleanPath(placed) == "" {
		return &fault.Error{Code: fault.Internal, Stage: stage, Who: fault.Host, Detail: "the host named no place for the build"}
	}
	return nil
}

// feed writes the file, packed or as it is. An error here shows up as what the host makes of the cut stream.
func (in *installer) feed(cmd *command, packed bool) error {
	stdin := cmd.proc.Stdin()
	defer stdin.Close()
	f, err := os.Open(in.build.File)
	if err != nil {
		return err
	}
	defer f.Close()
	out := &sent{moving: moving{w: stdin, cmd: cmd, may: cmd.send}, total: &in.sent}
	read := &told{r: io.LimitReader(f, in.build.Size), tell: func(n int64) { in.progress.tell(StageSend, n, in.build.Size) }}
	if !packed {
		_, err = io.Copy(out, read)
		return err
	}
	whole := bufio.NewWriterSize(out, 32<<10) // the packer writes some hundred bytes at a time, and each would be a packet
	zip, err := gzip.NewWriterLevel(whole, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := io.Copy(zip, read); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return whole.Flush()
}

type sent struct {
	moving
	total *atomic.Int64
}

func (s *sent) Write(p []byte) (int, error) {
	n, err := s.moving.Write(p)
	s.total.Add(int64(n))
	return n, err
}

type told struct {
	r    io.Reader
	n    int64
	tell func(int64)
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.n += int64(n)
	t.tell(t.n)
	return n, err
}

// sendFault says what a failed send was: the host's word for the step, and what the tools there printed.
func (in *installer) sendFault(cmd *command, rung Rung, dir, step string, err error) error {
	if cmd.ctx.Err() == nil {
		cmd.finish()
	}
	if broken := cmd.broken(err); broken != nil {
		return broken
	}
	said := cmd.said()
	f := &fault.Error{Err: err, Evidence: said}
	switch {
	case containsAny(said, "No space left", "quota exceeded"):
		full := diskFull(dir, "it ran out in the middle")
		full.Err, full.Evidence = err, said
		f = full
	case step == "exec":
		f.Code, f.Detail, f.Remedy = fault.NoExec, "the build does not run there"+inBrackets(said), "see what the host says with: ssh HOST "+dir
	case containsAny(said, "Read-only file system", "Permission denied", "Not a directory"):
		f.Code, f.Detail = fault.NotWritable, "not writable"+inBrackets(said)
	case step == "nix":
		if reason := in.nixReason(said); reason != nil {
			f.Code, f.Detail, f.Remedy = reason.Code, reason.Detail, reason.Remedy
			break
		}
		f.Code, f.Detail = fault.NixRefused, "nix-store did not take the build"+inBrackets(said)
	case step == "foreign":
		f.Code, f.Detail = fault.NotWritable, "the name belongs to somebody else"
	case step == "cut": // by the link or by a kill: another place would fare no better
		return interrupted(fmt.Errorf("the host's side ended%s: %w", inBrackets(said), err), said)
	default:
		f = interrupted(err, said)
		f.Detail = fmt.Sprintf("the build did not get whole to %s (%s)", dir, fault.Printable(step, 40)) + inBrackets(said)
	}
	return refuse(rung, dir, f)
}

func containsAny(s string, texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(s, t) {
			return true
		}
	}
	return false
}

func (in *installer) sendLine(nonce, dir, last, crc string, packed bool) string {
	b, unpack := in.build, `cat`
	if packed {
		unpack = `gzip -dc`
	}
	links := ""
	for _, name := range Names {
		if name != Program {
			links += `ln -s ` + Program + ` "$T/bin/` + name + `" && `
		}
	}
	return shLine(script(
		setNonce(nonce), say, `LC_ALL=C`, `export LC_ALL`, `umask 077`,
		`B="`+dir+`"`, `i=`+b.ID(), `h=$(uname -n)`, `U=$(id -u)`, `T=`,
		`has(){ command -v "$1" >/dev/null 2>&1; }`,
		`trap "" PIPE`, // with the client gone a word to it would end the shell before it has tidied up
		`fail(){ if [ "$T" ]; then rm -rf "$T"; fi; f fail "$1"; exit 1; }`,
		own,
		`mkdir -p "$B" || fail mkdir`,
		`case $B in /tmp/*|/var/tmp/*) own "${B%/builds}" || fail foreign;; esac`,
		// what attempts that have ended left behind
		`for d in "$B"/.tmp-*; do r=${d##*/.tmp-}; q=${r%%-*}; if [ -d "$d" ]; then `+
			`if [ "${r#*-*-}" = "$h" ] && { kill -0 "$q" || false; } 2>/dev/null; then :; `+
			`elif [ "${r#*-*-}" = "$h" ] || [ "$(find "$d" -prune -mtime +0 2>/dev/null)" ]; then rm -rf "$d"; fi; fi; done`,
		`T="$B/.tmp-$$-`+nonce[:8]+`-$h"`, `mkdir "$T" "$T/bin" || fail mkdir`, `X="$T/bin/`+Program+`"`,
		`m ready`, in.receive(unpack), `m got`,
		`s=$(wc -c <"$X")`, `[ $s -eq `+fmt.Sprint(b.Size)+` ] || fail size`,
		`w=`+b.SHA256, `g=`,
		`if has sha256sum; then g=$(sha256sum <"$X"); elif has shasum; then g=$(shasum -a 256 <"$X"); `+
			`elif has openssl; then g=$(openssl dgst -sha256 <"$X"); g=${g##* }; else g=$(cksum <"$X"); w=`+crc+`; fi`,
		`[ "${g%% *}" = "$w" ] || fail sum`,
		`chmod 755 "$X" || fail write`, links+`: || fail write`, last,
		`echo "@kolu $N end"`,
	))
}

// receive writes stdin to $X. It gives up when the file does not grow for a while: a link may end without the end of stdin, since a
// master of OpenSSH forgets the sessions of a client that was killed while it had something for it.
func (in *installer) receive(unpack string) string {
	return script(
		`D="$"`, `: >"$T/pid"`,
		fmt.Sprintf(`(l=-; q=0; while sleep %d && kill -0 $$ && p=$(cat "$T/pid"); do n=$(wc -c <"$X"); `+
			`if [ "$n" = "$l" ]; then q=$((q+1)); else q=0; l=$n; fi; if [ $q -ge %d ] && [ "$p" ]; then kill $p; fi; done) </dev/null >/dev/null 2>&1 &`+
			`/bin/sh -c "echo $D$D >&4; exec `+unpack+` 4>&-" 4>"$T/pid" >"$X" || fail write`, int(glance.Seconds()), in.stall/glance),
		`rm -f "$T/pid"`,
	)
}

// glance is how often the host looks whether the file grows.
const glance = 2 * time.Second

// runs runs an executable once. One that is for another processor than the host's own programs is not even tried, since some shells
// would take it for a script; then the fact arch says what those are for. Only 64 bit programs are judged so.
const runs = `mach(){ set -- $(od -An -tx1 -j4 -N16 "$1" 2>/dev/null); if [ "$1" = 02 ]; then echo "${15}${16}"; fi; }; ` +
	`runs(){ a=$(mach /bin/sh); c=$(mach "$1"); if [ "$a" ] && [ "$c" ]; then if [ "$a" = "$c" ]; then :; else f arch "$a"; return 1; fi; fi; ` +
	`"$1" --version >/dev/null </dev/null; }`

// machines are the processors of ELF files, in the bytes of the file.
var machines = map[string]string{"3e00": "x86_64", "b700": "aarch64", "f300": "riscv64", "1500": "ppc64", "0015": "ppc64", "0016": "s390x"}

// wrongArch ends the ladder: no other place would make the build run.
func (in *installer) wrongArch(machine string) *fault.Error {
	return &fault.Error{Code: fault.WrongArch, Stage: stage, Who: fault.Host,
		Detail: fmt.Sprintf("uname says %s %s and the programs of the host are for %s, so the build for %s does not run there",
			in.facts.OS, in.facts.Arch, cmp.Or(machines[machine], "another processor"), in.build.System),
		Remedy: "see which uname that is, with: ssh HOST 'uname -sm; command -v uname'"}
}

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
