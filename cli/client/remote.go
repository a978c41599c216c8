package client

import (
	"context"
	"fmt"
	"io"
	"sync"

	"kolu/cli"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/fleet"
)

// reachHost reaches the daemon of another machine. What a first time needs (the build, the daemon) is brought there and told on
// stderr.
func reachHost(ctx context.Context, env *cli.Env, ep Endpoint, kind daemon.Kind) (line, error) {
	told := &progress{w: env.Stderr}
	link, err := fleet.Dial(ctx, ep.Host, kind.Name, fleet.Options{
		Transport: ep.SSH, Contract: contractOf(kind), Env: env.Environ, Progress: told.step,
	})
	if err != nil {
		return line{}, err
	}
	b, report := link.Banner(), link.Report()
	for _, w := range report.Warnings {
		env.Errorf("%s: %s", ep.Host, cli.Clean(w))
	}
	return line{
		dialer: link,
		hello: daemon.Hello{
			Daemon: kind.Name, Contract: b.Contract, Build: b.Build, Commit: b.Commit, PID: b.PID, StartedAt: b.StartedAt,
			Socket: b.Socket,
		},
		where: Where{Socket: b.Socket, Host: ep.Host, Transport: report.Transport, Rung: report.Rung},
		self:  env.Name,
		end:   link.Close,
	}, nil
}

func contractOf(kind daemon.Kind) string {
	if kind == daemon.Kaval {
		return kaval.Contract
	}
	return padi.Contract
}

// progress prints a line for each step of bringing a build to a host, and nothing where none is brought.
type progress struct {
	w    io.Writer
	mu   sync.Mutex
	last string
}

func (p *progress) step(s fleet.Step) {
	if s.Stage != "provision" || s.Detail == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Detail == p.last {
		return
	}
	p.last = s.Detail
	size := ""
	if s.Total > 0 {
		size = fmt.Sprintf(" (%.1f MB)", float64(s.Total)/1e6)
	}
	fmt.Fprintf(p.w, "— %s: %s%s\n", s.Host, cli.Clean(s.Detail), size)
}
