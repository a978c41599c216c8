package stdio

import (
	"sync"
	"time"
)

// pacer decides when a stream may put bytes on the wire, so that no queue builds up on a slow line in front of what a person
// types. What is on the way is bounded by what the line carries in one round trip and a little more, which is measured by marks:
// bytes of the first stream that the other end sends back when everything before them has arrived. See
// docs/adr/0003-pacing.md.
type pacer struct {
	now func() time.Duration // since some fixed time
	ask func()               // has a mark put on the wire soon

	mu      sync.Mutex
	waiting []*entry // bulk that may not go yet, first come first served
	closed  bool

	admitted, written, delivered int64 // bytes
	bulk                         int64 // bytes of bulk that were admitted and may still be on the way
	marks                        []mark
	asked                        bool  // a mark is due and not on the wire yet
	markedAt                     int64 // written at the last mark
	deliveredAt                  time.Duration
	deaf                         bool // no mark ever came back: the other end knows none, and nothing is bounded
	works                        bool // one did

	rtt      time.Duration // the least that was seen, lately
	rttAt    time.Duration
	rates    [rounds]float64 // bytes a second, the most of each round
	round    int
	roundEnd int64 // delivered at which the round ends
	full     int   // rounds without much growth; the start is over after a few
	best     float64
	probing  bool // for the least round trip, with little on the way
}

type entry struct {
	n    int64
	turn chan struct{}
}

type mark struct {
	at          time.Duration
	written     int64
	delivered   int64
	deliveredAt time.Duration
	clean       bool // little was in front of it
}

const (
	rounds    = 10
	startWith = 128 << 10 // on the way before anything was measured
	leastOn   = 8 << 10
	slack     = 4 * time.Millisecond // of the line's rate, on top of the round trip
	cruise    = 1.2
	begin     = 2.0
	growth    = 1.25
	deafAfter = 2 * time.Second
	frameTime = 4 * time.Millisecond // that one frame of bulk may take
	leastSize = 2 << 10
	rttFresh  = 10 * time.Second
	stuckFor  = 200 * time.Millisecond // after which a frame that is not on the wire gives its room back
	bulkShare = 10                     // of the bound, one part in so many is bulk's, whatever else is going on
)

func newPacer(now func() time.Duration, ask func()) *pacer { return &pacer{now: now, ask: ask} }

// limitLocked is how much may be on the way.
func (p *pacer) limitLocked() int64 {
	rate := p.rateLocked()
	if rate == 0 || p.rtt == 0 {
		return startWith
	}
	if p.probing {
		return max(leastOn, 2*int64(p.frameLocked()))
	}
	gain := cruise
	if p.full < 3 {
		gain = begin
	}
	limit := int64(rate*(gain*p.rtt.Seconds()+slack.Seconds())) + leastOn
	if p.full < 3 {
		limit = max(limit, startWith)
	}
	return limit
}

// frame is how much of a bulk stream goes at once, so that nothing waits long behind it.
func (p *pacer) frame() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frameLocked()
}

func (p *pacer) frameLocked() int {
	rate := p.rateLocked()
	if rate == 0 {
		return chunk
	}
	return int(min(max(rate*frameTime.Seconds(), leastSize), chunk))
}

func (p *pacer) rateLocked() float64 {
	most := 0.0
	for _, r := range p.rates {
		most = max(most, r)
	}
	return most
}

// admit waits until n bytes may go. Bytes of a stream that carries little go at once. stop ends the wait, with false.
func (p *pacer) admit(n int, isBulk bool, stop <-chan struct{}) bool {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return true // the stream says what is wrong
	}
	if !isBulk || len(p.waiting) == 0 && p.roomLocked(int64(n)) {
		p.takeLocked(int64(n), isBulk)
		p.markLocked()
		p.mu.Unlock()
		return true
	}
	e := &entry{n: int64(n), turn: make(chan struct{})}
	p.waiting = append(p.waiting, e)
	p.markLocked()
	p.mu.Unlock()
	select {
	case <-e.turn:
		return true
	case <-stop:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.waiting {
		if w == e {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			return false
		}
	}
	p.admitted -= e.n // it had its turn and does not use it
	p.bulk -= e.n
	p.serveLocked()
	return false
}

func (p *pacer) roomLocked(n int64) bool {
	if p.deaf || p.closed {
		return true
	}
	limit := p.limitLocked()
	return p.admitted-p.delivered+n <= limit || p.bulk == 0 || p.bulk+n <= limit/bulkShare || p.admitted == p.delivered
}

func (p *pacer) takeLocked(n int64, isBulk bool) {
	p.admitted += n
	if isBulk {
		p.bulk += n
	}
}

