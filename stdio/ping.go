package stdio

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// quiet is how long nothing may come before the near end asks.
	quiet = 15 * time.Second
	// answerWithin is how long the answer, or any other byte, may take on a fast line.
	answerWithin = 10 * time.Second
	// busyLimit is how long an answer may take while what we send still moves.
	busyLimit = time.Minute
	// wakeJump is the difference of the two clocks that means that the machine slept.
	wakeJump = 5 * time.Second
	tick     = time.Second
	// frontQuiet is how long the far end lives without hearing from a near end that asks every quiet.
	frontQuiet = 5 * time.Minute
)

// pinger decides whether the line lives. Any byte that came counts, so a line that carries data is never asked.
type pinger struct {
	link  *link
	s     *yamux.Stream
	ask   chan struct{}
	sent  atomic.Int64 // when the open question went out, nanoseconds since the pipe's start; 0 = none is open
	round atomic.Int64
}

func newPinger(l *link, s *yamux.Stream) *pinger {
	return &pinger{link: l, s: s, ask: make(chan struct{}, 1)}
}

func (p *pinger) rtt() time.Duration { return time.Duration(p.round.Load()) }

func (p *pinger) run() {
	p.link.work.Go(p.write)
	p.link.work.Go(p.read)
	p.link.work.Go(p.watch)
	p.question() // the first answer measures the line
}

func (p *pinger) now() int64 { return max(1, int64(time.Since(p.link.pipe.start))) }

func (p *pinger) question() {
	if p.sent.CompareAndSwap(0, p.now()) {
		p.ask <- struct{}{}
	}
}

func (p *pinger) write() {
	for {
		select {
		case <-p.ask:
			if _, err := p.s.Write([]byte{'?'}); err != nil {
				return
			}
		case <-p.link.session.CloseChan():
			return
		}
	}
}

func (p *pinger) read() {
	var b [1]byte
	for {
		if _, err := p.s.Read(b[:]); err != nil {
			return
		}
		if at := p.sent.Swap(0); at != 0 {
			p.round.Store(p.now() - at)
		}
	}
}

func (p *pinger) watch() {
	t := time.NewTicker(tick)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-p.link.session.CloseChan():
			return
		case now := <-t.C:
			slept := now.Round(0).Sub(last.Round(0))-now.Sub(last) > wakeJump
			last = now
			if err := p.check(slept); err != nil {
				p.link.fail(err)
				return
			}
		}
	}
}

// check asks when it has been quiet, and gives an error when a question stayed without any sign of life.
func (p *pinger) check(slept bool) error {
	now, heard := p.now(), p.link.pipe.lastRead.Load()
	sent := p.sent.Load()
	if sent == 0 {
		if slept || now-heard >= int64(quiet) {
			p.question()
		}
		return nil
	}
	limit := int64(max(answerWithin, 8*p.rtt()))
	silent := now - max(sent, heard)
	moving := now-p.link.pipe.lastWrote.Load() < limit && p.link.pipe.lastWrote.Load() > sent
	if silent < limit || (moving && silent < int64(busyLimit)) {
		return nil
	}
	return fmt.Errorf("nothing came for %d s", silent/int64(time.Second))
}
