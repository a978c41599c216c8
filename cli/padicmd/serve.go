package padicmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kolu/cli"
	"kolu/cli/front"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/claude"
	"kolu/daemon/padi/agents/codex"
	"kolu/daemon/padi/agents/grok"
	"kolu/daemon/padi/agents/opencode"
	"kolu/daemon/padi/forge"
	"kolu/daemon/padi/padirpc"
	"kolu/daemon/padi/ports"
	"kolu/daemon/padi/record"
	"kolu/daemon/padi/repo"
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/supervise"
	"kolu/daemon/padi/workspace"
	"kolu/internal/version"
)

func serve(ctx context.Context, env *cli.Env, o options) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	p := &parts{env: env, root: o.stateRoot, home: o.home(env), fail: func(err error) { fail(&faultError{err}) }}
	errs := slog.New(slog.NewJSONHandler(env.Stderr, nil))
	err := daemon.Serve(ctx, daemon.ServeConfig{
		Home: p.home, Contract: padi.Contract, Build: version.BuildID(), Commit: version.Commit,
		LookupEnv: env.LookupEnv, Log: errs,
		Open:  p.open,
		Guard: front.GuardCommand("padi"),
		Restored: func(home daemon.Home) {
			if _, err := front.Tools(home.Dir); err != nil {
				errs.Warn("tools not made again", "err", err)
			}
			if err := p.lock.Name(os.Getpid(), home.Socket()); err != nil {
				errs.Warn("state root's lock not renamed", "err", err)
			}
		},
		Drain: func(context.Context) error { return p.workspace.Save() },
	})
	fail(nil)
	p.close()
	if errors.Is(err, daemon.ErrRunning) {
		env.Errorf("%v", err)
		return nil
	}
	if fault, ok := errors.AsType[*faultError](context.Cause(ctx)); ok && err == nil {
		return fault.err
	}
	return err
}

// faultError is an end that the workspace itself asked for.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }

// parts is what a padi is made of.
type parts struct {
	env  *cli.Env
	root string
	home daemon.Home
	fail func(error)

	lock      *daemon.RootLock // from before anything is read to after the last save
	log       *daemon.LogFile
	record    *record.Log
	workspace *workspace.Workspace
	running   sync.WaitGroup
}

// open makes the parts, once this process is the padi of its state root.
func (p *parts) open(ctx context.Context, self daemon.Hello) (http.Handler, error) {
	if err := os.MkdirAll(p.root, 0o700); err != nil {
		return nil, fmt.Errorf("make state root: %w", err)
	}
	errs := slog.New(slog.NewJSONHandler(p.env.Stderr, nil))
	lock, err := daemon.LockRoot(ctx, self, errs)
	if err != nil {
		return nil, err
	}
	p.lock = lock
	file, err := daemon.OpenLogFile(filepath.Join(p.root, "padi.log"))
	if err != nil {
		return nil, err
	}
	p.log = file
	log := slog.New(slog.NewJSONHandler(file, nil))
	log.Info("padi starts", "pid", self.PID, "build", self.Build, "socket", self.Socket)

	tools, err := front.Tools(p.home.Dir)
	if err != nil {
		return nil, fmt.Errorf("find tools: %w", err)
	}
	store, err := session.Open(p.root, log)
	if err != nil {
		return nil, err
	}
	if p.record, err = record.Open(p.root, log); err != nil {
		return nil, err
	}
	k := kavalOf{env: p.env, root: p.root, home: daemon.HomeFor(daemon.Kaval, p.root, p.env.Getenv), tools: tools, padiSocket: self.Socket, log: log}
	if p.home != daemon.HomeFor(daemon.Padi, p.root, p.env.Getenv) { // --socket moves kaval along
		k.home = daemon.HomeAt(daemon.Kaval, filepath.Join(p.home.Dir, "kaval", daemon.Kaval.Socket), p.root)
		k.moved = true
	}
	supervisor := supervise.New(supervise.Options{Start: k.start, Hello: k.hello, Upgrade: k.upgrade, Stop: k.stop, Freeze: func() func() { return p.workspace.Freeze() }, Log: log})
	p.workspace = workspace.New(workspace.Options{
		WatchRepos: func() (workspace.RepoWatch, error) { return repo.NewWatch() },
		Record:     p.record,
		Ports:      ports.New(),
		Forge:      forge.New(forge.Options{Environ: p.env.Environ, Version: version.Version}),
		Kaval:      supervisor, Status: supervisor.Status, Instance: supervisor.Instance, Upgrade: supervisor.Upgrade, Restart: supervisor.Restart, Store: store,
		Environ: daemon.DetachedEnv(p.env.Environ), Version: version.Version, Log: log,
		Detectors: detectors(p.env), Agent: func() string { return front.AgentSocket(p.home.Dir) },
	})
	p.running.Go(func() { supervisor.Run(ctx) })
	p.running.Go(func() {
		if err := p.workspace.Run(ctx); err != nil {
			p.fail(err)
		}
	})
	return padirpc.Handler(p.workspace, log), nil
}

