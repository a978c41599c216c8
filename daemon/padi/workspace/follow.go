package workspace

import (
	"context"
	"errors"
	"slices"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// A lost line to kaval is made again after firstRetry; each attempt that fails doubles the pause up to maxRetry.
const (
	firstRetry   = time.Second
	maxRetry     = 30 * time.Second
	probeTimeout = 5 * time.Second
)

// follow folds kaval's events into the registry, over as many lines as it takes.
func (w *Workspace) follow(ctx context.Context) {
	pause := firstRetry
	for {
		if w.followOnce(ctx) {
			pause = firstRetry
		} else {
			pause = min(2*pause, maxRetry)
		}
		w.reg.setConnected(false)
		w.settle()
		if !w.retry(ctx, pause) {
			return
		}
	}
}

// retry waits until the pause is over and a kaval answers; a kaval that does not is no failed attempt, so the pause stays. It
// reports false when ctx ends.
func (w *Workspace) retry(ctx context.Context, pause time.Duration) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		_, err := w.opt.Kaval.List(probe)
		cancel()
		if err == nil {
			return true
		}
		w.log.Debug("kaval does not answer", "err", err)
	}
}

// followOnce follows one line to its end and reports whether it ever carried anything.
func (w *Workspace) followOnce(ctx context.Context) (connected bool) {
	// Read before kaval is asked: what is created in the meantime is not missing from the answer.
	candidates, last := w.reg.candidates()
	for ev, err := range w.opt.Kaval.Watch(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				w.log.Warn("line to kaval lost", "err", err)
			}
			break
		}
		if ev.Kind == kaval.EventSnapshot {
			if w.reg.isFrozen() {
				return false // what this kaval holds will be asked again
			}
			now := w.instance(ctx)
			w.reconcile(ctx, ev.Terminals, candidates, now != "" && last == now)
			connected, candidates = true, w.reg.activeIDs()
			w.reg.pair(now)
			last = now
			w.reg.setConnected(true)
			w.lineIsUp(now)
			w.settle()
			w.log.Info("following kaval", "kaval", now, "terminals", len(ev.Terminals))
			continue
		}
		w.take(ev)
	}
	return connected
}

// instance names the kaval process that answers now; empty where nothing tells one from another.
func (w *Workspace) instance(ctx context.Context) string {
	if w.opt.Instance == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	name, err := w.opt.Instance(ctx)
	if err != nil {
		w.log.Warn("kaval does not say which one it is", "err", err)
		return ""
	}
	return name
}

// reconcile takes a whole inventory. A terminal that is missing ended while nobody looked if kaval is the same as before;
// otherwise it went with its kaval and is kept to be restored.
func (w *Workspace) reconcile(ctx context.Context, live []kaval.Terminal, candidates []padi.TerminalID, same bool) {
	for _, t := range live {
		w.reg.fold(t)
	}
	w.endStrays(ctx, live)
	for _, id := range candidates {
		missing := !slices.ContainsFunc(live, func(t kaval.Terminal) bool { return t.ID == id })
		switch {
		case missing && same:
			w.reg.end(id, nil)
		case missing:
			w.reg.park(id)
		}
	}
}

func (w *Workspace) take(ev kaval.Event) {
	switch ev.Kind {
	case kaval.EventCreated, kaval.EventChanged:
		if ev.Terminal != nil {
			w.reg.fold(*ev.Terminal)
		}
	case kaval.EventActivity:
		w.reg.active(ev.ID, ev.At)
	case kaval.EventExited:
		w.reg.exited(ev.ID, ev.ExitCode)
	}
}

// endStrays ends what runs although it was put to sleep.
func (w *Workspace) endStrays(ctx context.Context, live []kaval.Terminal) {
	for _, id := range w.reg.strays(live) {
		if err := w.opt.Kaval.Kill(ctx, id); err != nil && ctx.Err() == nil {
			w.log.Warn("sleeping terminal still runs", "id", id, "err", err)
		}
	}
}

// answered reports whether an error is kaval's own word, so that what was asked for was not done.
func answered(err error) bool {
	return kaval.Code(err) != "internal" && !errors.Is(err, kaval.ErrClosing)
}
