package doctor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
	"kolu/fleet"
	"kolu/internal/fault"
	"kolu/internal/version"
	"kolu/provision"
)

// askWithin bounds what a daemon may take to say who it is: one that says nothing for so long does not answer.
const askWithin = 8 * time.Second

// known is a daemon of the host and what it said.
type known struct {
	provision.Daemon
	hello     daemon.Hello
	terminals []string // ids and what they are for
	count     int
	err       error
	took      time.Duration
}

// greet asks each daemon that has a process who it is and what it holds, all at once.
func (e *examination) greet(ctx context.Context) []known {
	all := make([]known, len(e.found.Daemons))
	var asking sync.WaitGroup
	for i, d := range e.found.Daemons {
		all[i].Daemon = d
		if d.Live {
			asking.Go(func() { all[i] = e.greetOne(ctx, d) })
		}
	}
	asking.Wait()
	return all
}

func (e *examination) greetOne(ctx context.Context, d provision.Daemon) known {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	start := time.Now()
	k := known{Daemon: d}
	at, err := e.bridge(ctx, d)
	if err != nil {
		k.err, k.took = err, time.Since(start)
		return k
	}
	defer at.Close()
	if k.hello, k.err = daemon.ReadHello(ctx, at); k.err == nil {
		k.terminals, k.count, k.err = terminals(ctx, d.Kind, at)
	}
	k.took = time.Since(start)
	return k
}

// bridge leads to the socket of a daemon, by the build of this client if it is there, else by the one that the daemon runs.
func (e *examination) bridge(ctx context.Context, d provision.Daemon) (*fleet.Bridge, error) {
	kolu := d.Exe
	if e.found.Build != "" {
		kolu = e.found.Build + "/bin/" + provision.Program
	}
	if kolu == "" {
		return nil, errors.New("no build of kolu is on the host to ask it by")
	}
	b, err := e.visit.Bridge(ctx, kolu, d.Socket)
	if fault.Is(err, fault.FrontDied) {
		return nil, errors.New("the build that is there is too old to be asked by")
	}
	return b, err
}

// terminals lists what a daemon keeps alive. A padi also knows terminals that were put away; those hold nothing.
func terminals(ctx context.Context, kind string, at daemon.Dialer) ([]string, int, error) {
	var names []string
	if kind == daemon.Padi.Name {
		c := padirpc.NewClient(at)
		defer c.Close()
		records, err := c.Terminals(ctx)
		for _, r := range records {
			if r.State == padi.Active {
				names = append(names, named(string(r.ID), r.Intent))
			}
		}
		return names, len(names), err
	}
	c := kavalrpc.NewClient(at)
	defer c.Close()
	all, err := c.List(ctx)
	for _, t := range all {
		names = append(names, named(string(t.ID), ""))
	}
	return names, len(names), err
}

func named(id, what string) string {
	if what == "" {
		return fmt.Sprintf("%.8s", id)
	}
	return fmt.Sprintf("%.8s (%s)", id, fault.Printable(what, 40))
}

// askDaemons makes a step of each daemon.
func (e *examination) askDaemons(ctx context.Context) []Step {
	all := e.greet(ctx)
	var steps []Step
	lives := false
	for _, k := range all {
		lives = lives || k.Live && k.Kind == daemon.Padi.Name
		steps = append(steps, k.step())
	}
	if !lives {
		steps = append(steps, Step{Name: daemon.Padi.Name, Status: OK, Detail: "none runs; the first verb starts one"})
	}
	return steps
}

func (k known) step() Step {
	s := Step{Name: k.Kind, Status: OK, MS: k.took.Milliseconds()}
	switch {
	case !k.Live:
		s.Detail = "a home without a daemon is left at " + k.Socket
	case k.err != nil:
		s.Status, s.Detail = Warn, fmt.Sprintf("pid %d at %s could not be asked: %s", k.PID, k.Socket, fault.Printable(k.err.Error(), 200))
		s.Remedy = "it is left alone; a verb with --host brings the build that can ask it"
	default:
		s.Detail = fmt.Sprintf("pid %d, build %.12s, contract %s, %s, at %s", k.hello.PID, k.hello.Build, k.hello.Contract, plural(k.count, "terminal"), k.Socket)
		if k.Owner != "" {
			s.Detail += ", kept by " + k.Owner
		}
		k.speaks(&s)
	}
	return s
}

// speaks compares contracts the way a dial does.
func (k known) speaks(s *Step) {
	ours := padi.Contract
	if k.Kind == daemon.Kaval.Name {
		ours = kaval.Contract
	}
	if build := version.BuildID(); k.hello.Build != build {
		s.Detail += fmt.Sprintf("; this client is build %.12s", build)
	}
	if !kaval.Compatible(k.hello.Contract, ours) {
		s.Status, s.Code = Fail, fault.Contract
		s.Detail += "; this client speaks contract " + ours
		s.Remedy = "use the client of that build, or upgrade the older one; its terminals are left alone"
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
