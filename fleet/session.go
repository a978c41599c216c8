package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"kolu/internal/fault"
	"kolu/stdio"
)

// State is how a session's line is.
type State string

// The states of a session. Failed is final: the host refuses, and asking again would not change that.
const (
	Connecting   State = "connecting"
	Connected    State = "connected"
	Disconnected State = "disconnected" // until the next try
	Failed       State = "failed"
	Closed       State = "closed"
)

// Status is how a session is. It holds durations and no times, since two machines have two clocks.
type Status struct {
	Host  string        `json:"host"`
	State State         `json:"state"`
	For   time.Duration `json:"for"`            // in this state
	Lost  time.Duration `json:"lost,omitempty"` // since the line was lost; 0 where there was none
	Line  int           `json:"line"`           // how many lines there were
	Tries int           `json:"tries,omitempty"`
	Retry time.Duration `json:"retry,omitempty"` // with Disconnected: the next try comes after so long
	Note  string        `json:"note,omitempty"`  // with Connected: what is not as it was over the line before
	Err   error         `json:"-"`               // why the line was lost, or why the last try failed
}

// Session is a host whose line is made again whenever it breaks. It is a dialer like a [Link], whose Dial waits while there is
// no line. It may be used concurrently, and nothing in it stops, drains or replaces a daemon.
type Session struct {
	host   string
	dial   func(context.Context) (line, error)
	notify func(Status)
	plan   plan // of run alone
	life   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup
	nudges chan struct{}

	mu      sync.Mutex
	status  Status
	since   time.Time // of the state
	lost    time.Time // zero while there is a line
	current line
	first   stdio.Banner
	changed chan struct{} // closed and made anew with every change
}

// line is a Link, or what a test has in its place.
type line interface {
	Dial(ctx context.Context) (net.Conn, error)
	Done() <-chan struct{}
	Err() error
	Close() error
	Banner() stdio.Banner
	Report() Report
	RTT() time.Duration
}

// Keep dials a host like [Dial], with the same errors, and then keeps the line up until Close. notify, where it is not nil, is told
// of every change of state, one at a time and before anybody can use a new line; it must return soon.
func Keep(ctx context.Context, host, program string, o Options, notify func(Status)) (*Session, error) {
	return keep(ctx, host, notify, func(ctx context.Context) (line, error) {
		l, err := Dial(ctx, host, program, o)
		if err != nil {
			return nil, err
		}
		return l, nil
	})
}

func keep(ctx context.Context, host string, notify func(Status), dial func(context.Context) (line, error)) (*Session, error) {
	first, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	if notify == nil {
		notify = func(Status) {}
	}
	life, end := context.WithCancel(context.Background())
	s := &Session{host: host, dial: dial, notify: notify, life: life, end: end, nudges: make(chan struct{}, 1),
		status: Status{Host: host, State: Connected, Line: 1}, since: time.Now(), current: first, first: first.Banner(),
		changed: make(chan struct{})}
	s.work.Go(func() { s.run(first) })
	return s, nil
}

// Dial opens one connection to the daemon over there. While the line is lost it waits for the next one. Its error is that of ctx, or
// the *fault.Error that made the session fail.
func (s *Session) Dial(ctx context.Context) (net.Conn, error) {
	for {
		l, _, err := s.await(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := l.Dial(ctx)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		select { // what fails on a line is the line
		case <-l.Done():
		case <-ctx.Done():
			return nil, err
		case <-s.life.Done():
		}
	}
}

// Up waits until there is a line and gives its number, which grows with every new line. Its errors are those of Dial.
func (s *Session) Up(ctx context.Context) (int, error) {
	_, n, err := s.await(ctx)
	return n, err
}

func (s *Session) await(ctx context.Context) (line, int, error) {
	for {
		s.mu.Lock()
		l, status, changed := s.current, s.status, s.changed
		s.mu.Unlock()
		switch {
		case status.State == Failed:
			return nil, 0, status.Err
		case status.State == Closed:
			return nil, 0, net.ErrClosed
		case status.State == Connected && !ended(l):
			return l, status.Line, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, fmt.Errorf("wait for the line to %s: %w", s.host, context.Cause(ctx))
		}
	}
}

func ended(l line) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// Status says how the session is.
func (s *Session) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statusLocked()
}

func (s *Session) statusLocked() Status {
	st := s.status
	st.For = time.Since(s.since)
	if !s.lost.IsZero() {
		st.Lost = time.Since(s.lost)
	}
	return st
}

// Nudge makes a try that is waiting for its time happen now. It changes nothing else.
func (s *Session) Nudge() {
	select {
	case s.nudges <- struct{}{}:
	default:
	}
}

