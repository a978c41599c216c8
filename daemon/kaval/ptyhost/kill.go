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

// killNow is a kill without any patience, for the end of the host.
func (t *terminal) killNow(ctx context.Context) {
	if err := t.end(ctx, t.proc.KillNow); err != nil {
		t.host.log.Warn("kill terminal", "terminal", t.id, "err", err)
	}
}

func (t *terminal) end(ctx context.Context, kill func(context.Context, string) []pty.Proc) error {
	left := kill(ctx, "KAVAL_TERMINAL_ID="+string(t.id))
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
