// Package supervise keeps padi's kaval up. A [Supervisor] starts it or takes over the one that runs, asks it three questions every
// ten seconds, and starts a new one when nobody is there any more. It is a kaval.Host over whichever kaval that is, so the workspace
// need not know. cli/padicmd makes one and says how to start and how to greet a kaval. It ends no kaval and no terminal.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Facts are what a kaval says of itself.
type Facts struct {
	PID       int
	StartedAt int64
	Build     string
	Contract  string
	Socket    string
}

// Options are what a supervisor is made of; all but the times must be set.
type Options struct {
	// Start takes over the kaval that runs, or starts one, and gives a host that speaks to it.
	Start func(ctx context.Context) (kaval.Host, Facts, error)
	// Hello asks whoever answers at kaval's address, over a fresh connection.
	Hello func(ctx context.Context) (Facts, error)
	// Upgrade makes the kaval that runs this padi's build in place. Nil refuses it.
	Upgrade func(ctx context.Context) error
	Log     *slog.Logger
	// Every and Timeout are the time between probes and of one question; 0 means 10 s and 5 s.
	Every, Timeout time.Duration
}

const (
	probeEvery   = 10 * time.Second
	probeTimeout = 5 * time.Second
	// A kaval that could not be started is tried again after firstRetry, then at pauses that double up to maxRetry.
	firstRetry = time.Second
	maxRetry   = 30 * time.Second
)

// Supervisor is a kaval.Host over the kaval that it keeps up. While there is none its methods give padi.ErrKavalDown; the first
// call waits for the first start.
type Supervisor struct {
	opt   Options
	log   *slog.Logger
	tried chan struct{} // closed after the first start, good or bad
	first func()

	mu     sync.Mutex
	host   kaval.Host
	status padi.KavalStatus
}

// New makes a supervisor; [Supervisor.Run] must run for it to have a kaval.
func New(opt Options) *Supervisor {
	opt.Every, opt.Timeout = orDefault(opt.Every, probeEvery), orDefault(opt.Timeout, probeTimeout)
	s := &Supervisor{opt: opt, log: opt.Log, tried: make(chan struct{}), status: padi.KavalStatus{State: "connecting"}}
	s.first = sync.OnceFunc(func() { close(s.tried) })
	return s
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Run brings kaval up and watches it until ctx ends. Kaval goes on after that.
func (s *Supervisor) Run(ctx context.Context) {
	defer s.drop()
	if !s.bringUp(ctx) {
		return
	}
	var ledger Ledger
	for sleep(ctx, s.opt.Every) {
		verdict, err := s.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		d := ledger.Judge(verdict)
		s.note(verdict, err, d)
		if d.Repair && s.start(ctx, "restarting") != nil && ctx.Err() != nil {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// bringUp starts kaval for the first time, however often it takes.
func (s *Supervisor) bringUp(ctx context.Context) bool {
	pause := firstRetry
	for s.start(ctx, "connecting") != nil {
		if !sleep(ctx, pause) {
			return false
		}
		pause = min(2*pause, maxRetry)
	}
	return true
}

func (s *Supervisor) start(ctx context.Context, state string) error {
	defer s.first()
	s.setState(state, "")
	host, facts, err := s.opt.Start(ctx)
	if err == nil && !kaval.Compatible(facts.Contract, kaval.Contract) {
		closeHost(host)
		err = fmt.Errorf("kaval (pid %d) speaks contract %s and padi needs %s", facts.PID, facts.Contract, kaval.Contract)
		s.know(facts)
		s.setState("incompatible", err.Error())
		s.log.Error("kaval not usable", "err", err)
		return err
	}
	if err != nil {
		s.setState("dead", err.Error())
		if ctx.Err() == nil {
			s.log.Error("kaval not started", "err", err)
		}
		return err
	}
	s.log.Info("kaval is up", "pid", facts.PID, "build", facts.Build)
	s.hold(host)
	s.know(facts)
	s.setState("connected", "")
	return nil
}

// probe asks the three questions, each over its time.
func (s *Supervisor) probe(ctx context.Context) (Verdict, error) {
	host, err := s.current(ctx)
	if err != nil {
		return Unreachable, err
	}
	for _, ask := range []func(context.Context) error{
		s.greet,
		func(ctx context.Context) error { _, err := host.Info(ctx); return err },
		func(ctx context.Context) error { _, err := host.List(ctx); return err },
	} {
		if err := s.bounded(ctx, ask); err != nil {
			return classify(err), err
		}
	}
	return Healthy, nil
}

func (s *Supervisor) bounded(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	return ask(ctx)
}

func (s *Supervisor) greet(ctx context.Context) error {
	facts, err := s.opt.Hello(ctx)
	if err == nil {
		s.know(facts)
	}
	return err
}

func classify(err error) Verdict {
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return Unreachable
	}
	return Wedged
}

// note tells of what a probe led to: in the status each time, in the log only of decisions.
func (s *Supervisor) note(v Verdict, err error, d Decision) {
	if v == Healthy {
		s.setState("connected", "")
	} else {
		s.setState("degraded", err.Error())
	}
	switch {
	case d.StandDown:
		s.setState("dead", err.Error())
		s.log.Error("kaval is gone and stays so, no more repairs", "verdict", v, "repairs", d.Attempt, "err", err)
	case d.Strike:
		s.log.Warn("kaval failed its probes", "verdict", v, "strikes", strikes, "repair", d.Repair, "attempt", d.Attempt, "err", err)
	case d.Recovered:
		s.log.Info("kaval recovered")
	}
}

// Status says how kaval is.
func (s *Supervisor) Status() padi.KavalStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Instance names the kaval process that answers now.
func (s *Supervisor) Instance(ctx context.Context) (string, error) {
	facts, err := s.opt.Hello(ctx)
	if err != nil {
		return "", err
	}
	s.know(facts)
	return fmt.Sprintf("%d@%d", facts.PID, facts.StartedAt), nil
}

func (s *Supervisor) setState(state, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.State, s.status.Detail = state, detail
}

func (s *Supervisor) know(f Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.PID, s.status.StartedAt, s.status.Build, s.status.Socket = f.PID, f.StartedAt, f.Build, f.Socket
}

func (s *Supervisor) hold(host kaval.Host) {
	s.mu.Lock()
	old := s.host
	s.host = host
	s.mu.Unlock()
	closeHost(old)
}

func (s *Supervisor) drop() {
	s.first()
	s.hold(nil)
}

// closeHost lets go of a host's connections, where it has any.
func closeHost(host kaval.Host) {
	if c, ok := host.(io.Closer); ok {
		c.Close()
	}
}

// current gives the host of the kaval that is up.
func (s *Supervisor) current(ctx context.Context) (kaval.Host, error) {
	select {
	case <-s.tried:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		return s.host, nil
	}
	if s.status.Detail != "" {
		return nil, fmt.Errorf("%w: %s", padi.ErrKavalDown, s.status.Detail)
	}
	return nil, padi.ErrKavalDown
}
