package ptyhost

import (
	"sync/atomic"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/pty"
	"kolu/daemon/kaval/vt"
)

const (
	activityEdge = 200 * time.Millisecond // at most one activity event in this time
	resizeMute   = 600 * time.Millisecond // a program repaints after a resize; that is no activity
	sampleEvery  = 250 * time.Millisecond // the program in front is looked at, while there is output
)

// afterCommand is when the program in front is looked at after a command began: it takes a while to get there.
var afterCommand = []time.Duration{0, 75 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1200 * time.Millisecond}

// kick asks the sampler to look.
type kick int

const (
	kickOutput kick = iota
	kickNow
	kickCommand
)

// tapState is what the reader remembers between two chunks of output.
type tapState struct {
	edge    time.Time   // of the last activity event
	sampled atomic.Bool // the sampler has been told of output and has not looked yet
	told    bool        // the shell says where it is (OSC 7); host.mu
	speaker int         // the process group in front when the program status came; host.mu
}

// heard passes on what the program said besides drawing, and that it said something.
func (t *terminal) heard(events []vt.Event, now time.Time) {
	if now.Sub(t.tap.edge) >= activityEdge && now.UnixMilli() > t.mutedUntil.Load() {
		t.tap.edge = now
		t.host.mu.Lock()
		t.host.publish(kaval.Event{Kind: kaval.EventActivity, ID: t.id, At: now.UnixMilli()})
		t.host.mu.Unlock()
	}
	if t.tap.sampled.CompareAndSwap(false, true) {
		t.kick(kickOutput)
	}
	if len(events) > 0 {
		t.heed(events, now)
	}
}

func (t *terminal) heed(events []vt.Event, now time.Time) {
	front := 0
	for _, e := range events {
		switch e.Kind {
		case vt.EventTitle, vt.EventPrompt:
			t.kick(kickNow)
		case vt.EventCommand, vt.EventCommandStart:
			t.kick(kickCommand)
		case vt.EventProgramStatus:
			front = t.proc.Foreground()
		}
	}
	t.update(func(r *kaval.Terminal) {
		for _, e := range events {
			t.note(r, e, front, now)
		}
	})
}

// note writes one event into the record; host.mu is held.
func (t *terminal) note(r *kaval.Terminal, e vt.Event, front int, now time.Time) {
	switch e.Kind {
	case vt.EventTitle:
		r.Title = e.Text
	case vt.EventCWD:
		r.CWD, t.tap.told = e.Text, true
	case vt.EventCommand:
		r.LastCommand = e.Text
	case vt.EventPrompt:
		r.Status = nil
	case vt.EventProgramStatus:
		t.noteStatus(r, e.Status, front, now)
	}
}

// noteStatus takes the program's own word. Records of its children are not kept.
func (t *terminal) noteStatus(r *kaval.Terminal, s *vt.ProgramStatus, front int, now time.Time) {
	if s == nil || s.ID != "" {
		return
	}
	if s.State == "clear" {
		r.Status = nil
		return
	}
	t.tap.speaker = front
	said := &kaval.ProgramStatus{State: s.State, App: s.App, Kind: s.Kind, Message: s.Message, At: now.UnixMilli()}
	if !sameStatus(r.Status, said) { // a turn that began and ended within one read is told by its time
		r.Status = said
	}
}

// update changes the record and tells the watchers if that made a difference.
func (t *terminal) update(change func(*kaval.Terminal)) {
	h := t.host
	h.mu.Lock()
	defer h.mu.Unlock()
	before := t.rec
	change(&t.rec)
	if before == t.rec || h.live[t.id] != t {
		return
	}
	now := time.Now()
	rec := t.record(now)
	h.publish(kaval.Event{Kind: kaval.EventChanged, ID: t.id, Terminal: &rec, At: now.UnixMilli()})
}

func sameStatus(a, b *kaval.ProgramStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.At, y.At = 0, 0
	return x == y
}

// record is the terminal as the inventory shows it; host.mu is held.
func (t *terminal) record(now time.Time) kaval.Terminal {
	r := t.rec
	r.Output = t.offset.Load()
	r.LastActivity = t.lastOutput.Load()
	r.IdleMS = max(0, now.UnixMilli()-r.LastActivity)
	return r
}

// mute holds back activity for the repaint that follows a resize.
func (t *terminal) mute() { t.mutedUntil.Store(time.Now().Add(resizeMute).UnixMilli()) }

// kick asks the sampler to look, and does not wait for it.
func (t *terminal) kick(k kick) {
	select {
	case t.kicks <- k:
	default:
	}
}

// sample looks at the program in front whenever it was asked to, until the terminal ends.
func (t *terminal) sample() {
	var due schedule
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	timer.Stop()
	for last := (time.Time{}); ; {
		select {
		case <-t.quit:
			return
		case k := <-t.kicks:
			due.add(k, time.Now(), last)
		case <-timer.C:
		}
		now := time.Now()
		if due.take(now) {
			last = now
			t.tap.sampled.Store(false)
			t.sampleNow()
		}
		if next, ok := due.next(); ok {
			timer.Reset(time.Until(next))
		}
	}
}

// sampleNow looks at the program in front. What the system does not say stays as it was.
func (t *terminal) sampleNow() {
	front := t.proc.Foreground()
	name := ""
	if front > 0 {
		name = pty.Name(front)
	}
	dir := pty.Dir(t.proc.PID)
	t.update(func(r *kaval.Terminal) {
		if name != "" {
			r.ForegroundPID, r.ForegroundProcess = front, name
		}
		if dir != "" && !t.tap.told {
			r.CWD = dir
		}
		if r.Status != nil && front == t.proc.PID && t.tap.speaker != front {
			r.Status = nil // the program that said it has given the terminal back to its shell
		}
	})
}

// schedule is the moments at which the sampler looks.
type schedule struct{ at []time.Time }

func (s *schedule) add(k kick, now, last time.Time) {
	switch k {
	case kickOutput:
		s.at = append(s.at, later(now, last.Add(sampleEvery)))
	case kickNow:
		s.at = append(s.at, now)
	case kickCommand:
		s.at = s.at[:0]
		for _, d := range afterCommand {
			s.at = append(s.at, now.Add(d))
		}
	}
}

// take removes what is due and reports whether there was any.
func (s *schedule) take(now time.Time) bool {
	n := 0
	for _, at := range s.at {
		if at.After(now) {
			s.at[n] = at
			n++
		}
	}
	took := n < len(s.at)
	s.at = s.at[:n]
	return took
}

func (s *schedule) next() (time.Time, bool) {
	if len(s.at) == 0 {
		return time.Time{}, false
	}
	first := s.at[0]
	for _, at := range s.at {
		if at.Before(first) {
			first = at
		}
	}
	return first, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
