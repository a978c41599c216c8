package stdio

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// patience is how long an end of a link waits for what.
type patience struct {
	tick   time.Duration // between two looks
	quiet  time.Duration // nothing may come for so long before the near end asks
	answer time.Duration // the answer, or any other byte, may take so long on a fast line
	busy   time.Duration // the same while what we send still moves
	wake   time.Duration // a jump between the two clocks that means that the machine slept
	front  time.Duration // the far end lives so long without hearing from a near end that asks every quiet
}

var usual = patience{tick: time.Second, quiet: 15 * time.Second, answer: 10 * time.Second, busy: time.Minute,
	wake: 5 * time.Second, front: 5 * time.Minute}

// pinger decides whether the line lives. Any byte that came counts, so a line that carries data is never asked.
type pinger struct {
	link  *link
	wait  patience
	s     *yamux.Stream
	ask   chan struct{}
	sent  atomic.Int64 // when the open question went out, nanoseconds since the pipe's start; 0 = none is open
	round atomic.Int64
}

func newPinger(l *link, s *yamux.Stream, wait patience) *pinger {
	return &pinger{link: l, wait: wait, s: s, ask: make(chan struct{}, 1)}
}

func (p *pinger) rtt() time.Duration { return time.Duration(p.round.Load()) }

func (p *pinger) run() {
	p.link.work.Go(p.write)
	p.link.work.Go(p.read)
	p.link.work.Go(p.watch)
	p.link.work.Go(func() { p.link.sendMarks(p.s, nearMark) })
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
			if _, err := p.s.Write([]byte{byteAsk}); err != nil {
				return
			}
		case <-p.link.session.CloseChan():
			return
		}
	}
}

func (p *pinger) read() {
	var b [64]byte
	for {
		n, err := p.s.Read(b[:])
		if err != nil {
			return
		}
		for _, c := range b[:n] {
			if err := p.take(c); err != nil {
				return
			}
		}
	}
}

func (p *pinger) take(c byte) error {
	switch c {
	case nearMark:
		p.link.pace.returned()
	case farMark:
		_, err := p.s.Write([]byte{c})
		return err
	default:
		if at := p.sent.Swap(0); at != 0 {
			p.round.Store(p.now() - at)
		}
	}
	return nil
}

func (p *pinger) watch() {
	t := time.NewTicker(p.wait.tick)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-p.link.session.CloseChan():
			return
		case now := <-t.C:
			slept := now.Round(0).Sub(last.Round(0))-now.Sub(last) > p.wait.wake
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
		if slept || now-heard >= int64(p.wait.quiet) {
			p.question()
		}
		return nil
	}
	limit := int64(max(p.wait.answer, 8*p.rtt()))
	silent := now - max(sent, heard)
	moving := now-p.link.pipe.lastWrote.Load() < limit && p.link.pipe.lastWrote.Load() > sent
	if silent < limit || (moving && silent < int64(p.wait.busy)) {
		return nil
	}
	return fmt.Errorf("nothing came for %s", time.Duration(silent).Round(p.wait.tick))
}
