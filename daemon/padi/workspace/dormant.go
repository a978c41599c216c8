package workspace

import (
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/session"
)

// What runs, what is parked, and what sleeps: all are entries of the registry, in one order, and all are saved. So a save can't lose
// what is not running, and what is started again takes its own place.

// again is what is known of a terminal before its agent was seen in it.
type again struct {
	resume *padi.Resume
	// command is what the shell ran last when resume was true. Of one that was started anew, which has run nothing yet, it is empty.
	command string
	started time.Time // zero where it ran already
}

// soonEnded is how soon after a restore the end of a terminal means that the restore failed, say for want of its shell, and not that
// its user left it.
const soonEnded = 3 * time.Second

// lease keeps the registry frozen. Several may, each with its own.
type lease struct{ _ byte }

// seed takes over what was saved: nothing runs until kaval says so.
func (r *registry) seed(saved session.Saved) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paired = saved.Kaval
	for _, s := range saved.Terminals {
		if r.entries[s.ID] == nil {
			r.seedOne(s)
		}
		if s.State == padi.Active {
			r.doubtful[s.ID] = true
		}
	}
}

func (r *registry) seedOne(s session.Terminal) {
	rec := padi.Record{
		ID: s.ID, State: padi.Parked, ParentID: s.ParentID, Intent: s.Intent, CWD: s.CWD, Git: s.Git, LastCommand: s.LastCommand, Resume: s.Resume,
		LastActivityAt: s.LastActivityAt, CreatedAt: s.CreatedAt, ParkedAt: s.ParkedAt, PR: padi.PR{Kind: "unsupported"},
	}
	switch {
	case s.State == padi.Sleeping:
		rec.State, rec.SleptAt, rec.ParkedAt = padi.Sleeping, s.SleptAt, 0
	case rec.ParkedAt == 0:
		rec.ParkedAt = time.Now().UnixMilli()
	}
	e := &entry{rec: rec, saved: s}
	if s.Resume != nil {
		e.again = &again{resume: s.Resume, command: s.LastCommand}
	}
	r.entries[s.ID] = e
	r.order = append(r.order, s.ID)
}

// agentOf folds in what is known of a terminal's agent. A conversation that is to be gone on with is remembered until an agent is
// there, so that a crash in between doesn't lose it.
func (r *registry) agentOf(e *entry) {
	e.rec.Agent, e.rec.Resume = r.agents.Agent(e.rec.ID)
	switch {
	case e.again == nil:
	case e.rec.Agent != nil && e.rec.Resume != nil, e.again.over(e.rec):
		e.again = nil
	case e.rec.Resume == nil:
		e.rec.Resume = e.again.resume
	}
}

// over reports that the shell of a terminal shows that what was to be gone on with is not: it stands idle where the agent ran, or has
// run something else since.
func (a *again) over(rec padi.Record) bool {
	if rec.Agent != nil || rec.Foreground == nil {
		return false
	}
	idle := rec.Foreground.PID != 0 && rec.Foreground.PID == rec.PID
	if a.started.IsZero() {
		return idle
	}
	return idle && rec.LastCommand != "" && rec.LastCommand != a.command && (a.resume == nil || rec.LastCommand != a.resume.Command)
}

// exited takes an end that kaval tells. That of a terminal which is not meant to run is no news, and one that comes right after a
// restore is the restore's.
func (r *registry) exited(id padi.TerminalID, code *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.frozen) > 0 {
		return
	}
	e := r.entries[id]
	switch {
	case e != nil && e.rec.State != padi.Active:
	case e != nil && e.again != nil && !e.again.started.IsZero() && time.Since(e.again.started) < soonEnded:
		r.parkLocked(e)
	default:
		r.endLocked(id, code)
	}
}

// park keeps a record whose terminal went with its kaval.
func (r *registry) park(id padi.TerminalID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[id]; e != nil && e.rec.State == padi.Active {
		r.parkLocked(e)
	}
}

func (r *registry) parkLocked(e *entry) {
	r.stopped(e, padi.Parked, func(rec *padi.Record) { rec.ParkedAt = time.Now().UnixMilli() })
}

// stopped makes a record one that runs nothing.
func (r *registry) stopped(e *entry, state padi.State, set func(*padi.Record)) {
	e.stopQuiet()
	r.agents.Forget(e.rec.ID)
	before := e.rec
	e.rec.State, e.rec.PID, e.rec.Agent, e.rec.Foreground, e.rec.Ports = state, 0, nil, nil, nil
	set(&e.rec)
	if e.rec.Resume != nil {
		e.again = &again{resume: e.rec.Resume, command: e.rec.LastCommand}
	}
	r.publishChange(e, before)
}

