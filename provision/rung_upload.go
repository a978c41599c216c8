package provision

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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
	if !p.Kept {
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
// stands in $T; $B is dir and $i the id. What a cut attempt left is gone on with, when its bytes are ours.
func (in *installer) send(ctx context.Context, rung Rung, dir, last string) (placed string, err error) {
	s := &sending{in: in, rung: rung, dir: dir, last: last, packed: in.build.Size > gzipAbove && in.facts.has("gzip")}
	if !in.facts.has("sha256sum") && !in.facts.has("shasum") && !in.facts.has("openssl") {
		if s.crc, err = in.build.cksum(in.build.Size); err != nil {
			return "", err
		}
	}
	placed, err = s.run(ctx)
	if errors.Is(err, errOtherPart) {
		s.fresh = true
		placed, err = s.run(ctx)
	}
	return placed, err
}

// errOtherPart is the beginning of a file over there that is not the beginning of ours.
var errOtherPart = errors.New("what an attempt left is damaged")

// sending is one way of a file to a host.
type sending struct {
	in        *installer
	rung      Rung
	dir, last string
	crc       string // of the whole, where the host has no better sum
	packed    bool
	fresh     bool  // what is there already is not used
	from      int64 // so much is there already
}

func (s *sending) run(ctx context.Context) (placed string, err error) {
	in, nonce := s.in, newNonce()
	s.from = 0
	cmd, err := in.start(ctx, s.line(nonce), nonce)
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
			return "", in.sendFault(cmd, s.rung, s.dir, "cut", err)
		}
		key, value, _ := strings.Cut(l.rest, " ")
		switch {
		case l.word == "fact" && key == "part":
			if s.from, err = in.build.begins(value); err != nil {
				cmd.finish()
				return "", err
			}
		case l.word == "mark" && l.rest == "ready" && !feeding:
			feeding = true
			cmd.alive(cmd.send)
			go func() { fed <- s.feed(cmd) }()
		case l.word == "mark" && l.rest == "got":
			in.progress.tell(StageVerify, 0, 0)
			cmd.alive(cmd.verify)
		case l.word == "fact" && key == "arch":
			arch = value
		case l.word == "fact" && key == "fail" && value == "exec" && arch != "":
			return "", in.wrongArch(arch)
		case l.word == "fact" && key == "fail":
			return "", in.sendFault(cmd, s.rung, s.dir, value, errors.New("the host gave up at: "+fault.Printable(value, 100)))
		case l.word == "fact" && key == "placed":
			placed = value
		case l.word == "end":
			cmd.finish()
			return placed, in.landed(placed)
		}
	}
}

// begins takes "SIZE SUM" of a file over there and gives the size when our file begins with the same bytes, else errOtherPart.
func (b Build) begins(part string) (int64, error) {
	size, sum, _ := strings.Cut(part, " ")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 1 || n >= b.Size {
		return 0, errOtherPart
	}
	ours := b.sha256
	if len(sum) != 2*sha256.Size {
		ours = b.cksum
	}
	switch got, err := ours(n); {
	case err != nil:
		return 0, err
	case got != sum:
		return 0, errOtherPart
	}
	return n, nil
}

// landed refuses a place that no line of ours could name.
func (in *installer) landed(placed string) error {
	if cleanPath(placed) == "" {
		return &fault.Error{Code: fault.Internal, Stage: stage, Who: fault.Host, Detail: "the host named no place for the build"}
	}
	return nil
}

// feed writes what is missing of the file, packed or as it is. An error here shows up as what the host makes of the cut stream.
func (s *sending) feed(cmd *command) error {
	in, stdin := s.in, cmd.proc.Stdin()
	defer stdin.Close()
	f, err := os.Open(in.build.File)
	if err != nil {
		return err
	}
	defer f.Close()
	out := &sent{moving: moving{w: stdin, cmd: cmd, may: cmd.send}, total: &in.sent}
	read := &told{r: io.NewSectionReader(f, s.from, in.build.Size-s.from), n: s.from,
		tell: func(n int64) { in.progress.tell(StageSend, n, in.build.Size) }}
	if !s.packed {
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

// machines are the processors of ELF files, in the bytes of the file.
var machines = map[string]string{"3e00": "x86_64", "b700": "aarch64", "f300": "riscv64", "1500": "ppc64", "0015": "ppc64", "0016": "s390x"}

// wrongArch ends the ladder: no other place would make the build run.
func (in *installer) wrongArch(machine string) *fault.Error {
	return &fault.Error{Code: fault.WrongArch, Stage: stage, Who: fault.Host,
		Detail: fmt.Sprintf("uname says %s %s and the programs of the host are for %s, so the build for %s does not run there",
			in.facts.OS, in.facts.Arch, cmp.Or(machines[machine], "another processor"), in.build.System),
		Remedy: "see which uname that is, with: ssh HOST 'uname -sm; command -v uname'"}
}
