package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// insist is how long a process may take to be gone after SIGKILL.
const insist = 5 * time.Second

// Stop ends the daemon of a home, with everything that it holds: it is asked, and after grace, in which one that hangs does nothing, it
// is killed. Who that is, is said by the gate: the process that wrote it and lives, never one by its name. Where no such process is,
// there is nothing to do. ctx bounds the asking; once killed, the end is waited for.
func Stop(ctx context.Context, h Home, grace time.Duration) error {
	who, err := readGate(h.Gate())
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errMalformedGate):
		return nil
	case err != nil:
		return fmt.Errorf("stop %s: %w", h.Kind.Name, err)
	case who.started.IsZero():
		return fmt.Errorf("stop %s: its gate %s does not say which process of pid %d is meant", h.Kind.Name, h.Gate(), who.pid)
	}
	for _, step := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, insist}} {
		if !who.alive() {
			return nil
		}
		if err := syscall.Kill(who.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s: signal process %d: %w", h.Kind.Name, who.pid, err)
		}
		if who.gone(ctx, step.within) {
			return nil
		}
		if ctx.Err() != nil && step.signal == syscall.SIGTERM {
			return fmt.Errorf("stop %s: %w", h.Kind.Name, context.Cause(ctx))
		}
	}
	return fmt.Errorf("stop %s: process %d does not end", h.Kind.Name, who.pid)
}

// gone waits for the end of a process.
func (h holder) gone(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for pause := pollFirst; h.alive(); pause = min(2*pause, pollMost) {
		if !sleep(ctx, pause) {
			return !h.alive()
		}
	}
	return true
}
