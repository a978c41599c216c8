package provision

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"kolu/internal/fault"
)

// slack is what must stay free beside twice the build: a store writes a path and its records, an upload a copy.
const slack = 64 << 20

// needs are the bytes that a place must have free for a build.
func (b Build) needs() int64 { return 2*max(b.NarSize, b.Size) + slack }

// inodesNeeded covers the layout, a temporary copy of it, and the records of a store.
const inodesNeeded = 64

// Install places a build on a host by the first way that the host allows: a store path through nix-store --serve, the same
// path through --add-fixed, or a file of the user's own. Placed says which, and what was refused before.
//
// Every error is a *fault.Error. Whatever happens, also to this process, no build that is not whole is ever found by
// [Catalog.Line] or used: a cut attempt is simply made again. Two clients may install at once. Install changes nothing of what
// runs on the host and removes a build only where it is sure that nothing uses it.
func Install(ctx context.Context, r Runner, f Facts, b Build, progress Progress) (Placed, error) {
	tell, done := progress.oneByOne()
	defer done()
	in := &installer{run: r, facts: f, build: b, progress: tell, patience: usualPatience}
	return in.install(ctx)
}

func (in *installer) install(ctx context.Context) (Placed, error) {
	if err := fits(in.facts, in.build); err != nil {
		return Placed{}, err
	}
	if err := in.build.cache.check(in.build); err != nil {
		return Placed{}, err
	}
	in.progress.tell(StageCheck, 0, 0)
	err := in.ladder(ctx)
	in.placed.Sent = in.sent.Load()
	for _, t := range in.placed.Tried {
		if t.Rung == Closure && err == nil {
			in.placed.Warnings = append(in.placed.Warnings, "the closure did not go there, the static build did: "+t.Err.Detail)
		}
	}
	return in.placed, err
}

// fits reports a build that is not the host's.
func fits(f Facts, b Build) error {
	system, err := f.System()
	if err != nil {
		return err
	}
	if system != b.System {
		return &fault.Error{
			Code: fault.NoAgentBuild, Stage: stage, Who: fault.Local,
			Detail: fmt.Sprintf("the host is %s and the build is for %s", system, b.System),
			Remedy: "make a build for it with: make agents",
		}
	}
	return nil
}

type installer struct {
	run      Runner
	facts    Facts
	build    Build
	progress Progress
	patience
	placed Placed
	sent   atomic.Int64
}

// way is one rung: it places the build, or says why not. A fault whose cause lies in the link or in this client ends the ladder.
type way func(context.Context) error

func (in *installer) ladder(ctx context.Context) error {
	var ways []way
	if in.build.Closure != "" {
		ways = append(ways, in.closureRung)
	}
	if in.facts.Nix.Dir != "" {
		ways = append(ways, in.nix)
	}
	for _, p := range in.facts.Places {
		ways = append(ways, func(ctx context.Context) error { return in.upload(ctx, p) })
	}
	for _, w := range ways {
		err := w(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return interrupted(context.Cause(ctx), "")
		}
		if r, ok := errors.AsType[*refused](err); ok {
			in.placed.Tried = append(in.placed.Tried, r.Refusal)
			continue
		}
		return asFault(err)
	}
	return in.nothing()
}

// refused is a rung that the host did not allow; the next one may do.
type refused struct{ Refusal }

func (r *refused) Error() string { return r.Err.Error() }
func (r *refused) Unwrap() error { return r.Err }

func refuse(rung Rung, place string, err *fault.Error) error {
	err.Stage, err.Who = stage, cmp.Or(err.Who, fault.Host)
	return &refused{Refusal{Rung: rung, Place: place, Err: err}}
}

// nothing is the end of the ladder: one fault that names every place and its reason. Its code is that of the cure that is
// nearest: room, then a place that may execute, then one that may be written to.
func (in *installer) nothing() error {
	var reasons, evidence []string
	codes := map[fault.Code]*fault.Error{}
	for _, t := range in.placed.Tried {
		reasons = append(reasons, fmt.Sprintf("%s: %s", cmp.Or(t.Place, string(t.Rung)), t.Err.Detail))
		if t.Err.Evidence != "" {
			evidence = append(evidence, t.Err.Evidence)
		}
		if codes[t.Err.Code] == nil {
			codes[t.Err.Code] = t.Err
		}
	}
	if in.facts.Nix.Dir == "" {
		reasons = append(reasons, "nix: not there (looked on PATH and where Nix puts itself)")
	}
	end := &fault.Error{
		Code: fault.NotWritable, Stage: stage, Who: fault.Host, Evidence: strings.Join(evidence, " | "),
		Detail: "there is no place for the build: " + strings.Join(reasons, "; "),
		Remedy: "make ~/.local/share/kolu/builds on the host writable, or install Nix there",
	}
	for _, code := range []fault.Code{fault.DiskFull, fault.NoExec, fault.NixDaemonDown, fault.NixRefused, fault.Interrupted, fault.NotWritable} {
		if f := codes[code]; f != nil {
			end.Code, end.Err, end.Remedy = code, f, cmp.Or(f.Remedy, end.Remedy)
			break
		}
	}
	return end
}

// room checks space and inodes of a place, where they are known.
func (in *installer) room(p Place) *fault.Error {
	switch need := in.build.needs(); {
	case p.Free >= 0 && p.Free < need:
		return diskFull(p.Dir, fmt.Sprintf("%s free, %s needed", mib(p.Free), mib(need)))
	case p.Inodes >= 0 && p.Inodes < inodesNeeded:
		return diskFull(p.Dir, fmt.Sprintf("%d inodes free, %d needed", p.Inodes, inodesNeeded))
	}
	return nil
}

func diskFull(dir, how string) *fault.Error {
	return &fault.Error{
		Code: fault.DiskFull, Stage: stage, Who: fault.Host,
		Detail: fmt.Sprintf("no space at %s (%s)", dir, how), Remedy: "make room there; see with: df -h " + dir,
	}
}

func mib(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// newNonce makes the word that marks our lines.
func newNonce() string { return strings.ToLower(rand.Text()) }
