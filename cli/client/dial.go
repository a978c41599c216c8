package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"syscall"
	"time"

	"kolu/cli"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/internal/fault"
	"kolu/internal/shellquote"
	"kolu/provision"
)

// dialTimeout bounds how long a daemon on this machine may take to say hello.
const dialTimeout = 10 * time.Second

// Padi reaches the padi that ep means. On this machine one is started when none runs, unless a socket was named.
func Padi(ctx context.Context, env *cli.Env, ep Endpoint) (*PadiClient, error) {
	l, err := reach(ctx, env, ep, daemon.Padi, true)
	if err != nil {
		return nil, err
	}
	if err := speaks(l, padi.Contract); err != nil {
		return nil, errors.Join(err, l.end())
	}
	ws, end := padiWire(l.dialer, senderOf(env, l.where))
	return NewPadi(ws, l.hello, l.where, func() error { return errors.Join(end(), l.end()) }), nil
}

// Kaval reaches the kaval that ep means: the one of the primary padi, else the only one that runs. With start, one is started on
// this machine when none runs; it belongs to no padi.
func Kaval(ctx context.Context, env *cli.Env, ep Endpoint, start bool) (*KavalClient, error) {
	l, err := reach(ctx, env, ep, daemon.Kaval, start)
	if err != nil {
		return nil, err
	}
	if err := speaks(l, kaval.Contract); err != nil {
		return nil, errors.Join(err, l.end())
	}
	host, end := kavalWire(l.dialer)
	return NewKaval(host, l.hello, l.where, func() error { return errors.Join(end(), l.end()) }), nil
}

// line is a way to a daemon that said hello.
type line struct {
	dialer daemon.Dialer
	hello  daemon.Hello
	where  Where
	self   string // of this program, for messages
	end    func() error
}

func reach(ctx context.Context, env *cli.Env, ep Endpoint, kind daemon.Kind, start bool) (line, error) {
	if ep.Remote() {
		return reachHost(ctx, env, ep, kind)
	}
	return reachHere(ctx, env, ep, kind, start)
}

func reachHere(ctx context.Context, env *cli.Env, ep Endpoint, kind daemon.Kind, start bool) (line, error) {
	l, found, err := findHere(ctx, env, ep, kind, start)
	name := kind.SocketVar()
	named := ep.Socket != "" || ep.StateRoot == "" && env.Getenv(name) != ""
	if !named && nobody(err) { // it ended after it was found, or begins just now
		before := found
		if l, found, err = findHere(ctx, env, ep, kind, start); nobody(err) && found.Socket == before.Socket && kind == daemon.Padi && start {
			return startHere(ctx, env, found.Home, kind)
		}
	}
	if err != nil && named && ep.Socket == "" {
		err = fmt.Errorf("%w ($%s names it; unset that to look for the daemon that runs)", err, name)
	}
	if err == nil && !named && ep.StateRoot == "" {
		noteRoot(env, found)
	}
	return l, err
}

// findHere finds the daemon that is meant and greets it, or starts one where none runs.
func findHere(ctx context.Context, env *cli.Env, ep Endpoint, kind daemon.Kind, start bool) (line, daemon.Found, error) {
	found, err := daemon.Find(kind, daemon.Want{Socket: ep.Socket, StateRoot: ep.StateRoot, Getenv: env.Getenv})
	missing, none := errors.AsType[*daemon.NotRunningError](err)
	switch {
	case none && start:
		l, err := startHere(ctx, env, missing.Home, kind)
		return l, found, err
	case none:
		return line{}, found, &fault.Error{Code: fault.NoDaemon, Stage: "connect", Who: fault.Local, Err: err, Detail: err.Error(), Remedy: advice(kind)}
	case err != nil:
		return line{}, found, err
	}
	l, err := greet(ctx, env, daemon.Unix(found.Socket), Where{Socket: found.Socket})
	return l, found, err
}