// freeze parks everything that runs and takes no news from kaval until its lease is given back.
func (r *registry) freeze() *lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.order {
		if e := r.entries[id]; e.rec.State == padi.Active {
			r.parkLocked(e)
		}
	}
	l := &lease{}
	r.frozen[l] = true
	return l
}

func (r *registry) thaw(l *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.frozen, l)
	r.markDirty()
}

func (r *registry) isFrozen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.frozen) > 0
}

// sleep puts a running terminal to sleep. done reports that it ran.
func (r *registry) sleep(id padi.TerminalID) (rec padi.Record, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil {
		return padi.Record{}, false, noTerminal(id)
	}
	if e.rec.State == padi.Active {
		done = true
		r.stopped(e, padi.Sleeping, func(rec *padi.Record) { rec.SleptAt = time.Now().UnixMilli() })
	}
	return e.show(), done, nil
}

// strays are the terminals that run although they were put to sleep: padi ended between the two.
func (r *registry) strays(live []kaval.Terminal) (ids []padi.TerminalID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range live {
		if e := r.entries[t.ID]; e != nil && e.rec.State == padi.Sleeping && r.expected[t.ID] == nil {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// rename sets an intent.
func (r *registry) rename(id padi.TerminalID, intent string) (padi.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil {
		return padi.Record{}, noTerminal(id)
	}
	before := e.rec
	e.rec.Intent = intent
	r.publishChange(e, before)
	return e.show(), nil
}

// claim takes a dormant terminal to start it, without its agent's conversation if declined. It gives false when the terminal is being
// started already, runs, or is not there.
func (r *registry) claim(id padi.TerminalID, state padi.State, declined bool) (padi.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil || e.rec.State != state || r.expected[id] != nil {
		return padi.Record{}, false
	}
	rec := e.show()
	if declined {
		rec.Resume = nil
	}
	e.again = &again{resume: rec.Resume, command: rec.LastCommand, started: time.Now()}
	r.expected[id] = &rec
	r.ended.drop(id)
	return rec, true
}

// release gives up a claim.
func (r *registry) release(id padi.TerminalID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.expected, id)
	if e := r.entries[id]; e != nil && e.rec.State != padi.Active {
		e.again = &again{resume: e.rec.Resume, command: e.rec.LastCommand}
	}
}

// started takes the answer of the spawn of a claimed terminal. It gives false when the terminal was given up in the meantime.
func (r *registry) started(t kaval.Terminal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[t.ID]
	if e == nil || r.expected[t.ID] == nil {
		return false
	}
	if e.rec.State != padi.Active { // the events were slower
		r.foldLocked(t)
	}
	if e.again != nil {
		e.again.started = time.Now()
	}
	delete(r.expected, t.ID)
	return true
}

// parked are the parked records, or those among ids, in registry order. missing are ids that no record has.
func (r *registry) parked(ids []padi.TerminalID) (parked []padi.TerminalID, missing []padi.TerminalID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := map[padi.TerminalID]bool{}
	for _, id := range ids {
		wanted[id] = true
		if r.entries[id] == nil {
			missing = append(missing, id)
		}
	}
	for _, id := range r.order {
		if r.entries[id].rec.State == padi.Parked && (len(ids) == 0 || wanted[id]) {
			parked = append(parked, id)
		}
	}
	return parked, missing
}

// forgetParked forgets the parked terminals among ids; splits of theirs become tiles of their own.
func (r *registry) forgetParked(ids []padi.TerminalID) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if e := r.entries[id]; e != nil && e.rec.State == padi.Parked && r.expected[id] == nil {
			r.endLocked(id, nil)
			n++
		}
	}
	return n
}

// recall adds what a backup holds and the roster does not, parked.
func (r *registry) recall(saved []session.Terminal) (parked []padi.Record, known int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range saved {
		if r.entries[s.ID] != nil {
			known++
			continue
		}
		s.State, s.ParkedAt = padi.Parked, 0
		r.ended.drop(s.ID)
		r.seedOne(s)
		e := r.entries[s.ID]
		e.saved = session.Terminal{}
		r.publishChange(e, padi.Record{})
		parked = append(parked, e.show())
	}
	return parked, known
}

// unsleep takes a sleep back that could not be saved; what kaval says next makes the terminal active again.
func (r *registry) unsleep(id padi.TerminalID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[id]; e != nil && e.rec.State == padi.Sleeping {
		before := e.rec
		e.rec.State, e.rec.SleptAt = padi.Parked, 0
		r.publishChange(e, before)
	}
}

// orphaned makes a terminal whose parent has no record a tile of its own, and reports whether it was one.
func (r *registry) orphaned(id padi.TerminalID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil || e.rec.ParentID == "" || r.entries[e.rec.ParentID] != nil {
		return false
	}
	before := e.rec
	e.rec.ParentID = ""
	r.publishChange(e, before)
	return true
}
