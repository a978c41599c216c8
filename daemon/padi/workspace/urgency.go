package workspace

import (
	"time"

	"kolu/daemon/padi"
)

// urge says in a record how much its agent needs somebody; the lock is held. The end of a turn is the end of the work once the terminal
// printed nothing for padi.FinishedAfter since; it stays so, whatever is painted later, until the agent does something else. An agent
// that is first seen when its turn is over ended it with the last output.
func (r *registry) urge(e *entry) {
	first := e.rec.Urgency == ""
	now := urgencyOf(e.rec)
	if now != padi.Lingering {
		e.stopUrging()
		e.rec.Urgency = now
		return
	}
	if e.rec.Urgency == padi.Lingering || e.rec.Urgency == padi.Finished {
		return
	}
	e.rec.Urgency, e.lingers = padi.Lingering, time.Now()
	if first {
		e.lingers = e.seen
	}
	if left := e.lingersFor(); left > 0 {
		r.promoteAfter(e, left)
	} else {
		e.rec.Urgency = padi.Finished
	}
}

func urgencyOf(rec padi.Record) padi.Urgency {
	if rec.Agent == nil || rec.State != padi.Active {
		return ""
	}
	return map[padi.Bucket]padi.Urgency{
		padi.BucketAwaiting: padi.Awaiting, padi.BucketWorking: padi.Working, padi.BucketWaiting: padi.Lingering,
	}[rec.Agent.State.Bucket()]
}

// lingersFor is how long it takes until the work is over, if nothing is printed.
func (e *entry) lingersFor() time.Duration {
	since := e.lingers
	if e.seen.After(since) {
		since = e.seen
	}
	return padi.FinishedAfter - time.Since(since)
}

func (r *registry) promoteAfter(e *entry, d time.Duration) {
	q := &quiet{}
	q.timer = time.AfterFunc(d, func() { r.promote(e, q) })
	e.urging = q
}

func (r *registry) promote(e *entry, q *quiet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.urging != q || r.closed || r.entries[e.rec.ID] != e {
		return
	}
	switch left := e.lingersFor(); {
	case !r.connected: // nobody sees what is printed
		r.promoteAfter(e, padi.FinishedAfter)
	case left > 0:
		r.promoteAfter(e, left)
	default:
		before := e.rec
		e.urging, e.rec.Urgency = nil, padi.Finished
		r.publishChange(e, before)
	}
}

func (e *entry) stopUrging() {
	if e.urging != nil {
		e.urging.timer.Stop()
		e.urging = nil
	}
}
