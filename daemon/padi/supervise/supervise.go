// Package supervise keeps padi's kaval up. A [Supervisor] starts it or takes over the one that runs, asks it three questions every
// ten seconds, and puts a new one in its place when it has failed them three times: a kaval that is gone is started again, one that
// does not answer is ended first. It is a kaval.Host over whichever kaval that is, so the workspace need not know. cli/padicmd makes one
// and says how to start, to end and to greet a kaval. Terminals of a kaval that answers are never ended, whether padi knows them or not:
// the workspace adopts what it does not know.
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
	// Stop ends the kaval that runs, hanging or not, with what is in it. Nil leaves one that hangs alone, and refuses Restart.
	Stop func(ctx context.Context) error
	// Freeze keeps what runs from being taken for ended while another kaval is put in the place of the one there is, until thaw. Nil does
	// nothing.
	Freeze func() (thaw func())
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

	turn chan struct{} // holds one: of who puts another kaval in the place of the one there is

	mu       sync.Mutex
	host     kaval.Host
	status   padi.KavalStatus
	restarts int  // that are over, under turn too
	busy     bool // with one
	// replaced says that a repair has put another kaval in its place, and no probe has found that one well yet.
	replaced bool
}

// New makes a supervisor; [Supervisor.Run] must run for it to have a kaval.
func New(opt Options) *Supervisor {
	opt.Every, opt.Timeout = orDefault(opt.Every, probeEvery), orDefault(opt.Timeout, probeTimeout)
	s := &Supervisor{opt: opt, log: opt.Log, tried: make(chan struct{}), turn: make(chan struct{}, 1), status: padi.KavalStatus{State: "connecting"}}
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
	var ledger Ledger
	if !s.bringUp(ctx, &ledger) {
		return
	}
	for sleep(ctx, s.opt.Every) {
		before := s.generation()
		verdict, err := s.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		if before != s.generation() || before < 0 {
			continue // a restart came in between, so nobody knows which kaval answered
		}
		s.act(ctx, verdict, err, ledger.Judge(verdict))
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

// act tells of what a probe led to, and repairs.
func (s *Supervisor) act(ctx context.Context, verdict Verdict, err error, d Decision) {
	s.note(verdict, err, d)
	if d.Repair {
		s.repair(ctx, verdict)
	}
}

// repair starts a kaval that is gone, and replaces one that hangs. Whether it was a repair is for the next probe to say; a kaval that
// was there all along was not put in anybody's place.
func (s *Supervisor) repair(ctx context.Context, verdict Verdict) (err error) {
	before := s.Status().StartedAt
	switch {
	case verdict == Unreachable:
		err = s.start(ctx, "restarting")
	case s.opt.Stop != nil:
		err = s.replace(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaced = s.replaced || err == nil && s.status.StartedAt != before
	return err
}

// bringUp starts kaval for the first time, however often it takes. One that is there and does not answer is ended in the end, as
// later on.
func (s *Supervisor) bringUp(ctx context.Context, ledger *Ledger) bool {
	pause := firstRetry
	for s.start(ctx, "connecting") != nil {
		err := s.bounded(ctx, s.greet)
		if ctx.Err() != nil {
			return false
		}
		if err != nil && classify(err) == Wedged && s.opt.Stop != nil && ledger.Judge(Wedged).Repair && s.repair(ctx, Wedged) == nil {
			return true
		}
		if !sleep(ctx, pause) {
			return false
		}
		pause = min(2*pause, maxRetry)
	}
	return true
}

// Restart ends the kaval that runs and starts another. Who asks while that goes on gets its end.
func (s *Supervisor) Restart(ctx context.Context) (padi.KavalStatus, error) {
	if s.opt.Stop == nil {
		return s.Status(), fmt.Errorf("%w: this padi cannot restart its kaval", kaval.ErrRefused)
	}
	before := s.generation()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if before >= 0 && before == s.generation() {
		if err := s.swap(ctx); err != nil {
			return s.Status(), err
		}
	}
	status := s.Status()
	if status.State != "connected" {
		return status, fmt.Errorf("%w: %s", padi.ErrKavalDown, status.Detail)
	}
	return status, nil
}

// replace is Restart, of the supervisor itself.
func (s *Supervisor) replace(ctx context.Context) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.swap(ctx)
}

// swap ends the kaval that runs and starts another; turn is held. It is not given up half way: what was ended must be started.
func (s *Supervisor) swap(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s.setBusy(true)
	defer s.setBusy(false)
	if s.opt.Freeze != nil {
		defer s.opt.Freeze()()
	}
	s.setState("restarting", "")
	s.hold(nil)
	if err := s.opt.Stop(ctx); err != nil {
		s.setState("dead", err.Error())
		s.log.Error("kaval not ended", "err", err)
		return err
	}
	return s.start(ctx, "restarting")
}

func (s *Supervisor) setBusy(busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy = busy; !busy {
		s.restarts++
	}
}

// generation counts the restarts; it is negative while one goes on.
func (s *Supervisor) generation() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return -1
	}
	return s.restarts
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
	switch {
	case v == Healthy:
		s.setState("connected", "")
	case !d.Down:
		s.setState("degraded", err.Error())
	}
	switch {
	case d.StandDown:
		s.setState("dead", fmt.Sprintf("%v; it was started %d times in vain, and is left alone now", err, d.Attempt))
		s.log.Error("kaval fails its probes and stays so, no more repairs", "verdict", v, "strikes", strikes, "repairs", d.Attempt, "err", err)
	case d.Repair:
		s.log.Warn("kaval failed its probes", "verdict", v, "strikes", strikes, "attempt", d.Attempt, "attempts", repairs, "err", err)
	case d.Recovered:
		s.recovered()
	}
}

// recovered stamps a repair that a probe has proven.
func (s *Supervisor) recovered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replaced {
		s.replaced, s.status.RestartedAt = false, time.Now().UnixMilli()
	}
	s.log.Info("kaval recovered", "pid", s.status.PID)
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
