package stdio

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowLine is the direction of a line that carries a flood: so many bytes a second, each late by half a round trip, with a deep
// queue in front as ssh and the kernel have it. The other direction is empty.
type slowLine struct {
	rate float64
	half time.Duration

	mu     sync.Mutex
	room   *sync.Cond
	queued int
	free   time.Time // when the line has sent all that is queued
	passed int
}

const deepQueue = 2 << 20

// send puts n bytes on the line, waits for room in the queue, and calls arrived when they are over there.
func (s *slowLine) send(n int, arrived func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queued > deepQueue {
		s.room.Wait()
	}
	s.queued += n
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
	time.AfterFunc(time.Until(s.free), func() {
		s.mu.Lock()
		s.queued -= n
		s.passed += n
		s.room.Broadcast()
		s.mu.Unlock()
		time.AfterFunc(s.oneWay(), arrived)
	})
}

func (s *slowLine) set(rate float64, rtt time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate, s.half = rate, rtt/2
}

func (s *slowLine) oneWay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.half
}

func (s *slowLine) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed
}

// paced is a pacer on a slow line.
type paced struct {
	*slowLine
	pace  *pacer
	marks chan struct{}
	quit  chan struct{}
	work  sync.WaitGroup

	marking chan struct{} // a lock; a mutex would stop the clock of the test
}

// pacedLine runs use with a line of a rate and a round trip.
func pacedLine(t *testing.T, rate float64, rtt time.Duration, use func(t *testing.T, l *paced)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &paced{slowLine: &slowLine{rate: rate, half: rtt / 2}, marks: make(chan struct{}, 1), quit: make(chan struct{}), marking: make(chan struct{}, 1)}
		l.room = sync.NewCond(&l.mu)
		start := time.Now()
		l.pace = newPacer(func() time.Duration { return time.Since(start) }, func() { l.marks <- struct{}{} })
		l.work.Go(func() {
			for {
				select {
				case <-l.marks:
					l.pace.asking()
					l.mark()
				case <-l.quit:
					return
				}
			}
		})
		use(t, l)
		close(l.quit)
		l.pace.close()
		l.work.Wait()
		time.Sleep(time.Minute) // for what is on the way
	})
}

// mark puts a mark on the line.
func (l *paced) mark() {
	l.marking <- struct{}{}
	defer func() { <-l.marking }()
	l.pace.marked()
	l.send(13, func() { time.AfterFunc(l.oneWay(), l.pace.returned) })
}

// put sends n admitted bytes.
func (l *paced) put(n int, arrived func()) { l.putAs(&frameOut{n: int64(n)}, arrived) }

func (l *paced) putAs(out *frameOut, arrived func()) {
	l.send(int(out.n)+12, arrived)
	if l.pace.wrote(out) {
		l.mark()
	}
}

// flood sends as much as it may until the line is left.
func (l *paced) flood() { l.floodTo(func(int) {}) }

func (l *paced) floodTo(arrived func(n int)) {
	l.work.Go(func() {
		for frame := l.pace.frame(); l.pace.admit(frame, true, l.quit); frame = l.pace.frame() {
			select {
			case <-l.quit:
				return
			default:
			}
			l.putAs(&frameOut{n: int64(frame), bulk: true}, func() { arrived(frame) })
		}
	})
}

// echoes types n keys and gives how long each echo took, sorted.
func (l *paced) echoes(n int) (times []time.Duration) {
	for range n {
		time.Sleep(37 * time.Millisecond)
		began := time.Now()
		time.Sleep(l.oneWay()) // on the way there
		l.pace.admit(1, false, nil)
		back := make(chan struct{})
		l.put(1, func() { close(back) })
		<-back
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times
}

func TestKeystrokeBesideAFlood(t *testing.T) {
	for _, c := range []struct {
		name string
		rate float64 // bytes a second
		rtt  time.Duration
		most float64 // p95 beside the flood, in times of the idle one
	}{
		{"10 Mbit, 50 ms", 1.25e6, 50 * time.Millisecond, 2},
		{"10 Mbit, 200 ms", 1.25e6, 200 * time.Millisecond, 1.6},
		{"50 Mbit, 20 ms", 6.25e6, 20 * time.Millisecond, 2},
		{"100 Mbit, 100 ms", 12.5e6, 100 * time.Millisecond, 1.6},
		{"1 Gbit, 1 ms", 125e6, time.Millisecond, 10},
		{"2 Mbit, 100 ms", 0.25e6, 100 * time.Millisecond, 2.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			pacedLine(t, c.rate, c.rtt, func(t *testing.T, l *paced) {
				idle := l.echoes(20)
				l.flood()
				time.Sleep(3 * time.Second)
				before, began := l.count(), time.Now()
				beside := l.echoes(400) // for longer than the least round trip stays fresh
				rate := float64(l.count()-before) / time.Since(began).Seconds()
				t.Logf("alone %s, beside a flood p50 %s p95 %s; the flood takes %.0f %% of the line", idle[19], beside[200], beside[380], 100*rate/c.rate)
				if got := beside[380].Seconds() / idle[19].Seconds(); got > c.most {
					t.Errorf("p95 is %.1f times the idle one", got)
				}
				if rate < 0.9*c.rate {
					t.Errorf("the flood gets %.0f of %.0f bytes a second", rate, c.rate)
				}
			})
		})
	}
}

