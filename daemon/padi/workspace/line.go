package workspace

import (
	"context"
	"fmt"
	"sync"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

var (
	_ padi.KavalRestarter = (*Workspace)(nil)
	_ padi.KavalUpgrader  = (*Workspace)(nil)
)

// lineState is what is told of the line to kaval.
type lineState struct {
	mu       sync.Mutex
	last     string // the kaval at the other end, when there was a line
	wanted   bool   // that the line breaks next is no news: it was asked for
	restored int64
}

// lineIsUp takes a line that leads to a kaval. One to the same kaval as before was only lost, and with it nothing.
func (w *Workspace) lineIsUp(now string) {
	l := &w.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if now != "" && l.last == now && !l.wanted {
		l.restored = time.Now().UnixMilli()
		w.log.Info("line to kaval made again", "kaval", now)
	}
	l.last, l.wanted = now, false
}

// Kaval says how padi's kaval is, and what padi last did about it.
func (w *Workspace) Kaval(context.Context) (padi.KavalStatus, error) {
	status := padi.KavalStatus{State: "connecting"}
	switch {
	case w.opt.Status != nil:
		status = w.opt.Status()
	case w.reg.isConnected():
		status.State = "connected"
	}
	w.line.mu.Lock()
	status.LineRestoredAt = w.line.restored
	w.line.mu.Unlock()
	parked, _ := w.reg.parked(nil)
	status.Parked, status.At = len(parked), time.Now().UnixMilli()
	return status, nil
}

// Freeze parks every terminal that runs, saves the session, and takes nothing for news that the kaval there is says until thaw is
// called: that its terminals end is not that their users left them. Several may freeze at once; each thaws only its own.
func (w *Workspace) Freeze() (thaw func()) {
	lease := w.reg.freeze()
	if err := w.Save(); err != nil {
		w.log.Error("session not saved", "err", err)
	}
	return sync.OnceFunc(func() { w.reg.thaw(lease) })
}

// RestartKaval puts another kaval in the place of the one that runs. Its terminals are parked.
func (w *Workspace) RestartKaval(ctx context.Context) (padi.KavalStatus, error) {
	if w.opt.Restart == nil {
		return padi.KavalStatus{}, fmt.Errorf("%w: this padi cannot restart its kaval", kaval.ErrRefused)
	}
	if _, err := w.opt.Restart(ctx); err != nil {
		return padi.KavalStatus{}, err
	}
	return w.Kaval(ctx)
}

// UpgradeKaval makes kaval this padi's build. The line to it is lost for a moment; the terminals are the same.
func (w *Workspace) UpgradeKaval(ctx context.Context) (padi.KavalStatus, error) {
	if w.opt.Upgrade == nil {
		return padi.KavalStatus{}, fmt.Errorf("%w: this padi cannot upgrade its kaval", kaval.ErrRefused)
	}
	w.line.mu.Lock()
	w.line.wanted = true
	w.line.mu.Unlock()
	return w.opt.Upgrade(ctx)
}
