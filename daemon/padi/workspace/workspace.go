// Package workspace is the work of padi: it follows a kaval, knows where each of its terminals belongs, and folds what kaval and
// the sensors see into one roster. cli/padicmd makes one with [New] and runs it; padirpc serves it. It owns no terminal and no
// socket: the kaval.Host is handed in. Start reading at [Workspace.Run].
//
// # How it is cut
//
// The registry (registry.go, and dormant.go for what does not run) is the one thing with a lock; nothing that may block is called with
// it held. follow.go carries kaval's events into it, git.go looks at checkouts, save.go writes the session, restore.go starts
// again what it remembers, watch.go hands the roster out, wait.go waits for agents, create.go makes terminals.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/session"
)

// Store keeps the registry; session.Store is one. All but Path are asked by one caller at a time.
type Store interface {
	Load() (session.Saved, error)
	Save(session.Saved) error
	Backup() (name string, err error)
	Backups() ([]padi.Backup, error)
	Recall(name string) ([]session.Terminal, error)
	Path() string
}

// Options are what a workspace is made of. Kaval and Log must be set.
type Options struct {
	Kaval kaval.Host
	// Status says how kaval is; without it the workspace tells only whether its own line holds.
	Status func() padi.KavalStatus
	// Instance names the kaval process that answers now, so that terminals which ended while the line was lost are told from
	// those that went with their kaval. Without it every missing terminal is kept, parked.
	Instance func(ctx context.Context) (string, error)
	// Upgrade makes kaval this padi's build in place. Nil refuses it.
	Upgrade func(ctx context.Context) (padi.KavalStatus, error)
	// Restart puts another kaval in the place of the one that runs; it asks for the freeze of this workspace itself. Nil refuses it.
	Restart func(ctx context.Context) (padi.KavalStatus, error)
	Store   Store // nil keeps nothing
	// Detectors know the agents; without one, only what an agent says of itself is known.
	Detectors []agents.Detector
	// WatchRepos makes what tells of changes in repositories. Without it they are looked at every few seconds.
	WatchRepos func() (RepoWatch, error)
	Forge      Forge    // nil knows no pull requests
	Record     Record   // nil keeps none
	Ports      PortScan // nil knows no ports
	// Environ is the environment that terminals get the allowed part of, usually os.Environ().
	Environ []string
	// Agent is the socket of an ssh agent that is forwarded to this host, empty while none is; nil never has one. Terminals get it
	// where Environ has no agent.
	Agent func() string
	// Version is what terminals see as TERM_PROGRAM_VERSION.
	Version string
	Log     *slog.Logger
}

// Workspace is a padi.Workspace over a kaval.
type Workspace struct {
	opt     Options
	log     *slog.Logger
	reg     registry
	settled chan struct{} // closed when kaval was listed once, or found to be down
	settle  func()
	done    chan struct{} // closed when Run ends
	git     *gitSensor
	prs     *prSensor
	ports   *portSensor
	agents  *agents.Tracker
	turns   turns
	saving  sync.Mutex
	loaded  atomic.Bool // the session was taken over
	kept    saveState
	line    lineState
}

var _ padi.Workspace = (*Workspace)(nil)

// New makes a workspace; [Workspace.Run] must run for it to answer.
func New(opt Options) *Workspace {
	w := &Workspace{
		opt: opt, log: opt.Log,
		settled: make(chan struct{}), done: make(chan struct{}), prs: newPRSensor(opt.Forge),
	}
	w.settle = sync.OnceFunc(func() { close(w.settled) })
	w.agents = agents.New(agents.Options{Detectors: opt.Detectors, Screen: w.agentScreen, Changed: w.reg.agentMoved, Log: opt.Log})
	w.git = newGitSensor(&w.reg, w.reg.gitSeen, opt.Log)
	w.ports = &portSensor{scan: opt.Ports, log: opt.Log, kick: make(chan struct{}, 1)}
	w.reg.init(w.moved, w.prs.of, w.agents)
	return w
}