func (p *pacer) serveLocked() {
	for len(p.waiting) > 0 && (p.closed || p.roomLocked(p.waiting[0].n)) {
		e := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.takeLocked(e.n, true)
		close(e.turn)
	}
}

// frameOut is one admitted frame between its admission and its being on the wire.
type frameOut struct {
	n    int64
	bulk bool
	back bool // its room was given back
	done bool
}

// giveBack frees the room of a frame that is not on the wire yet because the reader of its stream takes nothing. Without that, a
// few readers that stopped would keep everybody else's bulk waiting.
func (p *pacer) giveBack(f *frameOut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.done || p.closed {
		return
	}
	f.back = true
	p.admitted -= f.n
	if f.bulk {
		p.bulk = max(0, p.bulk-f.n)
	}
	p.serveLocked()
	p.markLocked()
}

// wrote says that an admitted frame is on the wire. With true, the caller puts a mark behind it.
func (p *pacer) wrote(f *frameOut) (markNow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.done = true
	if f.back {
		p.takeLocked(f.n, f.bulk)
	}
	p.written += f.n
	return !p.deaf && p.written-p.markedAt >= max(4<<10, p.limitLocked()/16)
}

// markLocked asks for a mark when somebody waits for one and none is under way.
func (p *pacer) markLocked() {
	if len(p.waiting) > 0 && len(p.marks) == 0 && p.written > p.markedAt && !p.asked && !p.closed && !p.deaf {
		p.asked = true
		p.ask()
	}
}

// asking takes note that the mark that was asked for goes out now.
func (p *pacer) asking() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = false
}

// marked is called just before a mark goes out, by one caller at a time, in the order of the marks.
func (p *pacer) marked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.admitted == p.delivered || len(p.marks) == 0 && p.markedAt == p.delivered {
		p.deliveredAt = now // nothing was on the way: the time before says nothing about the line
	}
	p.markedAt = p.written
	if !p.works && len(p.marks) == 0 {
		time.AfterFunc(deafAfter, p.listen)
	}
	if p.deaf {
		return
	}
	clean := p.admitted-p.delivered <= max(leastOn, 2*int64(p.frameLocked()))
	p.marks = append(p.marks, mark{at: now, written: p.written, delivered: p.delivered, deliveredAt: p.deliveredAt, clean: clean})
}

// listen gives up the marks when none has come back.
func (p *pacer) listen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.works {
		p.deaf, p.marks = true, nil
		p.serveLocked()
	}
}

// returned is called when a mark came back.
func (p *pacer) returned() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.marks) == 0 {
		return
	}
	m := p.marks[0]
	p.marks = p.marks[1:]
	now := p.now()
	p.works = true
	got := m.written - p.delivered
	p.delivered, p.deliveredAt = m.written, now
	p.bulk = max(0, min(p.bulk-got, p.admitted-p.delivered))
	p.sampleLocked(m, now)
	p.serveLocked()
	p.markLocked()
}

func (p *pacer) sampleLocked(m mark, now time.Duration) {
	took := now - m.at
	if p.rtt == 0 || took <= p.rtt || p.probing && m.clean {
		p.rtt, p.rttAt, p.probing = max(took, time.Microsecond), now, false
	} else if now-p.rttAt > rttFresh {
		p.probing = true
	}
	span := max(now-m.deliveredAt, took)
	if rate := float64(p.delivered-m.delivered) / span.Seconds(); rate > p.rates[p.round] {
		p.rates[p.round] = rate
	}
	if p.delivered < p.roundEnd {
		return
	}
	p.roundEnd = p.written
	if most := p.rateLocked(); most > p.best*growth {
		p.best, p.full = most, 0
	} else if len(p.waiting) > 0 {
		p.full++
	}
	if len(p.waiting) > 0 || p.full < 3 { // a round without bulk says nothing of the line
		p.round = (p.round + 1) % rounds
		p.rates[p.round] = 0
	}
}

// close lets everybody go.
func (p *pacer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.serveLocked()
}

// flow tells whether a stream carries bulk: much within a short time. A keystroke, its echo and a full screen are not.
type flow struct {
	since time.Duration
	bytes int
}

const (
	flowSpan = 500 * time.Millisecond
	flowMuch = 32 << 10
)

// add counts n bytes and reports whether they are bulk.
func (f *flow) add(now time.Duration, n int) bool {
	if now-f.since > flowSpan {
		f.since, f.bytes = now, f.bytes/2*btoi(now-f.since < 2*flowSpan)
	}
	f.bytes += n
	return f.bytes > flowMuch
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
