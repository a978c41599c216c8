package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"time"
)

const (
	selfEvery    = 10 * time.Second
	selfDeadline = 5 * time.Second
	selfMisses   = 3
	anchorEvery  = 5 * time.Second
	anchorMisses = 2
	bindEvery    = 2 * time.Second
)

// BindVar names the process that a daemon ends with; tests set it so that no daemon outlives them.
const BindVar = "KOLU_DAEMON_BIND_PID"

// The ways a tenure ends by itself without a fault.
var (
	errDrained    = errors.New("drained")
	errAnchorGone = errors.New("state root is gone")
	errBoundGone  = errors.New("the process this daemon is bound to has ended")
)

// watchSelf asks check whether this daemon can be reached at its own address, every ten seconds with five to answer. It
// returns an error after three misses in a row, and nil when ctx ends. now is the wall clock: a tick that comes much too
// late means that the machine slept, and what was missed then doesn't count.
func watchSelf(ctx context.Context, check func(context.Context) error, now func() time.Time, log *slog.Logger) error {
	misses := 0
	for {
		due := now().Add(selfEvery)
		if !sleep(ctx, selfEvery) {
			return nil
		}
		if now().Sub(due) > 2*selfEvery {
			misses = 0
			continue
		}
		checkCtx, cancel := context.WithTimeout(ctx, selfDeadline)
		err := check(checkCtx)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			misses = 0
			continue
		}
		misses++
		log.Debug("own address does not answer", "err", err, "misses", misses)
		if misses == selfMisses {
			return &faultError{fmt.Errorf("own address did not answer %d times: %w", misses, err)}
		}
	}
}

// watchAnchor returns errAnchorGone when the folder that root names, once seen, was absent twice in a row. Only absence
// counts, since a network file system has many other ways to be unwell. It returns nil when ctx ends.
func watchAnchor(ctx context.Context, root func() string) error {
	pinned, misses := "", 0
	for {
		if pinned == "" {
			if r := root(); r != "" && exists(r) {
				pinned = r
			}
		}
		if !sleep(ctx, anchorEvery) {
			return nil
		}
		if pinned == "" {
			continue
		}
		if _, err := os.Stat(pinned); !errors.Is(err, fs.ErrNotExist) {
			misses = 0
			continue
		}
		if misses++; misses == anchorMisses {
			return errAnchorGone
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// boundProcess reads BindVar: a function that reports whether that process lives, or nil when there is no binding. An empty
// value is an error like any other that is no pid, since "no binding" would let the daemon live for ever.
func boundProcess(lookup func(string) (string, bool)) (alive func() bool, err error) {
	v, ok := lookup(BindVar)
	if !ok {
		return nil, nil
	}
	pid, err := strconv.ParseInt(v, 10, 32)
	if err != nil || pid < 1 || strconv.FormatInt(pid, 10) != v {
		return nil, fmt.Errorf("%s is not a process id: %q", BindVar, v)
	}
	started, startErr := processStart(int(pid))
	mark := processMark(int(pid))
	return func() bool {
		if !processAlive(int(pid)) {
			return false
		}
		if again := processMark(int(pid)); mark != "" && again != "" {
			return again == mark
		}
		now, err := processStart(int(pid))
		return startErr != nil || err != nil || now.Sub(started).Abs() <= startTolerance
	}, nil
}

func watchBound(ctx context.Context, alive func() bool) error {
	for alive() {
		if !sleep(ctx, bindEvery) {
			return nil
		}
	}
	return errBoundGone
}

// sleep waits and reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
