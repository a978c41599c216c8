package supervise_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/supervise"
)

func TestLedger(t *testing.T) {
	for name, tc := range map[string]struct{ verdicts, want string }{
		// h healthy, w wedged, u unreachable; r repair, d stand down, + recovered, . nothing
		"healthy":                         {"hhh", "..."},
		"a blip":                          {"uuhuuh", "......"},
		"three in a row":                  {"uuu", "..r"},
		"alternating trips all the same":  {"uwuwu", "....r"},
		"wedged is replaced too":          {"wwwwww", "..r..r"},
		"of both kinds three in all":      {"wwwuuuwwwuuuwww", "..r..r..r..d..d"},
		"each repair needs three more":    {"uuuuuu", "..r..r"},
		"stands down after three repairs": {"uuuuuuuuuuuu", "..r..r..r..d"},
		"healthy arms again":              {"uuuuuuuuuuuuhuuu", "..r..r..r..d+..r"},
		"recovery is told once":           {"uuuhh", "..r+."},
	} {
		var ledger supervise.Ledger
		var got strings.Builder
		for _, v := range tc.verdicts {
			d := ledger.Judge(map[rune]supervise.Verdict{'h': supervise.Healthy, 'w': supervise.Wedged, 'u': supervise.Unreachable}[v])
			switch {
			case d.StandDown:
				got.WriteByte('d')
			case d.Repair:
				got.WriteByte('r')
			case d.Recovered:
				got.WriteByte('+')
			default:
				got.WriteByte('.')
			}
		}
		if got.String() != tc.want {
			t.Errorf("%s: %s gave %s, want %s", name, tc.verdicts, got.String(), tc.want)
		}
	}
}

// world is the kavals of a test.
type world struct {
	mu       sync.Mutex
	pid      int // of the kaval that runs; 0 is none
	next     int
	hangs    bool
	starts   int
	startErr error
	contract string

	noStop                  bool
	hangsOn                 bool // also after it was replaced
	stopTakes               time.Duration
	stopped, frozen, thawed int
}

func (w *world) stop(context.Context) error {
	time.Sleep(w.stopTakes)
	w.set(func() { w.stopped, w.pid, w.hangs = w.stopped+1, 0, w.hangsOn })
	return nil
}

func (w *world) freeze() func() {
	w.set(func() { w.frozen++ })
	return func() { w.set(func() { w.thawed++ }) }
}

func (w *world) start(context.Context) (kaval.Host, supervise.Facts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts++
	if w.startErr != nil {
		return nil, supervise.Facts{}, w.startErr
	}
	if w.pid == 0 {
		w.next++
		w.pid = w.next
	}
	return &host{world: w}, w.factsLocked(), nil
}

func (w *world) factsLocked() supervise.Facts {
	return supervise.Facts{PID: w.pid, StartedAt: int64(w.pid), Contract: w.contract, Socket: "/s", Build: "b"}
}

func (w *world) hello(ctx context.Context) (supervise.Facts, error) {
	if err := w.ask(ctx); err != nil {
		return supervise.Facts{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.factsLocked(), nil
}

func (w *world) ask(ctx context.Context) error {
	w.mu.Lock()
	pid, hangs := w.pid, w.hangs
	w.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case pid == 0:
		return syscall.ECONNREFUSED
	}
	return nil
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) started() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.starts
}

// host answers the questions of a probe; nothing else is asked here.
type host struct {
	kaval.Host
	world *world
}

func (h *host) Info(ctx context.Context) (kaval.Info, error)       { return kaval.Info{}, h.world.ask(ctx) }
func (h *host) List(ctx context.Context) ([]kaval.Terminal, error) { return nil, h.world.ask(ctx) }
func (h *host) Watch(context.Context) iter.Seq2[kaval.Event, error] {
	return func(yield func(kaval.Event, error) bool) { yield(kaval.Event{Kind: kaval.EventSnapshot}, nil) }
}

func supervised(t *testing.T, w *world) *supervise.Supervisor {
	if w.contract == "" {
		w.contract = kaval.Contract
	}
	opt := supervise.Options{Start: w.start, Hello: w.hello, Freeze: w.freeze, Stop: w.stop, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if w.noStop {
		opt.Stop = nil
	}
	s := supervise.New(opt)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return s
}

func state(t *testing.T, s *supervise.Supervisor, want string) {
	t.Helper()
	synctest.Wait()
	if got := s.Status(); got.State != want {
		t.Errorf("kaval is %+v, want %s", got, want)
	}
}

func TestANewKavalWhenTheOldOneIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		s := supervised(t, w)
		if _, err := s.List(t.Context()); err != nil { // waits for the first start
			t.Fatal(err)
		}
		state(t, s, "connected")
		before, err := s.Instance(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.set(func() { w.pid = 0 })
		time.Sleep(21 * time.Second)
		state(t, s, "degraded")
		if w.started() != 1 {
			t.Errorf("%d starts before the third strike", w.started())
		}
		time.Sleep(10 * time.Second)
		state(t, s, "connected")
		after, err := s.Instance(t.Context())
		if err != nil || after == before || w.started() != 2 || s.Status().PID != 2 {
			t.Errorf("instance %s then %s, %v, %d starts, %+v", before, after, err, w.started(), s.Status())
		}
	})
}

func TestAKavalThatGoesWithItsLineIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		s := supervised(t, w)
		for range s.Watch(t.Context()) {
		}
		state(t, s, "connected")
		w.set(func() { w.pid = 0 })
		for range s.Watch(t.Context()) {
		}
		state(t, s, "degraded")
		if w.started() != 1 {
			t.Errorf("%d starts", w.started())
		}
	})
}

