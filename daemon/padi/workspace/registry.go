package workspace

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/session"
)

// quietAfter is how long a terminal must print nothing to count as quiet.
const quietAfter = time.Second

// registry holds the records and tells subscribers what changed. Its methods never block.
type registry struct {
	mu      sync.Mutex
	entries map[padi.TerminalID]*entry
	order   []padi.TerminalID // of creation
	// expected are terminals being made: what kaval will show with these ids was asked for here.
	expected map[padi.TerminalID]*padi.Record
	// doubtful are the terminals that ran when the session was saved, until kaval has said whether they still do; they are in this life
	// of kaval, as the session had it.
	doubtful map[padi.TerminalID]bool
	paired   string
	// frozen are the leases of those who put another kaval in the place of the one that runs: what the old one still says is no news.
	frozen  map[*lease]bool
	ended   tombstones
	seq     int64
	subs    map[*subscriber]struct{}
	changed chan struct{}               // closed and replaced with each event
	dirty   chan struct{}               // holds one: something to save
	moved   func(cwd string)            // told when the checkout there may have changed
	pr      func(git *padi.Git) padi.PR // what is known of its pull request
	agents  *agents.Tracker
	// connected reports that kaval's events come in.
	connected bool
	closed    bool
}

type entry struct {
	rec      padi.Record // its pointers are never written through
	seen     time.Time   // when the last output was, by the clock here
	output   int64
	quiet    *quiet // while output counts as going on
	gitKnown bool
	saved    session.Terminal // as far as saving is concerned
	lingers  time.Time        // when the agent's turn ended
	urging   *quiet           // while its work may be over soon
	again    *again           // of one that was started from its record, or seeded from it, until its agent is seen
}

// quiet is the end of one stretch of output.
type quiet struct{ timer *time.Timer }

func (r *registry) init(moved func(cwd string), pr func(*padi.Git) padi.PR, tracker *agents.Tracker) {
	r.entries = map[padi.TerminalID]*entry{}
	r.expected, r.doubtful, r.frozen = map[padi.TerminalID]*padi.Record{}, map[padi.TerminalID]bool{}, map[*lease]bool{}
	r.ended.codes = map[padi.TerminalID]*int{}
	r.subs = map[*subscriber]struct{}{}
	r.changed = make(chan struct{})
	r.dirty = make(chan struct{}, 1)
	r.moved, r.pr, r.agents = moved, pr, tracker
}

func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, e := range r.entries {
		e.stopQuiet()
	}
	for s := range r.subs {
		s.wakeUp()
	}
	r.wakeWaiters()
}

func (r *registry) records() []padi.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recordsLocked()
}

func (r *registry) recordsLocked() []padi.Record {
	out := make([]padi.Record, 0, len(r.order))
	for _, id := range r.order {
		out = append(out, r.entries[id].show())
	}
	return out
}

func (r *registry) record(id padi.TerminalID) (padi.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[id]
	if !ok {
		return padi.Record{}, false
	}
	return e.show(), true
}

func (r *registry) isConnected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connected
}

func (r *registry) setConnected(up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.connected != up {
		r.connected = up
		r.wakeWaiters()
	}
}

// show is the record for a reader, who may keep it and change it.
func (e *entry) show() padi.Record {
	rec := e.rec
	rec.Git, rec.Agent, rec.Foreground, rec.Resume = copied(rec.Git), copied(rec.Agent), copied(rec.Foreground), copied(rec.Resume)
	rec.Ports, rec.PR.CheckRuns = copied(rec.Ports), slices.Clone(rec.PR.CheckRuns)
	if rec.Ports != nil {
		rec.Ports.List = slices.Clone(rec.Ports.List)
	}
	if !e.seen.IsZero() {
		rec.IdleMS = time.Since(e.seen).Milliseconds()
	}
	return rec
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// candidates are the terminals that are thought to run, in the kaval of that name.
func (r *registry) candidates() (ids []padi.TerminalID, kaval string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.order {
		if r.entries[id].rec.State == padi.Active || r.doubtful[id] {
			ids = append(ids, id)
		}
	}
	return ids, r.paired
}

// pair notes in which kaval everything that runs does. What kaval has not shown is parked for good.
func (r *registry) pair(kaval string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paired != kaval || len(r.doubtful) > 0 {
		r.paired = kaval
		clear(r.doubtful)
		r.markDirty()
	}
}

// activeIDs are the terminals that are thought to run.
func (r *registry) activeIDs() []padi.TerminalID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.order), func(id padi.TerminalID) bool {
		return r.entries[id].rec.State != padi.Active
	})
}

