// Package ptyhost does the work of a kaval: it owns the terminals of one machine. [Host] implements kaval.Host; package kavalrpc
// serves it, and tests use it in process. It knows no HTTP and writes nothing to disk but the init files of a spawn.
//
// # How a terminal works
//
// One goroutine reads a terminal's bytes (terminal.go). Under the terminal's lock it feeds the screen, appends to a ring of
// recent output, and wakes whoever waits; then it answers what the program asked of its terminal (input.go) and passes on what
// the program said besides drawing (taps.go). Nobody who reads is ever waited for: an attachment (attach.go), a wait (wait.go)
// and a watch (watch.go) each hold a position and fetch from there; one whose position has left the ring is given a fresh
// snapshot. A reader therefore costs no memory of its own.
//
// # Locks
//
// terminal.mu guards a terminal's screen, ring and grid; Host.mu guards the inventory, its records and the watchers. Host.mu may be
// taken under terminal.mu, never the other way round, and neither is held across a system call that can block.
package ptyhost

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"kolu/daemon/kaval"
)

// Options say how a Host is reached and what it gives its terminals. Every field may be empty.
type Options struct {
	Log *slog.Logger
	// Socket and PadiSocket are stamped into every terminal as KAVAL_SOCKET and PADI_SOCKET.
	Socket     string
	PadiSocket string
	// ToolsDir is the directory that the PATH of every terminal begins with.
	ToolsDir string
	// RunDir is a directory of this daemon alone; the init files of a spawn live below it, and what a daemon that crashed
	// left of them is removed. Empty means the system's directory for temporary files.
	RunDir string
	// Environ is the daemon's environment; nil means os.Environ().
	Environ []string
	// Version is what terminals answer when a program asks for their version.
	Version string
}

// Host owns terminals. Its methods are those of kaval.Host.
type Host struct {
	opts    Options
	log     *slog.Logger
	user    account
	closing chan struct{}
	readers sync.WaitGroup // one for each goroutine of each terminal

	// What a hand-over brings to rest, in this order; see handoff.go.
	frozen   sync.Mutex // held from Freeze to the end of it
	ops      gate       // spawns, kills, changes of the size, new attachments
	reaps    gate       // from the exit code of a program to the end of its terminal
	writes   gate       // input
	attached gate       // attachments that are not closed

	mu       sync.Mutex
	closed   bool
	live     map[kaval.TerminalID]*terminal // nil while a spawn holds the id
	order    []*terminal                    // live ones by spawn
	tombs    tombstones
	watchers map[*watcher]struct{}
	moving   chan struct{} // closed when another build takes over
}

var _ kaval.Host = (*Host)(nil)

// New makes a Host without terminals. Close ends it.
func New(o Options) *Host {
	if o.RunDir != "" {
		clearInitFiles(o.RunDir)
	}
	return newHost(o)
}

func newHost(o Options) *Host {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.RunDir == "" {
		o.RunDir = os.TempDir()
	}
	return &Host{
		opts: o, log: o.Log, user: whoami(o.Environ), closing: make(chan struct{}),
		live: map[kaval.TerminalID]*terminal{}, watchers: map[*watcher]struct{}{},
		moving: make(chan struct{}),
	}
}

// Close kills every terminal with all its processes and waits until they have ended; waits that are under way answer Closed.
// It may be called more than once.
func (h *Host) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
	}
	doomed := append([]*terminal(nil), h.order...)
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), kaval.KillDeadline)
	defer cancel()
	h.readers.Go(func() { h.killNow(ctx, doomed) })
	over := make(chan struct{})
	go func() { // outlives Close only when the system cannot end a process
		h.readers.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
		h.log.Error("terminals did not end", "after", kaval.KillDeadline)
	}
}

// Info says what a spawner must know.
func (h *Host) Info(ctx context.Context) (kaval.Info, error) {
	return kaval.Info{
		Shell: h.user.shell, Home: h.user.home, User: h.user.name, Path: kaval.CleanEnv(h.opts.Environ)["PATH"],
		OS: runtime.GOOS, Arch: runtime.GOARCH, Socket: h.opts.Socket, ToolsDir: h.opts.ToolsDir,
	}, ctx.Err()
}

// List gives the live terminals in the order of their spawns. No terminal's output can hold it up.
func (h *Host) List(ctx context.Context) ([]kaval.Terminal, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records(), ctx.Err()
}

// records gives the records of all live terminals; h.mu is held.
func (h *Host) records() []kaval.Terminal {
	now := time.Now()
	list := make([]kaval.Terminal, len(h.order))
	for i, t := range h.order {
		list[i] = t.record(now)
	}
	return list
}

// find gives a live terminal, or ErrGone with what is known of one that ended, or ErrNoTerminal.
func (h *Host) find(ctx context.Context, id kaval.TerminalID) (*terminal, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.live[id]; t != nil {
		return t, nil
	}
	if tomb, ok := h.tombs.find(id); ok {
		return nil, gone(id, tomb.code)
	}
	return nil, fmt.Errorf("%w: %s", kaval.ErrNoTerminal, printableID(id))
}

func gone(id kaval.TerminalID, code int) error {
	return &kaval.GoneError{ID: id, ExitCode: code}
}

func printableID(id kaval.TerminalID) string {
	if len(id) > maxID {
		id = id[:maxID]
	}
	return fmt.Sprintf("%q", string(id))
}

// add puts a started terminal into the inventory, in the place that claim held for it.
func (h *Host) add(t *terminal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[t.id] = t
	h.order = append(h.order, t)
	now := time.Now()
	rec := t.record(now)
	h.publish(kaval.Event{Kind: kaval.EventCreated, ID: t.id, Terminal: &rec, At: now.UnixMilli()})
}

// remove takes an ended terminal out of the inventory and remembers its exit code.
func (h *Host) remove(t *terminal, code int, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, t.id)
	for i, other := range h.order {
		if other == t {
			h.order = append(h.order[:i:i], h.order[i+1:]...)
			break
		}
	}
	h.tombs.add(tombstone{id: t.id, code: code, offset: t.offset.Load()})
	h.publish(kaval.Event{Kind: kaval.EventExited, ID: t.id, ExitCode: &code, At: at.UnixMilli()})
}

// tombstone is what is remembered of a terminal that ended.
type tombstone struct {
	id     kaval.TerminalID
	code   int
	offset int64
}

// tombstones are the last kaval.Tombstones of them.
type tombstones struct {
	byID  map[kaval.TerminalID]tombstone
	order []kaval.TerminalID
}

func (ts *tombstones) find(id kaval.TerminalID) (tombstone, bool) {
	tomb, ok := ts.byID[id]
	return tomb, ok
}

func (ts *tombstones) add(tomb tombstone) {
	if ts.byID == nil {
		ts.byID = map[kaval.TerminalID]tombstone{}
	}
	ts.drop(tomb.id)
	ts.byID[tomb.id] = tomb
	ts.order = append(ts.order, tomb.id)
	if len(ts.order) > kaval.Tombstones {
		delete(ts.byID, ts.order[0])
		ts.order = append(ts.order[:0], ts.order[1:]...)
	}
}

// drop forgets an id that is used anew.
func (ts *tombstones) drop(id kaval.TerminalID) {
	if _, ok := ts.byID[id]; !ok {
		return
	}
	delete(ts.byID, id)
	for i, other := range ts.order {
		if other == id {
			ts.order = append(ts.order[:i], ts.order[i+1:]...)
			return
		}
	}
}