// A kaval that hangs is ended and replaced, frozen meanwhile; that it was is told when a probe has found the new one well.
func TestAWedgedKavalIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		s := supervised(t, w)
		synctest.Wait()
		w.set(func() { w.hangs = true })
		time.Sleep(14 * time.Second) // one slow moment changes nothing
		state(t, s, "connected")
		time.Sleep(2 * time.Second)
		state(t, s, "degraded")
		time.Sleep(30 * time.Second)
		state(t, s, "connected")
		if k := s.Status(); k.PID != 2 || k.RestartedAt != 0 || w.stopped != 1 || w.frozen != 1 || w.thawed != 1 {
			t.Errorf("%+v, stopped %d times, frozen %d and thawed %d", k, w.stopped, w.frozen, w.thawed)
		}
		time.Sleep(10 * time.Second)
		if k := s.Status(); k.RestartedAt == 0 || k.State != "connected" {
			t.Errorf("after a healthy probe %+v", k)
		}
	})
}

// Without a way to end it a kaval that hangs is left alone, and taken back as it is.
func TestAWedgedKavalThatNobodyMayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{noStop: true}
		s := supervised(t, w)
		synctest.Wait()
		w.set(func() { w.hangs = true })
		time.Sleep(2 * time.Minute)
		state(t, s, "degraded")
		w.set(func() { w.hangs = false })
		time.Sleep(15 * time.Second)
		state(t, s, "connected")
		if w.started() != 1 || s.Status().PID != 1 || s.Status().RestartedAt != 0 {
			t.Errorf("%d starts, %+v", w.started(), s.Status())
		}
		if _, err := s.Restart(t.Context()); !errors.Is(err, kaval.ErrRefused) {
			t.Errorf("restart: %v", err)
		}
	})
}

// Three replacements that hang too, and no more; a healthy probe arms it again.
func TestKavalsThatHangEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		s := supervised(t, w)
		synctest.Wait()
		w.set(func() { w.hangs, w.hangsOn = true, true })
		time.Sleep(10 * time.Minute)
		state(t, s, "dead")
		if w.stopped != 3 || s.Status().RestartedAt != 0 || !strings.Contains(s.Status().Detail, "3 times in vain") {
			t.Errorf("%d ends, %+v", w.stopped, s.Status())
		}
		w.set(func() { w.hangs, w.hangsOn = false, false })
		time.Sleep(15 * time.Second)
		state(t, s, "connected")
		w.set(func() { w.hangs = true })
		time.Sleep(time.Minute)
		state(t, s, "connected")
		if w.stopped != 4 {
			t.Errorf("%d ends", w.stopped)
		}
	})
}

// A restart that somebody asks for is one for all who ask meanwhile; nothing is announced, no probe counts it.
func TestRestartOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{stopTakes: 8 * time.Second}
		s := supervised(t, w)
		synctest.Wait()
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // who asked goes away; it goes on
		defer cancel()
		var all sync.WaitGroup
		for _, ctx := range []context.Context{ctx, t.Context(), t.Context()} {
			all.Go(func() {
				if k, err := s.Restart(ctx); err != nil || k.PID != 2 || k.State != "connected" {
					t.Errorf("%+v, %v", k, err)
				}
			})
		}
		time.Sleep(time.Second)
		state(t, s, "restarting")
		if _, err := s.List(t.Context()); !errors.Is(err, padi.ErrKavalDown) {
			t.Errorf("a question meanwhile gave %v", err)
		}
		all.Wait()
		time.Sleep(time.Minute)
		if w.stopped != 1 || w.frozen != 1 || w.thawed != 1 || s.Status().RestartedAt != 0 || s.Status().PID != 2 {
			t.Errorf("%d ends, frozen %d, thawed %d, %+v", w.stopped, w.frozen, w.thawed, s.Status())
		}
	})
}

func TestAKavalThatDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{startErr: errors.New("no room")}
		s := supervised(t, w)
		_, err := s.Info(t.Context())
		if !errors.Is(err, padi.ErrKavalDown) || !strings.Contains(err.Error(), "no room") {
			t.Errorf("a question gave %v", err)
		}
		for _, err := range s.Watch(t.Context()) {
			if !errors.Is(err, padi.ErrKavalDown) {
				t.Errorf("a watch gave %v", err)
			}
		}
		time.Sleep(16 * time.Second) // after 1, 2, 4 and 8 seconds
		state(t, s, "dead")
		if w.started() != 5 {
			t.Errorf("%d starts", w.started())
		}
		w.set(func() { w.startErr = nil })
		time.Sleep(16 * time.Second)
		state(t, s, "connected")
	})
}

func TestAKavalThatCannotBeUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervised(t, &world{contract: "99.0"})
		if _, err := s.List(t.Context()); !errors.Is(err, padi.ErrKavalDown) || !strings.Contains(err.Error(), "99.0") {
			t.Errorf("a question gave %v", err)
		}
		state(t, s, "incompatible")
	})
}

func TestRepairsAreNotWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		s := supervised(t, w)
		synctest.Wait()
		w.set(func() { w.pid, w.startErr = 0, errors.New("no room") })
		time.Sleep(10 * time.Minute)
		state(t, s, "dead")
		if w.started() != 4 {
			t.Errorf("%d starts, want the first and three repairs", w.started())
		}
	})
}