// expect notes what a spawn that is about to be asked for is for. Until forget or the terminal's first sight.
func (r *registry) expect(rec padi.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected[rec.ID] = &rec
}

func (r *registry) forget(id padi.TerminalID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.expected, id)
}

// spawned takes what a spawn returned, unless the events were faster.
func (r *registry) spawned(t kaval.Terminal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[t.ID] == nil {
		r.foldLocked(t)
	}
}

// fold takes what kaval shows of a live terminal. One that is not known is adopted: as what was asked for, else as a tile of its
// own. One that is known to have ended is old news.
func (r *registry) fold(t kaval.Terminal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.foldLocked(t)
}

func (r *registry) foldLocked(t kaval.Terminal) {
	if r.ended.has(t.ID) || len(r.frozen) > 0 {
		return
	}
	e := r.entries[t.ID]
	if e == nil {
		e = r.adopt(t.ID)
	}
	if e.rec.State == padi.Sleeping && r.expected[t.ID] == nil {
		return // it was put to sleep, and is ending or shall be
	}
	before := e.rec
	delete(r.doubtful, t.ID)
	e.see(t)
	r.agents.See(t)
	r.agentOf(e)
	r.publishChange(e, before)
	if before.CWD != e.rec.CWD || before.LastCommand != e.rec.LastCommand || !reflect.DeepEqual(before.Foreground, e.rec.Foreground) {
		r.moved(e.rec.CWD)
	}
}

func (r *registry) adopt(id padi.TerminalID) *entry {
	rec := padi.Record{ID: id}
	if asked := r.expected[id]; asked != nil {
		rec = *asked
		delete(r.expected, id)
	}
	if parent := r.entries[rec.ParentID]; parent == nil { // it may have ended in the meantime
		rec.ParentID = ""
	}
	e := &entry{rec: rec}
	r.entries[id] = e
	r.order = append(r.order, id)
	return e
}

// see folds kaval's view into the record.
func (e *entry) see(t kaval.Terminal) {
	e.rec.State, e.rec.SleptAt, e.rec.ParkedAt = padi.Active, 0, 0
	e.rec.CWD, e.rec.PID = t.CWD, t.PID
	e.rec.CreatedAt = t.StartedAt
	e.rec.LastCommand = t.LastCommand
	e.rec.LastActivityAt = t.LastActivity
	e.rec.Foreground = foreground(t)
	if !e.gitKnown {
		e.rec.PR = padi.PR{Kind: "pending"}
	}
	if e.rec.Ports == nil {
		e.rec.Ports = &padi.Ports{Status: "unknown"}
	}
	e.seen = time.Now().Add(-time.Duration(t.IdleMS) * time.Millisecond)
	e.output = t.Output
}

func foreground(t kaval.Terminal) *padi.Foreground {
	if t.ForegroundProcess == "" {
		return nil
	}
	return &padi.Foreground{Name: t.ForegroundProcess, PID: t.ForegroundPID, Title: t.Title}
}

// active takes the news of output.
func (r *registry) active(id padi.TerminalID, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil || r.closed {
		return
	}
	e.seen, e.rec.LastActivityAt = time.Now(), at
	r.agents.Active(id)
	if e.quiet != nil { // a timer that fired already waits for the lock, and then sees that it is no longer the one
		e.quiet.timer.Stop()
	}
	began := e.quiet == nil
	q := &quiet{}
	q.timer = time.AfterFunc(quietAfter, func() { r.wentQuiet(id, q) })
	e.quiet = q
	if !began {
		return
	}
	r.publish(padi.Event{Kind: padi.EventActivity, ID: id, Live: true})
}

