package workspace

import (
	"context"
	"sync"
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

// backupEvery is how often the session is put into the backups, beside each start and what may lose something.
const backupEvery = 24 * time.Hour

// saveState is how the last save went.
type saveState struct {
	mu sync.Mutex
	at int64 // when it was, in milliseconds since 1970
	// err is why the last try failed.
	err error
}

func (s *saveState) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err == nil {
		s.at = time.Now().UnixMilli()
	}
}

func (w *Workspace) loadSession() error {
	if w.opt.Store == nil {
		return nil
	}
	if _, err := w.opt.Store.Backup(); err != nil { // before anything is written; it costs nobody the start
		w.log.Error("session not backed up", "err", err)
	}
	saved, err := w.opt.Store.Load()
	if err != nil {
		return err
	}
	w.reg.seed(saved)
	w.kept.at = saved.At // nobody asks yet
	w.loaded.Store(true)
	return nil
}

func (w *Workspace) autosave(ctx context.Context) {
	pause := saveAfter
	daily := time.NewTicker(backupEvery)
	defer daily.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-daily.C:
			if _, err := w.backup(); err != nil {
				w.log.Error("session not backed up", "err", err)
			}
			continue
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

// save writes the session, unless somebody is putting another kaval in the place of the one there is: then what was saved before
// that stays until it is over, which makes the session one to be saved.
func (w *Workspace) save() bool {
	if w.reg.isFrozen() {
		return true
	}
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
	err := w.opt.Store.Save(w.reg.snapshot())
	w.kept.set(err)
	return err
}

// backup puts the session as it is now into the backups.
func (w *Workspace) backup() (name string, err error) {
	if w.opt.Store == nil {
		return "", nil
	}
	if err := w.Save(); err != nil {
		return "", err
	}
	w.saving.Lock()
	defer w.saving.Unlock()
	return w.opt.Store.Backup()
}

// snapshot is the registry as it is kept.
func (r *registry) snapshot() session.Saved {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := session.Saved{Kaval: r.paired, Terminals: make([]session.Terminal, 0, len(r.order))}
	for _, id := range r.order {
		t := saved(r.entries[id].rec)
		if r.doubtful[id] {
			t.State, t.ParkedAt = padi.Active, 0
		}
		out.Terminals = append(out.Terminals, t)
	}
	return out
}

func saved(rec padi.Record) session.Terminal {
	return session.Terminal{
		ID: rec.ID, State: rec.State, ParentID: rec.ParentID, Intent: rec.Intent, CWD: rec.CWD, Git: rec.Git,
		LastCommand: rec.LastCommand, Resume: rec.Resume, LastActivityAt: rec.LastActivityAt, CreatedAt: rec.CreatedAt,
		SleptAt: rec.SleptAt, ParkedAt: rec.ParkedAt,
	}
}