// nobody reports that nobody listens where a daemon was found.
func nobody(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// noteRoot says when the only daemon that runs is that of another state root than the environment names.
func noteRoot(env *cli.Env, found daemon.Found) {
	root, err := daemon.StateRoot(env.Getenv)
	if err == nil && found.StateRoot != "" && found.StateRoot != root {
		fmt.Fprintf(env.Stderr, "— this is the %s of %s, the only one that runs; --state-root %s names yours\n",
			found.Home.Kind.Name, cli.Clean(found.StateRoot), shellquote.Join([]string{root}))
	}
}

func advice(kind daemon.Kind) string {
	if kind == daemon.Kaval {
		return "`kaval-tui create` starts one, `--socket <path>` names one"
	}
	return "`padi-tui create --toplevel` starts one, `--socket <path>` names one"
}

// greet reads the hello of what answers behind d.
func greet(ctx context.Context, env *cli.Env, d daemon.Dialer, where Where) (line, error) {
	if err := fits(where.Socket); err != nil {
		return line{}, fmt.Errorf("%s: %w", where.Socket, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	hello, err := daemon.ReadHello(ctx, d)
	if e, ok := errors.AsType[*daemon.DialError](err); ok && e.Absent() {
		return line{}, &fault.Error{Code: fault.NoDaemon, Stage: "connect", Who: fault.Local, Err: e.Err,
			Detail: fmt.Sprintf("no socket at %s (%v)", where.Socket, e.Err), Remedy: "is a daemon running?"}
	}
	if errors.Is(err, fs.ErrPermission) {
		return line{}, fmt.Errorf("the daemon at %s is another user's, and serves nobody else — run this as that user", where.Socket)
	}
	if err != nil {
		return line{}, fmt.Errorf("could not read the version of the daemon at %s: %w", where.Socket, err)
	}
	return line{dialer: d, hello: hello, where: where, self: env.Name, end: func() error { return nil }}, nil
}

// startHere starts a daemon from the build that this program belongs to, and greets it.
func startHere(ctx context.Context, env *cli.Env, home daemon.Home, kind daemon.Kind) (line, error) {
	if kind == daemon.Kaval {
		home = daemon.Standalone(kind, env.Getenv)
	}
	bin, err := provision.Local(env.Getenv)
	if err != nil && env.Getenv("HOME") == "" {
		return line{}, fmt.Errorf("start %s: %w — set it, or name a daemon that runs with --socket", kind.Name, err)
	}
	if err != nil {
		return line{}, fmt.Errorf("start %s: %w", kind.Name, err)
	}
	hello, err := daemon.Start(ctx, daemon.StartConfig{
		Home: home, Exe: filepath.Join(bin, kind.Name), Name: kind.Name, Args: startArgs(home),
		Environ: env.Environ, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return line{}, err
	}
	for _, w := range daemon.Outlook(hello.PID, env.Getenv) {
		env.Errorf("%s", w)
	}
	where := Where{Socket: hello.Socket, Started: true}
	return line{
		dialer: daemon.Unix(hello.Socket), hello: hello, where: where, self: env.Name, end: func() error { return nil },
	}, nil
}

func startArgs(home daemon.Home) []string {
	if home.StateRoot == "" {
		return nil
	}
	return []string{"--state-root", home.StateRoot}
}

// speaks is the gate that every connection goes through: contracts that do not fit are named, and nothing is done about them.
func speaks(l line, need string) error {
	if kaval.Compatible(l.hello.Contract, need) {
		return nil
	}
	who, at := fault.Local, l.where.Socket
	if l.where.Host != "" {
		who, at = fault.Host, l.where.Host
	}
	return &fault.Error{Code: fault.Contract, Stage: "connect", Who: who,
		Detail: fmt.Sprintf("contract mismatch: the %s at %s speaks %s, %s needs %s", l.hello.Daemon, at, l.hello.Contract, l.self, need),
		Remedy: "restart both from one build; its terminals are left alone"}
}
