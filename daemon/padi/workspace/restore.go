package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

var _ padi.SessionKeeper = (*Workspace)(nil)

const (
	// startWithin bounds the start of one remembered terminal, so that one that never comes holds up nobody for long.
	startWithin = 30 * time.Second
	// startsAtOnce is how many are started at a time.
	startsAtOnce = 4
)

// Session says what is remembered.
func (w *Workspace) Session(ctx context.Context) (padi.Session, error) {
	records, err := w.Terminals(ctx)
	if err != nil {
		return padi.Session{}, err
	}
	s := padi.Session{Parked: []padi.Record{}}
	for _, rec := range records {
		switch rec.State {
		case padi.Active:
			s.Active++
		case padi.Sleeping:
			s.Sleeping++
		case padi.Parked:
			s.Parked = append(s.Parked, rec)
		}
	}
	if w.opt.Store != nil {
		s.Path = w.opt.Store.Path()
	}
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	s.SavedAt = w.kept.at
	if w.kept.err != nil {
		s.Problem = w.kept.err.Error()
	}
	return s, nil
}

// Restore starts parked terminals. Each is on its own: what keeps one from starting keeps no other.
func (w *Workspace) Restore(ctx context.Context, req padi.RestoreRequest) (padi.Restored, error) {
	if err := w.ready(ctx); err != nil {
		return padi.Restored{}, err
	}
	ids, missing := w.reg.parked(req.IDs)
	done := padi.Restored{Terminals: []padi.Restart{}, Failed: []padi.RestoreFailure{}}
	for _, id := range missing {
		done.Failed = append(done.Failed, padi.RestoreFailure{ID: id, Reason: noTerminal(id).Error()})
	}
	results := make([]error, len(ids))
	starts := make([]*padi.Restart, len(ids))
	slots := make(chan struct{}, startsAtOnce)
	var all sync.WaitGroup
	for i, id := range ids {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			starts[i], results[i] = w.startAgain(ctx, id, padi.Parked, req.Declines(id))
		})
	}
	all.Wait()
	for i, id := range ids {
		switch {
		case results[i] != nil:
			done.Failed = append(done.Failed, padi.RestoreFailure{ID: id, Reason: results[i].Error()})
		case starts[i] != nil:
			done.Terminals = append(done.Terminals, *starts[i])
		}
	}
	w.save()
	return done, nil
}

// startAgain starts a terminal that is remembered in a state, under its id. It gives nil when somebody else does so already, and when
// the terminal was given up while it started.
func (w *Workspace) startAgain(ctx context.Context, id padi.TerminalID, state padi.State, declined bool) (*padi.Restart, error) {
	rec, ok := w.reg.claim(id, state, declined)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("it did not start within %v", startWithin))
	defer cancel()
	cwd, notes := placeOf(rec)
	if rec.ParentID != "" && w.reg.orphaned(id) {
		notes = append(notes, "what it was a split of is gone; it is a tile of its own")
	}
	t, plan, err := w.startShell(ctx, id, cwd, kaval.Size{})
	if err != nil {
		w.reg.release(id)
		if cause := context.Cause(ctx); errors.Is(err, context.DeadlineExceeded) && cause != nil {
			err = cause
		}
		return nil, err
	}
	if !w.reg.started(t) {
		w.endUnwanted(t.ID)
		return nil, nil
	}
	start := &padi.Restart{ID: id, PID: t.PID, Notes: notes}
	if rec.Resume != nil {
		err := w.typeLine(ctx, plan, id, rec.Resume.Command)
		w.sent(ctx, padi.SendCreate, id, []byte(rec.Resume.Command), err)
		if err != nil {
			start.Notes = append(start.Notes, "its agent was not gone on with: "+err.Error())
		} else {
			start.Resumed = rec.Resume.Command
		}
	}
	return start, nil
}

// placeOf is where a remembered terminal starts.
func placeOf(rec padi.Record) (cwd string, notes []string) {
	if rec.CWD == "" {
		return "", nil
	}
	if info, err := os.Stat(rec.CWD); err != nil || !info.IsDir() {
		return "", []string{"its folder is gone: " + rec.CWD}
	}
	return rec.CWD, nil
}

// endUnwanted ends a terminal whose record was given up while it started.
func (w *Workspace) endUnwanted(id padi.TerminalID) {
	ctx, cancel := context.WithTimeout(context.Background(), kaval.KillDeadline)
	defer cancel()
	if err := w.opt.Kaval.Kill(ctx, id); err != nil {
		w.log.Warn("terminal that nobody wants runs", "id", id, "err", err)
	}
}

