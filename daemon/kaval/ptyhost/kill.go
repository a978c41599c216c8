package ptyhost

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/pty"
)

// Kill ends every process of the terminal and returns when the terminal has left the inventory.
func (h *Host) Kill(ctx context.Context, id kaval.TerminalID) error {
	if err := h.ops.enter(ctx, nil); err != nil {
		return err
	}
	defer h.ops.leave()
	t, err := h.find(ctx, id)
	if errors.Is(err, kaval.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	// The caller may leave, but a kill that has begun is not left half done.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), kaval.KillDeadline)
	defer cancel()
	return t.end(within, t.proc.Kill)
}

// killNow is a kill of any number of terminals without any patience, for the end of the host.
func (h *Host) killNow(ctx context.Context, doomed []*terminal) {
	marks := map[int]string{}
	for _, t := range doomed {
		select {
		case <-t.done: // its leader's id may be another process's
		default:
			marks[t.proc.PID] = t.mark()
		}
	}
	for _, p := range pty.KillNow(ctx, marks) {
		h.log.Warn("process survived", "process", p.String())
	}
	for _, t := range doomed {
		select {
		case <-t.done:
		case <-ctx.Done():
			return
		}
	}
}

// mark is what the environment of the terminal's processes has and that of no other.
func (t *terminal) mark() string { return "KAVAL_TERMINAL_ID=" + string(t.id) }

func (t *terminal) end(ctx context.Context, kill func(context.Context, string) []pty.Proc) error {
	left := kill(ctx, t.mark())
	if len(left) == 0 {
		select {
		case <-t.done:
			return nil
		case <-ctx.Done():
		}
	}
	names := make([]string, len(left))
	for i, p := range left {
		names[i] = p.String()
	}
	return fmt.Errorf("%w of terminal %s after %v: %s", kaval.ErrSurvivors, t.id.Short(), kaval.KillDeadline, strings.Join(names, ", "))
}