// detectors know the agents that keep their files in the home directory of this padi.
func detectors(env *cli.Env) []agents.Detector {
	home := env.Getenv("HOME")
	return []agents.Detector{
		claude.New(home, env.Getenv), codex.New(home, env.Getenv), opencode.New(home, env.Getenv), grok.New(home, env.Getenv),
	}
}

// close waits for the parts, whose context has ended.
func (p *parts) close() {
	p.running.Wait()
	if p.record != nil {
		p.record.Close()
	}
	if p.log != nil {
		p.log.Close()
	}
	if err := p.lock.Close(); err != nil {
		p.env.Errorf("free the state root: %v", err)
	}
}

// kavalOf is how a padi gets its kaval.
type kavalOf struct {
	env                     *cli.Env
	root, tools, padiSocket string
	home                    daemon.Home
	moved                   bool // home is not where the state root alone says
	log                     *slog.Logger
}

// start takes over the kaval of the state root, or starts it.
func (k kavalOf) start(ctx context.Context) (kaval.Host, supervise.Facts, error) {
	args := []string{"--state-root", k.root, "--tools", k.tools, "--padi-socket", k.padiSocket}
	if k.moved {
		args = append(args, "--socket", k.home.Socket())
	}
	hello, err := daemon.Start(ctx, daemon.StartConfig{
		Home: k.home, Exe: filepath.Join(k.tools, "kaval"), Name: "kaval", Args: args, Environ: k.env.Environ, Log: k.log,
	})
	if err != nil {
		return nil, supervise.Facts{}, err
	}
	if !kaval.Compatible(hello.Contract, kaval.Contract) {
		return nil, facts(hello), fmt.Errorf("contract mismatch: kaval at %s speaks %s, this padi needs %s; its terminals are left alone",
			hello.Socket, hello.Contract, kaval.Contract)
	}
	return kavalrpc.NewClient(daemon.Unix(hello.Socket)), facts(hello), nil
}

// upgrade makes the kaval that runs this padi's build.
func (k kavalOf) upgrade(ctx context.Context) error {
	c := kavalrpc.NewClient(daemon.Unix(k.socket()))
	defer c.Close()
	_, err := c.Upgrade(ctx, filepath.Join(k.tools, "kaval"))
	return err
}

// stopGrace is how long a kaval may take to end its terminals before it is killed.
const stopGrace = 10 * time.Second

// stop ends the kaval that runs.
func (k kavalOf) stop(ctx context.Context) error {
	return daemon.Stop(ctx, k.running(), stopGrace)
}

// hello asks whoever answers at kaval's address.
func (k kavalOf) hello(ctx context.Context) (supervise.Facts, error) {
	hello, err := daemon.ReadHello(ctx, daemon.Unix(k.socket()))
	return facts(hello), err
}

func (k kavalOf) socket() string { return k.running().Socket() }

// running is where the kaval is; one from another login may live in another runtime directory.
func (k kavalOf) running() daemon.Home {
	if !k.moved {
		if found, err := daemon.Find(daemon.Kaval, daemon.Want{StateRoot: k.root, Getenv: k.env.Getenv}); err == nil {
			return found.Home
		}
	}
	return k.home
}

func facts(h daemon.Hello) supervise.Facts {
	return supervise.Facts{PID: h.PID, StartedAt: h.StartedAt, Build: h.Build, Contract: h.Contract, Socket: h.Socket}
}