func (r *registry) wentQuiet(id padi.TerminalID, q *quiet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil || e.quiet != q || r.closed {
		return
	}
	e.quiet = nil
	r.publish(padi.Event{Kind: padi.EventActivity, ID: id})
	r.moved(e.rec.CWD)
}

func (e *entry) stopQuiet() {
	if e.quiet != nil {
		e.quiet.timer.Stop()
		e.quiet = nil
	}
	e.stopUrging()
}

// end drops a terminal that ended or was forgotten; its splits become tiles of their own. code may be unknown.
func (r *registry) end(id padi.TerminalID, code *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(id, code)
}

func (r *registry) endLocked(id padi.TerminalID, code *int) {
	delete(r.expected, id)
	delete(r.doubtful, id)
	r.agents.Forget(id)
	r.ended.add(id, code)
	e := r.entries[id]
	if e == nil {
		return
	}
	e.stopQuiet()
	delete(r.entries, id)
	r.order = slices.DeleteFunc(r.order, func(o padi.TerminalID) bool { return o == id })
	r.publish(padi.Event{Kind: padi.EventRemoved, ID: id})
	r.markDirty()
	for _, child := range r.order {
		if c := r.entries[child]; c.rec.ParentID == id {
			before := c.rec
			c.rec.ParentID = ""
			r.publishChange(c, before)
		}
	}
}

// agentMoved takes what the files and the screen of a terminal's agent say now.
func (r *registry) agentMoved(id padi.TerminalID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	if e == nil || e.rec.State != padi.Active || r.closed {
		return
	}
	before := e.rec
	r.agentOf(e)
	r.publishChange(e, before)
}

// gitSeen folds what a look at cwd found into the terminals that are there now.
func (r *registry) gitSeen(cwd string, git *padi.Git) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.order {
		e := r.entries[id]
		if e.rec.State != padi.Active || e.rec.CWD != cwd {
			continue
		}
		before := e.rec
		e.rec.Git, e.gitKnown = git, true
		e.rec.PR = r.pr(git)
		r.publishChange(e, before)
	}
}

// cwds are the directories of running terminals, each once.
func (r *registry) cwds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, id := range r.order {
		if e := r.entries[id]; e.rec.State == padi.Active && e.rec.CWD != "" && !slices.Contains(out, e.rec.CWD) {
			out = append(out, e.rec.CWD)
		}
	}
	return out
}

// publishChange tells of a record, unless nothing but its age changed.
func (r *registry) publishChange(e *entry, before padi.Record) {
	r.urge(e)
	after := e.rec
	before.LastActivityAt, before.IdleMS = after.LastActivityAt, after.IdleMS
	if reflect.DeepEqual(before, after) {
		return
	}
	rec := e.show()
	r.publish(padi.Event{Kind: padi.EventChanged, ID: rec.ID, Record: &rec})
	now := saved(e.rec)
	now.LastActivityAt = 0
	if !reflect.DeepEqual(now, e.saved) {
		e.saved = now
		r.markDirty()
	}
}

func (r *registry) publish(ev padi.Event) {
	r.seq++
	ev.Seq, ev.At = r.seq, time.Now().UnixMilli()
	for s := range r.subs {
		s.push(ev)
	}
	r.wakeWaiters()
}

func (r *registry) wakeWaiters() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *registry) markDirty() {
	select {
	case r.dirty <- struct{}{}:
	default:
	}
}

// tombstones remember the exits of the terminals that ended last.
type tombstones struct {
	codes map[padi.TerminalID]*int
	order []padi.TerminalID
}

func (t *tombstones) add(id padi.TerminalID, code *int) {
	if t.has(id) {
		if code != nil {
			t.codes[id] = code
		}
		return
	}
	t.codes[id] = code
	t.order = append(t.order, id)
	if len(t.order) > kaval.Tombstones {
		delete(t.codes, t.order[0])
		t.order = t.order[1:]
	}
}

func (t *tombstones) has(id padi.TerminalID) bool {
	_, ok := t.codes[id]
	return ok
}

func (t *tombstones) drop(id padi.TerminalID) {
	delete(t.codes, id)
	t.order = slices.DeleteFunc(t.order, func(o padi.TerminalID) bool { return o == id })
}
