package fleet

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kolu/internal/fault"
	"kolu/stdio"
)

// fakeLine is a line that a test ends.
type fakeLine struct {
	done   chan struct{}
	once   sync.Once
	err    error
	banner stdio.Banner
}

func newFakeLine() *fakeLine { return &fakeLine{done: make(chan struct{})} }

func (l *fakeLine) Dial(context.Context) (net.Conn, error) {
	if ended(l) {
		return nil, stdio.ErrLink
	}
	near, far := net.Pipe()
	far.Close()
	return near, nil
}
func (l *fakeLine) Done() <-chan struct{} { return l.done }
func (l *fakeLine) Err() error            { return l.err }
func (l *fakeLine) Close() error          { l.once.Do(func() { close(l.done) }); return nil }
func (l *fakeLine) Banner() stdio.Banner  { return l.banner }
func (l *fakeLine) Report() Report        { return Report{} }
func (l *fakeLine) RTT() time.Duration    { return 0 }

func (l *fakeLine) cut() {
	l.err = errors.New("nothing came for 25s")
	l.Close()
}

// script is a host: each try takes the next answer, the last one again and again.
type script struct {
	mu      sync.Mutex
	answers []func() (line, error)
	at      []time.Time // of the tries
	lines   []*fakeLine
	states  []string
	notes   []string
}

func (s *script) dial(context.Context) (line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	answer := s.answers[min(len(s.at), len(s.answers))-1]
	l, err := answer()
	if f, ok := l.(*fakeLine); ok {
		s.lines = append(s.lines, f)
	}
	return l, err
}

func (s *script) notify(st Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states = append(s.states, string(st.State))
	if st.Note != "" {
		s.notes = append(s.notes, st.Note)
	}
}

// newest is the line of the last try that gave one.
func (s *script) newest() *fakeLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[len(s.lines)-1]
}

// gaps are the times between tries.
func (s *script) gaps() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []time.Duration
	for i := 1; i < len(s.at); i++ {
		out = append(out, s.at[i].Sub(s.at[i-1]))
	}
	return out
}

func answers() (line, error) { return newFakeLine(), nil }

func refuses(code fault.Code) func() (line, error) {
	return func() (line, error) {
		return nil, &fault.Error{Code: code, Host: "box", Detail: "said " + string(code), Remedy: "do this"}
	}
}

func startSession(t *testing.T, s *script) *Session {
	t.Helper()
	sess, err := keep(t.Context(), "box", s.notify, s.dial)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

func TestFirstDialFailsAtOnce(t *testing.T) {
	for _, code := range []fault.Code{fault.Unresolved, fault.Unreachable, fault.Auth, fault.FrontDied} {
		s := &script{answers: []func() (line, error){refuses(code)}}
		if _, err := keep(t.Context(), "box", s.notify, s.dial); !fault.Is(err, code) || len(s.at) != 1 {
			t.Errorf("%s: %v after %d tries", code, err, len(s.at))
		}
	}
}

func TestLineComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers, refuses(fault.Unreachable), refuses(fault.Unresolved), answers}}
		sess := startSession(t, s)
		defer sess.Close()
		if _, err := sess.Dial(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cut := time.Now()
		s.newest().cut()
		conn, err := sess.Dial(t.Context()) // waits for the third try
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if took := time.Since(cut); took < 4800*time.Millisecond || took > 7200*time.Millisecond {
			t.Errorf("back after %s, want about 0, 2 and 4 s", took)
		}
		synctest.Wait()
		if st := sess.Status(); st.State != Connected || st.Line != 2 || st.Lost != 0 {
			t.Errorf("status %+v", st)
		}
		if got := strings.Join(s.states, " "); got != "disconnected connecting disconnected connecting disconnected connecting connected" {
			t.Errorf("states: %s", got)
		}
	})
}

func TestNetworkIsTriedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers, refuses(fault.Unreachable)}}
		sess := startSession(t, s)
		defer sess.Close()
		time.Sleep(time.Minute)
		s.newest().cut()
		time.Sleep(24 * time.Hour)
		gaps := s.gaps()[1:]
		if len(gaps) < 24*60*4/5 {
			t.Errorf("%d tries in a day", len(gaps))
		}
		want := 2 * time.Second
		for i, gap := range gaps {
			if gap < want*4/5 || gap > want*6/5 {
				t.Fatalf("gap %d is %s, want %s give or take a fifth", i, gap, want)
			}
			want = min(2*want, time.Minute)
		}
		if slices.Min(gaps[10:]) == slices.Max(gaps[10:]) {
			t.Error("no jitter")
		}
		if st := sess.Status(); st.State == Failed || st.Lost < 24*time.Hour {
			t.Errorf("status %+v", st)
		}
	})
}

func TestFlappingLinePausesLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers}}
		sess := startSession(t, s)
		defer sess.Close()
		flap := func(stands time.Duration) time.Duration {
			time.Sleep(stands)
			cut := time.Now()
			s.newest().cut()
			if _, err := sess.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(cut)
		}
		var pauses []time.Duration
		for range 20 {
			pauses = append(pauses, flap(3*time.Second))
		}
		if pauses[0] != 0 || pauses[1] < 1600*time.Millisecond || pauses[3] < 6400*time.Millisecond {
			t.Errorf("a line that stands 3 s comes back after %v", pauses)
		}
		if last := pauses[4:]; slices.Min(last) < 6400*time.Millisecond || slices.Max(last) > 9600*time.Millisecond {
			t.Errorf("a line that stands 3 s again and again comes back after %v", last)
		}
		if p := flap(healthy); p != 0 {
			t.Errorf("after a healthy line the next comes after %s", p)
		}
	})
}

func TestRefusalsEndASession(t *testing.T) {
	for _, c := range []struct {
		code  fault.Code
		tries int
	}{
		{fault.Auth, 1}, {fault.HostKeyChanged, 1}, {fault.HostKeyUnknown, 1}, {fault.Contract, 1}, {fault.LoginRefused, 1},
		{fault.NoAgentBuild, 1}, {fault.NoExec, 1}, {fault.PTYOnWire, 1}, {fault.BadHost, 1},
		{fault.FrontDied, 5}, {fault.FrontRefused, 5}, {fault.NoDaemon, 5}, {fault.DiskFull, 5},
	} {
		t.Run(string(c.code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []func() (line, error){answers, refuses(c.code)}}
				sess := startSession(t, s)
				defer sess.Close()
				s.newest().cut()
				if _, err := sess.Dial(t.Context()); !fault.Is(err, c.code) || !strings.Contains(err.Error(), "do this") {
					t.Errorf("dial: %v", err)
				}
				time.Sleep(time.Hour)
				if n := len(s.gaps()); n != c.tries {
					t.Errorf("%d tries, want %d", n, c.tries)
				}
				if st := sess.Status(); st.State != Failed || !fault.Is(st.Err, c.code) {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

// Five times in a row: a fault of the network between two of the host begins the count anew.
func TestRemoteFaultsAreCountedInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers}}
		for range 3 {
			s.answers = append(s.answers, refuses(fault.FrontDied), refuses(fault.FrontDied), refuses(fault.FrontDied), refuses(fault.Unreachable))
		}
		s.answers = append(s.answers, answers)
		sess := startSession(t, s)
		defer sess.Close()
		s.newest().cut()
		if _, err := sess.Dial(t.Context()); err != nil {
			t.Errorf("dial: %v", err)
		}
	})
}

func TestPenaltiesAreWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers, refuses(fault.Penalised)}}
		sess := startSession(t, s)
		defer sess.Close()
		s.newest().cut()
		time.Sleep(2 * time.Hour)
		want := 15 * time.Second
		for i, gap := range s.gaps()[1:] {
			if gap < want || gap > want*6/5 {
				t.Fatalf("gap %d is %s, want %s or a fifth more", i, gap, want)
			}
			want = min(2*want, 10*time.Minute)
		}
		if st := sess.Status(); st.State != Disconnected || !fault.Is(st.Err, fault.Penalised) || st.Retry < mostPunish {
			t.Errorf("status %+v", st)
		}
	})
}

func TestNudgeTriesNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers, refuses(fault.Unreachable)}}
		sess := startSession(t, s)
		defer sess.Close()
		s.newest().cut()
		time.Sleep(time.Hour)
		tries := len(s.gaps())
		sess.Nudge()
		synctest.Wait()
		if got := len(s.gaps()); got != tries+1 {
			t.Errorf("%d tries after the nudge, %d before", got, tries)
		}
	})
}

func TestWakeUpIsAJumpOfTheWallClock(t *testing.T) {
	for _, c := range []struct {
		wall, steady time.Duration
		want         bool
	}{{time.Second, time.Second, false}, {time.Hour, time.Second, true}, {time.Hour, time.Hour, false}, {-time.Hour, time.Second, false},
		{4 * time.Second, time.Second, false}} {
		if got := jumped(c.wall, c.steady); got != c.want {
			t.Errorf("wall %s, steady %s: %v", c.wall, c.steady, got)
		}
	}
}

func TestWhatWaitsEndsWithItsContextAndWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers, refuses(fault.Unreachable)}}
		sess := startSession(t, s)
		s.newest().cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := sess.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "box") {
			t.Errorf("dial: %v", err)
		}
		waited := make(chan error)
		go func() { _, err := sess.Dial(t.Context()); waited <- err }()
		synctest.Wait()
		sess.Close()
		if err := <-waited; !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial on a closed session: %v", err)
		}
	})
}

// Two lines overlap: the old one ends late and takes nothing from the new one.
func TestOldLineEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers}}
		sess := startSession(t, s)
		defer sess.Close()
		old := s.newest()
		old.cut()
		n, err := sess.Up(t.Context())
		if err != nil || n != 2 {
			t.Fatalf("line %d, %v", n, err)
		}
		old.Close()
		synctest.Wait()
		if st := sess.Status(); st.State != Connected || st.Line != 2 {
			t.Errorf("status %+v", st)
		}
	})
}

func TestWhatChangedOnTheHostIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func(boot string, pid int) func() (line, error) {
			return func() (line, error) {
				l := newFakeLine()
				l.banner = stdio.Banner{BootID: boot, PID: pid, StartedAt: int64(pid)}
				return l, nil
			}
		}
		s := &script{answers: []func() (line, error){with("a", 7), with("a", 7), with("b", 8), with("b", 8), with("b", 9)}}
		sess := startSession(t, s)
		defer sess.Close()
		for range 4 {
			time.Sleep(time.Minute)
			s.newest().cut()
			if _, err := sess.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.notes) != 2 || !strings.Contains(s.notes[0], "restarted") || !strings.Contains(s.notes[1], "pid 9, was 8") {
			t.Errorf("notes %q", s.notes)
		}
	})
}

// A host is let go of while its line is being made, by a dial that comes through all the same: that line is ended, and no event after
// Close speaks of the host as there.
func TestCloseDuringADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func() (line, error){answers, answers}}
		let := make(chan struct{})
		s.answers[1] = func() (line, error) {
			<-let
			return newFakeLine(), nil
		}
		sess, err := keep(t.Context(), "box", s.notify, s.dial)
		if err != nil {
			t.Fatal(err)
		}
		s.newest().cut()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { sess.Close(); close(closed) }()
		synctest.Wait()
		close(let)
		<-closed
		if want := []string{"disconnected", "connecting", "closed"}; !slices.Equal(s.states, want) {
			t.Errorf("states %v, want %v", s.states, want)
		}
		if !ended(s.newest()) {
			t.Error("the line that came after Close stands")
		}
		if _, err := sess.Dial(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial on a closed session: %v", err)
		}
	})
}
