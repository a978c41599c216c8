package client

import (
	"context"
	"fmt"

	"kolu/cli"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/fleet"
	"kolu/fleet/inventory"
	"kolu/provision"
	"kolu/stdio"
)

// reachHost reaches the daemon of another machine. What a first time needs (the build, the daemon) is brought there and told on
// stderr.
func reachHost(ctx context.Context, env *cli.Env, ep Endpoint, kind daemon.Kind) (line, error) {
	target, err := ep.target(env)
	if err != nil {
		return line{}, err
	}
	told := &progress{shown: cli.NewProgress(env, ep.Host), steps: ep.Steps}
	heard := &lines{w: env.Stderr, name: ep.Host}
	link, err := fleet.Keep(ctx, target, kind.Name, fleet.Options{
		Transport: ep.SSH, Contract: contractOf(kind), Env: env.Environ, Progress: told.step,
	}, heard.status)
	told.shown.Clear()
	if err != nil {
		return line{}, hinted(env, err)
	}
	b, report := link.Banner(), link.Report()
	placed(env, ep.Host, report)
	for _, w := range untold(env.Getenv, ep.Host, kind.Name, identity(b), report.Warnings) {
		env.Errorf("%s: %s", ep.Host, cli.Clean(w))
	}
	return line{
		dialer: link,
		hello: daemon.Hello{
			Daemon: kind.Name, Contract: b.Contract, Build: b.Build, Commit: b.Commit, PID: b.PID, StartedAt: b.StartedAt,
			Socket: b.Socket,
		},
		where: Where{Socket: b.Socket, Host: ep.Host, Identity: identity(b), Link: linkOf(report)},
		self:  env.Name,
		end:   link.Close,
	}, nil
}

// placed says which way the build went there, and which ways the host did not allow, when one was brought.
func placed(env *cli.Env, host string, r fleet.Report) {
	if r.Rung == "" || r.Rung == string(provision.Valid) && len(r.Refused) == 0 {
		return
	}
	line := "the build went there by " + r.Rung
	for _, no := range r.Refused {
		line += "; " + no.Rung + " was refused (" + string(no.Code) + "): " + no.Detail
	}
	fmt.Fprintf(env.Stderr, "— %s: %s\n", cli.Clean(host), cli.Clean(line))
}

// target is what ssh is given for the endpoint's host.
func (e Endpoint) target(env *cli.Env) (string, error) {
	if e.Target != "" {
		return e.Target, nil
	}
	list, err := inventory.Load(env.Getenv)
	if err != nil {
		return "", err
	}
	h, err := list.Resolve(e.Host)
	return h.SSH, err
}

// identity tells a daemon from every other: a copied machine may have the same id, but not at once the same process.
func identity(b stdio.Banner) string {
	if b.PID == 0 || b.StartedAt == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s %s %d %d", b.HostID, b.BootID, b.Socket, b.PID, b.StartedAt)
}

func contractOf(kind daemon.Kind) string {
	if kind == daemon.Kaval {
		return kaval.Contract
	}
	return padi.Contract
}

// progress shows how a build is brought to a host, and nothing where none is brought.
type progress struct {
	shown *cli.Progress
	steps *Steps
}

func (p *progress) step(s fleet.Step) {
	if p.steps != nil {
		p.steps.Step(s.Stage)
	}
	switch {
	case s.Stage == "provision" && s.Detail != "":
		p.shown.Step(s.Detail, s.Done, s.Total)
	case s.Stage == "connect" && s.Detail != "":
		p.shown.Notice(s.Detail)
	case s.Detail == "":
		p.shown.Wait(s.Stage)
	}
}
