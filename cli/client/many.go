package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"kolu/cli"
	"kolu/fleet/fan"
	"kolu/fleet/inventory"
	"kolu/internal/fault"
)

// ExitPartial is the exit code when some of several hosts did not answer.
const ExitPartial = 4

// Hosts are several machines to ask. The zero value of each field but List is fine.
type Hosts struct {
	List []inventory.Host
	// SSH is how they are reached, as in an Endpoint.
	SSH string
	// Silence is how long a host may say nothing while it is reached and asked; 0 is half a minute.
	Silence time.Duration
	// EachName has every name asked for itself, also where several are one machine.
	EachName bool
	// JSON adds to each failure that is told on stderr one line with its code, as a single host's has it.
	JSON bool
}

// Turn is the part of one host in asking several.
type Turn = fan.Turn

// Outcome is what became of one of several hosts.
type Outcome = fan.Outcome

// Several reports that the flags may name several hosts, so that answers say which host they are from: a group and --all may
// have one member today and two tomorrow.
func (f *Flags) Several() bool { return f.selection().Several() }

func (f *Flags) selection() inventory.Selection {
	return inventory.Selection{Hosts: f.host.words, Groups: f.group.words, All: f.all.given}
}

// Hosts checks the flags and looks up the hosts that they name; it dials nothing.
func (f *Flags) Hosts(env *cli.Env) (*Hosts, error) {
	if err := f.check(f.host.given); err != nil {
		return nil, err
	}
	list, err := inventory.Load(env.Getenv)
	if err != nil {
		return nil, err
	}
	hosts, err := list.Choose(f.selection())
	if err != nil {
		return nil, err
	}
	silence, err := f.patience()
	return &Hosts{List: hosts, SSH: f.ssh.text, Silence: silence}, err
}

// Named are the hosts with these names, one for each, in their order.
func (f *Flags) Named(env *cli.Env, names []string) (*Hosts, error) {
	list, err := inventory.Load(env.Getenv)
	if err != nil {
		return nil, err
	}
	h := &Hosts{SSH: f.ssh.text, EachName: true}
	for _, name := range names {
		host, err := list.Resolve(name)
		if err != nil {
			return nil, err
		}
		h.List = append(h.List, host)
	}
	h.Silence, err = f.patience()
	return h, err
}

// longest is the most that --timeout-host takes.
const longest = 1<<31 - 1

func (f *Flags) patience() (time.Duration, error) {
	if !f.silence.given {
		return 0, nil
	}
	ms, err := strconv.ParseInt(f.silence.text, 10, 64)
	if err != nil || ms < 1 || ms > longest {
		return 0, fmt.Errorf("--timeout-host %q: want milliseconds from 1 to %d", f.silence.text, longest)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// Ask reaches the padi of each host and calls ask, side by side within the limits of package fan; it returns when all have ended.
// What did not answer is told on stderr at once. A padi that is reached by several names is asked once, unless EachName is set.
func (h *Hosts) Ask(ctx context.Context, env *cli.Env, connect func(context.Context, *cli.Env, Endpoint) (*PadiClient, error),
	ask func(ctx context.Context, c *PadiClient, t *Turn) error) []Outcome {
	mine := WholeLines(env)
	o := fan.Options{Silence: h.Silence, Route: h.routes(env), Failed: func(host inventory.Host, err error) {
		if ctx.Err() == nil {
			h.tell(mine, host, hinted(env, err))
		}
	}}
	return fan.Each(ctx, h.List, o, func(ctx context.Context, t *Turn) error {
		host := h.List[t.Index()]
		c, err := connect(ctx, mine, Endpoint{Host: host.Name, Target: host.SSH, SSH: h.SSH, Steps: &Steps{t.Step}})
		if err != nil {
			return err
		}
		defer c.Close()
		who := c.Where.Identity
		if h.EachName {
			who = ""
		}
		if !t.Reached(who) {
			return nil
		}
		return ask(ctx, c, t)
	})
}

func (h *Hosts) routes(env *cli.Env) func(context.Context, string) (fan.Route, error) {
	route := fan.SSH(env.Environ)
	if !h.EachName {
		return route
	}
	return func(ctx context.Context, target string) (fan.Route, error) {
		r, err := route(ctx, target)
		r.Login = ""
		return r, err
	}
}

// tell says why a host gave no answer: a line, and one of JSON where that is asked for.
func (h *Hosts) tell(env *cli.Env, host inventory.Host, err error) {
	f := failure(host, err)
	env.Errorf("%s", cli.Clean(f.Error()))
	if h.JSON {
		_ = cli.JSON(env.Stderr, f) // nowhere is left to say that it failed
	}
}

// failure is why a host gave no answer, under all its names. What has no code of its own is internal.
func failure(host inventory.Host, err error) *fault.Error {
	named := fault.Error{Code: fault.Internal, Stage: "ask", Who: fault.Host, Detail: err.Error(), Err: err}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		named = *f
	}
	named.Host = strings.Join(host.Names(), ",")
	return &named
}

// Code is the fault code of an error, empty where it has none.
func Code(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return string(f.Code)
	}
	return ""
}

// Partial is the error that says which of several hosts did not answer: nil when all did, exit code 1 when none did, else
// ExitPartial.
func Partial(outcomes []Outcome) error {
	var silent []string
	machines := 0
	for _, o := range outcomes {
		if o.Same {
			continue
		}
		machines++
		if o.Err != nil {
			silent = append(silent, o.Host.Name)
		}
	}
	if len(silent) == 0 {
		return nil
	}
	code := ExitPartial
	if len(silent) == machines {
		code = 1
	}
	return cli.Exit(code, fmt.Errorf("%d of %d hosts did not answer: %s", len(silent), machines, strings.Join(silent, ", ")))
}

// WholeLines is env with a stderr that several goroutines may write lines to.
func WholeLines(env *cli.Env) *cli.Env {
	mine := *env
	mine.Stderr = &lockedWriter{w: env.Stderr}
	return &mine
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