// A line that becomes another one, as when a laptop moves, is found out.
func TestPaceFollowsTheLine(t *testing.T) {
	pacedLine(t, 12.5e6, 20*time.Millisecond, func(t *testing.T, l *paced) {
		l.flood()
		time.Sleep(5 * time.Second)
		for _, next := range []struct {
			rate float64
			rtt  time.Duration
		}{{1.25e6, 20 * time.Millisecond}, {1.25e6, 150 * time.Millisecond}, {12.5e6, 150 * time.Millisecond}, {12.5e6, 20 * time.Millisecond}} {
			l.set(next.rate, next.rtt)
			time.Sleep(30 * time.Second)
			before, began := l.count(), time.Now()
			times := l.echoes(100)
			rate := float64(l.count()-before) / time.Since(began).Seconds()
			t.Logf("%.0f bytes a second and %s: p95 %s, %.0f %%", next.rate, next.rtt, times[95], 100*rate/next.rate)
			if times[95] > 2*next.rtt+50*time.Millisecond || rate < 0.85*next.rate {
				t.Errorf("%.0f bytes a second and %s: p95 %s, %.0f %% of the line", next.rate, next.rtt, times[95], 100*rate/next.rate)
			}
		}
	})
}

// Where the other end knows no marks, nothing stands still.
func TestPaceWithoutMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var p *pacer
		asked := make(chan struct{}, 1)
		p = newPacer(func() time.Duration { return time.Since(start) }, func() { asked <- struct{}{} })
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 1000 {
				p.admit(chunk, true, nil)
				if p.wrote(&frameOut{n: chunk}) {
					p.marked()
				}
			}
		}()
		go func() {
			for {
				select {
				case <-asked:
					p.asking()
					p.marked()
				case <-done:
					return
				}
			}
		}()
		<-done
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("16 MB took %s", took)
		}
	})
}

// Frames of readers that stopped take no room from the others for longer than stuckFor.
func TestStoppedReadersGiveTheirRoomBack(t *testing.T) {
	pacedLine(t, 1.25e6, 50*time.Millisecond, func(t *testing.T, l *paced) {
		l.flood()
		time.Sleep(5 * time.Second)
		var stuck []*frameOut
		for range 40 { // more than may be on the way
			out := &frameOut{n: int64(l.pace.frame()), bulk: true}
			if !l.pace.admit(int(out.n), true, l.quit) {
				t.Fatal("not admitted")
			}
			stuck = append(stuck, out)
			time.AfterFunc(stuckFor, func() { l.pace.giveBack(out) })
		}
		time.Sleep(time.Second)
		before := l.count()
		time.Sleep(10 * time.Second)
		if rate := float64(l.count()-before) / 10; rate < 0.85*l.rate {
			t.Errorf("the flood gets %.0f of %.0f bytes a second", rate, l.rate)
		}
		for _, out := range stuck { // they go out after all
			l.send(int(out.n)+12, func() {})
			if l.pace.wrote(out) {
				l.mark()
			}
		}
		before = l.count()
		time.Sleep(10 * time.Second)
		if rate := float64(l.count()-before) / 10; rate < 0.85*l.rate {
			t.Errorf("after they went out, the flood gets %.0f of %.0f bytes a second", rate, l.rate)
		}
	})
}

// Whatever else goes on, bulk has a tenth of what goes out, and no more than half.
func TestBulkKeepsItsShareBesideMuchElse(t *testing.T) {
	pacedLine(t, 0.25e6, 50*time.Millisecond, func(t *testing.T, l *paced) {
		for range 40 { // twice what the line carries, and no stream of them is bulk
			l.work.Go(func() {
				for {
					select {
					case <-l.quit:
						return
					case <-time.After(50 * time.Millisecond):
						l.pace.admit(600, false, l.quit)
						l.put(600, func() {})
					}
				}
			})
		}
		time.Sleep(10 * time.Second)
		var bulk atomic.Int64
		l.floodTo(func(n int) { bulk.Add(int64(n)) })
		time.Sleep(10 * time.Second)
		before, had := l.count(), bulk.Load()
		time.Sleep(20 * time.Second)
		share := float64(bulk.Load()-had) / float64(l.count()-before)
		t.Logf("bulk has %.1f %% of the line", 100*share)
		if share < 0.1 || share > 0.5 {
			t.Errorf("bulk has %.1f %% of the line, want between a tenth and a half", 100*share)
		}
	})
}