// Run loads the session and follows kaval until ctx ends; then it saves and returns. It must be called once. An error
// means that the session could not be taken over (see session.ErrNewer); nothing was touched then.
func (w *Workspace) Run(ctx context.Context) error {
	defer close(w.done)
	defer w.reg.close()
	if err := w.loadSession(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer w.saveSession() // after all that change the registry have ended
	defer wg.Wait()
	wg.Go(func() { w.follow(ctx) })
	wg.Go(func() { w.git.run(ctx, w.watchRepos()) })
	wg.Go(func() { w.ports.run(ctx, w.reg.rooted, w.reg.portsSeen) })
	wg.Go(func() { w.prs.run(ctx, w.reg.prKeys, w.reg.prSeen) })
	wg.Go(func() { w.agents.Run(ctx) })
	wg.Go(func() { w.autosave(ctx) })
	<-ctx.Done()
	return nil
}

// moved has the sensors look soon: something happened in a terminal that is at cwd.
func (w *Workspace) moved(cwd string) {
	w.git.moved(cwd)
	w.ports.moved()
}

func (w *Workspace) watchRepos() RepoWatch {
	if w.opt.WatchRepos == nil {
		return nil
	}
	watch, err := w.opt.WatchRepos()
	if err != nil {
		w.log.Warn("repositories are looked at every few seconds", "err", err)
		return nil
	}
	return watch
}

// ready waits until the registry says something true.
func (w *Workspace) ready(ctx context.Context) error {
	select {
	case <-w.settled:
		return nil
	case <-w.done:
		return kaval.ErrClosing
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Terminals gives every record, in registry order.
func (w *Workspace) Terminals(ctx context.Context) ([]padi.Record, error) {
	if err := w.ready(ctx); err != nil {
		return nil, err
	}
	return w.reg.records(), nil
}

// Terminal gives one record.
func (w *Workspace) Terminal(ctx context.Context, id padi.TerminalID) (padi.Record, error) {
	if err := w.ready(ctx); err != nil {
		return padi.Record{}, err
	}
	rec, ok := w.reg.record(id)
	if !ok {
		return padi.Record{}, noTerminal(id)
	}
	return rec, nil
}

// Kill ends a terminal and everything in it, and forgets it. Its splits live on as tiles of their own. A record whose terminal
// does not run is only forgotten.
func (w *Workspace) Kill(ctx context.Context, id padi.TerminalID) (padi.Record, error) {
	rec, err := w.Terminal(ctx, id)
	if err != nil {
		return padi.Record{}, err
	}
	if rec.State == padi.Active {
		err = w.opt.Kaval.Kill(ctx, id)
		if err != nil && !errors.Is(err, kaval.ErrNoTerminal) && !errors.Is(err, kaval.ErrGone) {
			err = fmt.Errorf("kill %s: %w", id.Short(), hostErr(err))
			w.sent(ctx, padi.SendKill, id, nil, err)
			return padi.Record{}, err
		}
	}
	w.reg.end(id, nil)
	w.sent(ctx, padi.SendKill, id, nil, nil)
	w.save()
	return rec, nil
}

// Write hands input to the terminal's program.
func (w *Workspace) Write(ctx context.Context, id padi.TerminalID, in kaval.Input) error {
	if err := w.live(ctx, id); err != nil {
		return err
	}
	err := hostErr(w.opt.Kaval.Write(ctx, id, in))
	w.sent(ctx, padi.SendInput, id, in.Data, err)
	return err
}

// Resize sets the terminal's grid.
func (w *Workspace) Resize(ctx context.Context, id padi.TerminalID, size kaval.Size) error {
	if err := w.live(ctx, id); err != nil {
		return err
	}
	return hostErr(w.opt.Kaval.Resize(ctx, id, size))
}

// Screen gives what the terminal shows.
func (w *Workspace) Screen(ctx context.Context, id padi.TerminalID, req kaval.ScreenRequest) (kaval.Screen, error) {
	if err := w.live(ctx, id); err != nil {
		return kaval.Screen{}, err
	}
	screen, err := w.opt.Kaval.Screen(ctx, id, req)
	return screen, hostErr(err)
}

// History gives one page of the lines above the screen.
func (w *Workspace) History(ctx context.Context, id padi.TerminalID, req kaval.HistoryRequest) (kaval.HistoryPage, error) {
	if err := w.live(ctx, id); err != nil {
		return kaval.HistoryPage{}, err
	}
	page, err := w.opt.Kaval.History(ctx, id, req)
	return page, hostErr(err)
}

// live refuses what needs a running terminal where the record says that there is none. An id that is no record is left to kaval,
// which tells an ended terminal from one that never was.
func (w *Workspace) live(ctx context.Context, id padi.TerminalID) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	if rec, ok := w.reg.record(id); ok && rec.State != padi.Active {
		return notRunning(rec)
	}
	return nil
}

func noTerminal(id padi.TerminalID) error {
	return fmt.Errorf("terminal %s: %w", id, kaval.ErrNoTerminal)
}

func notRunning(rec padi.Record) error {
	return fmt.Errorf("terminal %s is %s and runs nothing: %w", rec.ID.Short(), rec.State, kaval.ErrGone)
}

// hostErr names a kaval that could not be reached; what kaval itself said stays as it is.
func hostErr(err error) error {
	_, isNet := errors.AsType[net.Error](err)
	_, isErrno := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil, kaval.Code(err) != "internal", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case isNet, isErrno, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", padi.ErrKavalDown, err)
	}
	return err
}
