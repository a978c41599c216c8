// Package provision gets the build of kolu onto a host and keeps it there.
//
// fleet calls it: [Catalog.Line] is the one line that either starts the front of a build that is there already or says what
// the host is; [ParseFacts] reads that; [Install] brings the bytes over by the first way that the host allows; [StartLine]
// starts what was placed. On this machine, [Local] gives the directory that the daemons are started from.
//
// It knows what a host is and what Nix is, and nothing of ssh: it is handed a [Runner]. It never stops or replaces a
// daemon. Package nix, below, has the archive, the path and the protocol. Start reading at [Install].
package provision

import (
	"context"
	"io"
	"sync"

	"kolu/internal/fault"
)

// Runner starts commands on a host. Each Start is one command line for the login shell there.
type Runner interface {
	Start(ctx context.Context, line string) (Process, error)
}

// Process is one command that runs on a host. ctx of Start bounds the starting alone; the process lives until it ends or
// Close.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.ReadCloser
	// Stderr is the tail of what the process printed there, always drained; it is complete once Wait has returned.
	Stderr() string
	// Wait waits for the end. It gives nil for exit status 0.
	Wait() error
	// Close ends the process, as far as that is possible, and frees what it held. It may be called at any time and twice.
	Close() error
}

// Step is how far an installation got. Total is 0 where it is not known.
type Step struct {
	Stage string // one of the stages below
	Done  int64
	Total int64
}

// The stages of an installation.
const (
	StageCheck  = "check"  // asking what is there
	StageSend   = "send"   // bytes are going over
	StageVerify = "verify" // the host is judging what it got
	StageRoot   = "root"   // keeping it from the garbage collector
)

// Progress is told of each step, one at a time. It must return soon; nil is allowed.
type Progress func(Step)

// oneByOne makes a Progress that several goroutines may tell, and that tells nothing more once done was called.
func (p Progress) oneByOne() (tell Progress, done func()) {
	if p == nil {
		return nil, func() {}
	}
	var mu sync.Mutex
	ended := false
	return func(s Step) {
			mu.Lock()
			defer mu.Unlock()
			if !ended {
				p(s)
			}
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			ended = true
		}
}

func (p Progress) tell(stage string, done, total int64) {
	if p != nil {
		p(Step{Stage: stage, Done: done, Total: total})
	}
}

// Rung names a way to place a build, as status shows it.
type Rung string

// The rungs, in the order that Install tries them.
const (
	Valid    Rung = "valid"     // it was there
	Nix      Rung = "nix"       // through nix-store --serve
	AddFixed Rung = "add-fixed" // through nix-store --add-fixed
	Closure  Rung = "closure"   // a path with references, as the user named it
	Upload   Rung = "upload"    // a file of the user's own
)

// Placed is a build that stands on a host.
type Placed struct {
	Rung Rung
	// Bin is the directory over there that holds the six names.
	Bin string
	// Root is the link that keeps a store path from being collected, or "".
	Root string
	// Tried are the ways that the host did not allow, in order.
	Tried []Refusal
	// Sent counts the bytes that went to the host's stdin.
	Sent int64
	// Warnings are sentences for the user about what is less than it should be.
	Warnings []string
}

// Refusal is one way that did not work and why.
type Refusal struct {
	Rung  Rung
	Place string // where, when that is a choice
	Err   *fault.Error
}
