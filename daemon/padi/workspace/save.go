package workspace

import (
	"context"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/session"
)

const (
	// saveAfter is how long after the first change the session is saved. It is not put off by further changes, or a busy agent
	// would keep it from ever being saved; what is written is the state at that time.
	saveAfter = 500 * time.Millisecond
	// saveAgain is how long after a save that failed, on a full disk say, it is tried again.
	saveAgain = 5 * time.Second
)

func (w *Workspace) loadSession() error {
	if w.opt.Store == nil {
		return nil
	}
	saved, err := w.opt.Store.Load()
	if err != nil {
		return err
	}
	w.reg.seed(saved)
	w.loaded.Store(true)
	return nil
}

func (w *Workspace) autosave(ctx context.Context) {
	pause := saveAfter
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.reg.dirty:
		}
		select {
		case <-ctx.Done():
			w.reg.markDirty() // for the last save
			return
		case <-time.After(pause):
		}
		pause = saveAfter
		if !w.save() {
			pause = saveAgain
			w.reg.markDirty()
		}
	}
}

// saveSession is the last save.
func (w *Workspace) saveSession() {
	select {
	case <-w.reg.dirty:
		w.save()
	default:
	}
}

func (w *Workspace) save() bool {
	err := w.Save()
	if err != nil {
		w.log.Error("session not saved", "err", err)
	}
	return err == nil
}

// Save writes the session now, whatever a later autosave will do. Before the session was taken over there is nothing to write.
func (w *Workspace) Save() error {
	if w.opt.Store == nil || !w.loaded.Load() {
		return nil
	}
	w.saving.Lock() // the store is for one caller at a time, and the newer snapshot must be the last written
	defer w.saving.Unlock()
	return w.opt.Store.Save(w.reg.snapshot())
}

// snapshot is the registry as it is kept.
func (r *registry) snapshot() []session.Terminal {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]session.Terminal, 0, len(r.order))
	for _, id := range r.order {
		out = append(out, saved(r.entries[id].rec))
	}
	return out
}

func saved(rec padi.Record) session.Terminal {
	return session.Terminal{
		ID: rec.ID, State: rec.State, ParentID: rec.ParentID, Intent: rec.Intent, CWD: rec.CWD, Git: rec.Git,
		LastCommand: rec.LastCommand, Resume: rec.Resume, LastActivityAt: rec.LastActivityAt, CreatedAt: rec.CreatedAt,
	}
}