// Banner is what the front of the newest line said of the daemon.
func (s *Session) Banner() stdio.Banner { return s.newest().Banner() }

// Report says how the newest line came to be.
func (s *Session) Report() Report { return s.newest().Report() }

// RTT is the measured round trip of the newest line, zero before the first answer.
func (s *Session) RTT() time.Duration { return s.newest().RTT() }

func (s *Session) newest() line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Close ends the line and the making of new ones, and waits for both. The daemon over there and its terminals stay as they are.
func (s *Session) Close() error {
	s.end()
	s.work.Wait()
	return nil
}

// run keeps the line up until Close, or until the host refuses for good.
func (s *Session) run(l line) {
	for {
		began := time.Now()
		select {
		case <-l.Done():
		case <-s.life.Done():
			s.set(Status{State: Closed})
			l.Close()
			return
		}
		why := l.Err()
		l.Close()
		if s.life.Err() != nil {
			s.set(Status{State: Closed})
			return
		}
		if why == nil {
			why = errFrontLeft
		}
		s.plan.lost(time.Since(began))
		next, err := s.again(why)
		if err != nil {
			s.set(Status{State: Failed, Err: err})
			return
		}
		if next == nil {
			s.set(Status{State: Closed})
			return
		}
		l = next
	}
}

var errFrontLeft = errors.New("the far end left")

// again tries until there is a line. It gives neither line nor error after Close.
func (s *Session) again(why error) (line, error) {
	for {
		pause := s.plan.pause()
		s.set(Status{State: Disconnected, Err: why, Tries: s.plan.tries, Retry: pause})
		if !s.sleep(pause) {
			return nil, nil
		}
		s.set(Status{State: Connecting, Err: why, Tries: s.plan.tries})
		l, err := s.dial(s.life)
		switch {
		case s.life.Err() != nil: // closed meanwhile: a line that came all the same is nobody's
			if err == nil {
				l.Close()
			}
			return nil, nil
		case err == nil:
			s.up(l)
			return l, nil
		case !s.plan.failed(err):
			return nil, err
		}
		why = err
	}
}

// wakeJump is a jump of the wall clock over the other one that means that the machine slept.
const wakeJump = 5 * time.Second

// sleep waits for a time, a nudge or the machine's wake-up; false after Close.
func (s *Session) sleep(d time.Duration) bool {
	select { // one that came while the line stood is no word about this pause
	case <-s.nudges:
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-timer.C:
			return true
		case <-s.nudges:
			return true
		case now := <-tick.C:
			if jumped(now.Round(0).Sub(last.Round(0)), now.Sub(last)) {
				return true
			}
			last = now
		case <-s.life.Done():
			return false
		}
	}
}

// jumped reports whether the wall clock went on so far beyond the steady one that the machine must have slept.
func jumped(wall, steady time.Duration) bool { return wall-steady > wakeJump }

// up makes a new line the current one, after everybody who listens was told.
func (s *Session) up(l line) {
	s.mu.Lock()
	st := s.statusLocked()
	st.State, st.Err, st.Retry, st.Line, st.Note = Connected, nil, 0, st.Line+1, differs(s.first, l.Banner())
	s.first = l.Banner()
	s.mu.Unlock()
	s.notify(st)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.lost = l, time.Time{}
	s.enterLocked(Status{State: Connected, Line: st.Line, Note: st.Note})
}

// set enters a state that is not Connected.
func (s *Session) set(st Status) {
	s.mu.Lock()
	if s.lost.IsZero() {
		s.lost = time.Now()
	}
	st.Line = s.status.Line
	s.enterLocked(st)
	st = s.statusLocked()
	s.mu.Unlock()
	s.notify(st)
}

func (s *Session) enterLocked(st Status) {
	st.Host = s.host
	s.status, s.since = st, time.Now()
	close(s.changed)
	s.changed = make(chan struct{})
}

// differs says what a new line found changed on the host; what is not known did not change.
func differs(was, is stdio.Banner) string {
	switch {
	case was.BootID != "" && is.BootID != "" && was.BootID != is.BootID:
		return "the host was restarted meanwhile, so its terminals have ended"
	case was.PID != 0 && is.PID != 0 && (was.PID != is.PID || was.StartedAt != is.StartedAt):
		return fmt.Sprintf("the daemon there was started anew meanwhile (pid %d, was %d)", is.PID, was.PID)
	}
	return ""
}

// asFault gives the code of an error, Internal where it has none.
func asFault(err error) fault.Code {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Code
	}
	return fault.Internal
}
