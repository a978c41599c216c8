package mcp

import (
	"context"
	"sync"
	"time"

	"kolu/daemon/padi"
)

const (
	// updateDelay gathers the changes of one terminal into one notice.
	updateDelay = 200 * time.Millisecond
	watchRetry  = time.Second
)

// watcher tells of changed resources. It follows the roster from the first subscription on, until the server ends.
type watcher struct {
	link   *link
	notify func(ctx context.Context, uri string)
	begin  sync.Once
	ctx    context.Context // of run; the server's, not a call's
	cancel context.CancelFunc
	done   chan struct{}
}

func newWatcher(l *link, notify func(ctx context.Context, uri string)) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{link: l, notify: notify, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	return w
}

func (w *watcher) start() {
	w.begin.Do(func() { go w.run() }) // wait ends it
}

// wait ends the watcher and returns when it has ended.
func (w *watcher) wait() {
	w.cancel()
	w.begin.Do(func() { close(w.done) })
	<-w.done
}

func (w *watcher) run() {
	defer close(w.done)
	for w.ctx.Err() == nil {
		w.follow()
		select {
		case <-time.After(watchRetry):
		case <-w.ctx.Done():
		}
	}
}

// follow reads one roster stream to its end and sends notices beside it.
func (w *watcher) follow() {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	changed := make(chan string)
	var wg sync.WaitGroup
	wg.Go(func() { w.tell(ctx, changed) })
	_ = w.link.use(ctx, func(ctx context.Context, conn Conn) error { // the loop above tries again
		return publish(ctx, conn, changed)
	})
	cancel()
	wg.Wait()
}

// publish puts the address of everything that changed on the channel until the stream ends.
func publish(ctx context.Context, ws padi.Workspace, changed chan<- string) error {
	known := map[padi.TerminalID]bool{}
	for ev, err := range ws.Watch(ctx) {
		if err != nil {
			return err
		}
		for _, uri := range addresses(ev, known) {
			select {
			case changed <- uri:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return ctx.Err()
}

// addresses names what an event changed, and keeps known as the set of terminals.
func addresses(ev padi.Event, known map[padi.TerminalID]bool) []string {
	switch ev.Kind {
	case padi.EventSnapshot:
		uris := []string{terminalsURI, urgencyURI}
		for _, r := range ev.Records {
			known[r.ID] = true
			uris = append(uris, terminalURI+string(r.ID))
		}
		return uris
	case padi.EventChanged:
		uri := terminalURI + string(ev.ID)
		if known[ev.ID] {
			return []string{uri, urgencyURI}
		}
		known[ev.ID] = true
		return []string{terminalsURI, uri, urgencyURI}
	case padi.EventRemoved:
		delete(known, ev.ID)
		return []string{terminalsURI, terminalURI + string(ev.ID), urgencyURI}
	case padi.EventActivity:
		return []string{urgencyURI}
	}
	return nil
}

// tell sends one notice for all changes of an address within updateDelay.
func (w *watcher) tell(ctx context.Context, changed <-chan string) {
	pending := map[string]bool{}
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case uri := <-changed:
			pending[uri] = true
			if due == nil {
				due = time.After(updateDelay)
			}
		case <-due:
			for uri := range pending {
				w.notify(ctx, uri)
			}
			clear(pending)
			due = nil
		}
	}
}
