package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"kolu/cli"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/internal/version"
	"kolu/provision"
)

// Upgrade is what an upgrade did.
type Upgrade struct {
	Before, After daemon.Hello
	// Already reports that the daemon was the wanted build, so that nothing was done.
	Already bool
}

var errNotHere = errors.New("an upgrade is for the daemons of this machine — run it there")

// UpgradeKaval makes the kaval that ep means another build in place: the same process with the same terminals. executable is that
// build's kaval; empty means the build that this program belongs to. It is done whatever contract the kaval speaks.
func UpgradeKaval(ctx context.Context, env *cli.Env, ep Endpoint, executable string) (Upgrade, error) {
	if ep.Remote() {
		return Upgrade{}, errNotHere
	}
	l, err := reach(ctx, env, ep, daemon.Kaval, false)
	if err != nil {
		return Upgrade{}, err
	}
	up := Upgrade{Before: l.hello, After: l.hello}
	build, err := buildOf(env, &executable)
	if err != nil {
		return up, errors.Join(err, l.end())
	}
	if up.Already = build == l.hello.Build; up.Already {
		return up, l.end()
	}
	c := kavalrpc.NewClient(l.dialer)
	_, err = c.Upgrade(ctx, executable)
	if err == nil {
		up.After, err = daemon.ReadHello(ctx, l.dialer)
	}
	return up, errors.Join(err, c.Close(), l.end())
}

// buildOf gives the id of a build's file, and finds this program's own where none is named.
func buildOf(env *cli.Env, executable *string) (string, error) {
	if *executable == "" {
		bin, err := provision.Local(env.Getenv)
		if err != nil {
			return "", fmt.Errorf("find this build: %w", err)
		}
		*executable = filepath.Join(bin, daemon.Kaval.Name)
	}
	id, err := version.FileID(*executable)
	if err != nil {
		return "", fmt.Errorf("read build: %w", err)
	}
	return id, nil
}

// UpgradePadi ends the padi that ep means, after it has saved everything, and starts the one of this program's build in its place. Its
// terminals are kaval's and stay.
func UpgradePadi(ctx context.Context, env *cli.Env, ep Endpoint) (Upgrade, error) {
	if ep.Remote() {
		return Upgrade{}, errNotHere
	}
	found, err := daemon.Find(daemon.Padi, daemon.Want{Socket: ep.Socket, StateRoot: ep.StateRoot, Getenv: env.Getenv})
	if err != nil {
		return Upgrade{}, err
	}
	l, err := greet(ctx, env, daemon.Unix(found.Socket), Where{Socket: found.Socket})
	if err != nil {
		return Upgrade{}, err
	}
	up := Upgrade{Before: l.hello, After: l.hello}
	program := ""
	build, err := buildOf(env, &program)
	if err != nil {
		return up, err
	}
	if up.Already = build == l.hello.Build; up.Already {
		return up, nil
	}
	if err := drain(ctx, l.dialer); err != nil {
		return up, fmt.Errorf("end padi (pid %d): %w", l.hello.PID, err)
	}
	if err := gone(ctx, l.dialer, l.hello); err != nil {
		return up, err
	}
	home := daemon.HomeFor(daemon.Padi, l.hello.StateRoot, env.Getenv)
	if home.Socket() != l.hello.Socket {
		home = daemon.HomeAt(daemon.Padi, l.hello.Socket, l.hello.StateRoot)
	}
	next, err := startHere(ctx, env, home, daemon.Padi)
	if err != nil {
		return up, fmt.Errorf("padi (pid %d) has ended and its terminals go on: %w", l.hello.PID, err)
	}
	up.After = next.hello
	if up.After.Build != build {
		return up, fmt.Errorf("another client was quicker: the padi that runs now (pid %d) is build %s", up.After.PID, up.After.Build)
	}
	return up, nil
}

func drain(ctx context.Context, d daemon.Dialer) error {
	client := daemon.HTTPClient(d)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://padi/v1/drain", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return daemon.Unwrapped(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return kaval.FromCode(daemon.ReadProblem(resp))
	}
	return nil
}

// gone waits until a daemon that was told to end answers no more.
func gone(ctx context.Context, d daemon.Dialer, was daemon.Hello) error {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("%s (pid %d) was told to end and still answers", was.Daemon, was.PID))
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		now, err := daemon.ReadHello(ctx, d)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || now.PID != was.PID || now.StartedAt != was.StartedAt {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