// Sleep puts a terminal to sleep: on disk first, then its programs end. That they could not be ended is logged, and made good when
// kaval is followed anew.
func (w *Workspace) Sleep(ctx context.Context, id padi.TerminalID) (padi.Record, error) {
	if err := w.ready(ctx); err != nil {
		return padi.Record{}, err
	}
	rec, ran, err := w.reg.sleep(id)
	if err != nil || !ran {
		return rec, err
	}
	if err := w.Save(); err != nil {
		w.reg.unsleep(id)
		w.refresh(ctx, id)
		return padi.Record{}, fmt.Errorf("sleep %s: %w", id.Short(), err)
	}
	if err := w.opt.Kaval.Kill(ctx, id); err != nil && !errors.Is(err, kaval.ErrNoTerminal) && !errors.Is(err, kaval.ErrGone) {
		w.log.Warn("sleeping terminal still runs", "id", id, "err", err)
	}
	return rec, nil
}

// refresh takes what kaval says of one terminal.
func (w *Workspace) refresh(ctx context.Context, id padi.TerminalID) {
	live, err := w.opt.Kaval.List(ctx)
	if err != nil {
		return // the events will say
	}
	if i := slices.IndexFunc(live, func(t kaval.Terminal) bool { return t.ID == id }); i >= 0 {
		w.reg.fold(live[i])
	}
}

// Wake starts a sleeping terminal again. One that can't be started sleeps on.
func (w *Workspace) Wake(ctx context.Context, id padi.TerminalID, req padi.WakeRequest) (padi.Restart, error) {
	rec, err := w.Terminal(ctx, id)
	switch {
	case err != nil:
		return padi.Restart{}, err
	case rec.State == padi.Parked:
		return padi.Restart{}, fmt.Errorf("%w: %s is parked, not asleep: restore it", kaval.ErrRefused, id.Short())
	case rec.State == padi.Active:
		return padi.Restart{ID: id, PID: rec.PID}, nil
	}
	start, err := w.startAgain(ctx, id, padi.Sleeping, req.NoResume)
	if err != nil {
		return padi.Restart{}, fmt.Errorf("wake %s: %w", id.Short(), err)
	}
	w.save()
	if start == nil {
		return padi.Restart{}, fmt.Errorf("%w: %s is being started or was given up", kaval.ErrRefused, id.Short())
	}
	return *start, nil
}

// Rename sets an intent.
func (w *Workspace) Rename(ctx context.Context, id padi.TerminalID, req padi.RenameRequest) (padi.Record, error) {
	if err := req.Check(); err != nil {
		return padi.Record{}, err
	}
	if err := w.ready(ctx); err != nil {
		return padi.Record{}, err
	}
	rec, err := w.reg.rename(id, req.Intent)
	if err == nil {
		w.save() // kaval does not know it, so a crash right after the answer would lose it
	}
	return rec, err
}

// Forget gives up the parked terminals, with a backup of them.
func (w *Workspace) Forget(ctx context.Context) (padi.Forgotten, error) {
	if err := w.ready(ctx); err != nil {
		return padi.Forgotten{}, err
	}
	ids, _ := w.reg.parked(nil)
	if len(ids) == 0 {
		return padi.Forgotten{}, nil
	}
	name, err := w.backup()
	if err != nil {
		return padi.Forgotten{}, fmt.Errorf("nothing was forgotten: %w", err)
	}
	n := w.reg.forgetParked(ids)
	w.save()
	return padi.Forgotten{Count: n, Backup: name}, nil
}

// Backups lists the sessions that are kept.
func (w *Workspace) Backups(context.Context) ([]padi.Backup, error) {
	if w.opt.Store == nil {
		return []padi.Backup{}, nil
	}
	w.saving.Lock()
	defer w.saving.Unlock()
	return w.opt.Store.Backups()
}

// Recall brings the terminals of a backup back, parked beside what there is. The session as it is goes into the backups first.
func (w *Workspace) Recall(ctx context.Context, name string) (padi.Recalled, error) {
	if err := w.ready(ctx); err != nil {
		return padi.Recalled{}, err
	}
	if w.opt.Store == nil {
		return padi.Recalled{}, fmt.Errorf("%w: %q", padi.ErrNoBackup, name)
	}
	w.saving.Lock()
	terminals, err := w.opt.Store.Recall(name)
	w.saving.Unlock()
	if err != nil {
		return padi.Recalled{}, err
	}
	if _, err := w.backup(); err != nil {
		return padi.Recalled{}, fmt.Errorf("nothing was recalled: %w", err)
	}
	parked, known := w.reg.recall(terminals)
	w.save()
	if parked == nil {
		parked = []padi.Record{}
	}
	return padi.Recalled{Parked: parked, Known: known}, nil
}
