package agents

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

const (
	// lookEvery is how often the files of agents are looked at for a change. A look is a stat of two or three files, so that nothing depends on
	// a system's notices of changes, which get lost.
	lookEvery = 250 * time.Millisecond
	// A terminal that printed nothing, and whose files did not change, for idleAfter is looked at every idleEvery.
	idleAfter = 5 * time.Second
	idleEvery = time.Second
	// young is how long after its last change a file is read again: a change within the clock's grain of the last look would not show.
	young = 100 * time.Millisecond
	// drawn is how long after the news of output the screen is looked at: of output that comes in a row, only the first is news.
	drawn = 500 * time.Millisecond
	// promptFor is how long an agent that took a prompt may take to show it.
	promptFor = 10 * time.Second
	// screenTimeout bounds one look at a screen.
	screenTimeout = 2 * time.Second
)

// Options are what a tracker is made of. Screen and Changed must be set.
type Options struct {
	Detectors []Detector
	// Screen gives what a terminal shows.
	Screen func(ctx context.Context, id padi.TerminalID) (kaval.Screen, error)
	// Changed is told that Agent and Resume may give something else for a terminal. It is called without a lock held.
	Changed func(id padi.TerminalID)
	Log     *slog.Logger
}

// Tracker knows the agents of all terminals. See, Active, Forget, Agent, Resume and Explain return at once and may be called concurrently; Run does the
// looking.
type Tracker struct {
	opt       Options
	detectors map[string]Detector
	kick      chan struct{} // holds one
	mu        sync.Mutex
	terminals map[padi.TerminalID]*tracked
	loud      map[string]bool // what was complained of
	recent    []padi.RecentAgent
	// What follows is Run's own.
	owners map[string]owners // by kind
}

// tracked is one terminal. The tracker's lock guards it.
type tracked struct {
	t     kaval.Terminal
	since int64 // of the agent in front, where its start was seen
	held  held
	moved bool  // the taps or the output changed since the last look
	notes notes // Run's own
	// resume outlives the agent until its shell is seen idle.
	resume *padi.Resume
}

// New makes a tracker; Run must run for it to look at files.
func New(opt Options) *Tracker {
	t := &Tracker{
		opt: opt, detectors: map[string]Detector{}, kick: make(chan struct{}, 1), terminals: map[padi.TerminalID]*tracked{},
		loud: map[string]bool{}, owners: map[string]owners{},
	}
	for _, d := range opt.Detectors {
		t.detectors[d.Kind()], t.owners[d.Kind()] = d, owners{}
	}
	return t
}

// See takes what kaval shows of a terminal. What it says of itself counts at once.
func (t *Tracker) See(term kaval.Terminal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.terminals[term.ID]
	if e == nil {
		e = &tracked{}
		t.terminals[term.ID] = e
	}
	t.noteCommand(term, e.t)
	e.see(term)
	t.wake()
}

func (e *tracked) see(term kaval.Terminal) {
	before := e.t
	if blind(term) && !blind(before) { // what was seen last holds, until something else is seen
		term.ForegroundPID, term.ForegroundProcess = before.ForegroundPID, before.ForegroundProcess
	}
	kind := KindOf(term)
	switch {
	case kind == "":
		e.since = 0
		if shellIdle(term) {
			e.resume = nil
		}
	case e.held.kind == "" && shellIdle(before) && before.PID != 0:
		e.since = time.Now().UnixMilli()
	}
	if kind != e.held.kind || term.ForegroundPID != before.ForegroundPID {
		e.held = held{kind: kind}
	}
	e.t, e.held.status, e.moved = term, term.Status, true
	if term.Status != nil && kind != "" {
		e.held.spoke = term.Status.At
	}
	e.held.settlePrompt(time.Now())
}

// blind reports that kaval could not see who has the terminal.
func blind(t kaval.Terminal) bool { return !t.CommandRooted && t.ForegroundPID == 0 }

// shellIdle reports that the terminal's shell itself has the terminal, which a program at its root never tells.
func shellIdle(t kaval.Terminal) bool {
	return !t.CommandRooted && t.ForegroundPID != 0 && t.ForegroundPID == t.PID
}

// Active takes the news of output.
func (t *Tracker) Active(id padi.TerminalID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.terminals[id]; e != nil && e.held.kind != "" {
		e.moved = true
		t.wake()
	}
}

// Forget drops a terminal that ended.
func (t *Tracker) Forget(id padi.TerminalID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.terminals, id)
	t.wake()
}

func (t *Tracker) wake() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// Agent is the agent in front of a terminal, or nil, and how to go on with its conversation.
func (t *Tracker) Agent(id padi.TerminalID) (*padi.Agent, *padi.Resume) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.terminals[id]
	if e == nil {
		return nil, nil
	}
	if e.held.kind == "" {
		return nil, e.resume
	}
	return e.held.fuse(), e.resume
}

// Explain says why a terminal's agent is what it is.
func (t *Tracker) Explain(id padi.TerminalID) (padi.Explanation, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.terminals[id]
	if e == nil {
		return padi.Explanation{}, false
	}
	x := padi.Explanation{ID: id, Resume: e.resume, Evidence: e.held.evidence(e.t, time.Now())}
	if e.held.kind != "" {
		x.Agent = e.held.fuse()
	}
	return x, true
}

// View is what a terminal's screen shows of its agent, looked at now; with the kind of the agent, or "".
func (t *Tracker) View(id padi.TerminalID, screen kaval.Screen) (View, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.terminals[id]
	if e == nil || e.held.kind == "" {
		return View{}, ""
	}
	d := t.detectors[e.held.kind]
	if d == nil {
		return View{}, e.held.kind
	}
	return d.View(screen), e.held.kind
}

// Prompted notes that a terminal's agent was seen to take a prompt: until it says or writes something, or a while has passed, it is not idle.
func (t *Tracker) Prompted(id padi.TerminalID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.terminals[id]; e != nil && e.held.kind != "" {
		e.held.prompted = at.UnixMilli()
		e.held.settlePrompt(time.Now())
		t.wake()
	}
}

// settlePrompt forgets a prompt of which something else tells by now, or that led to nothing.
func (h *held) settlePrompt(now time.Time) {
	if h.prompted == 0 {
		return
	}
	if h.answered() || now.UnixMilli()-h.prompted > promptFor.Milliseconds() {
		h.prompted = 0
	}
}

// WordAt is when a terminal's agent last said itself what it does, in milliseconds since 1970, or 0.
func (t *Tracker) WordAt(id padi.TerminalID) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.terminals[id]; e != nil && e.held.status != nil {
		return e.held.status.At
	}
	return 0
}

// Run looks until ctx ends.
func (t *Tracker) Run(ctx context.Context) {
	for {
		busy := t.look(ctx)
		var tick <-chan time.Time
		if busy {
			tick = time.After(lookEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-t.kick:
			if busy { // what comes in bursts is looked at once
				select {
				case <-ctx.Done():
					return
				case <-time.After(lookEvery / 5):
				}
			}
		}
	}
}

// look looks at every agent once, and reports whether there is any.
func (t *Tracker) look(ctx context.Context) (busy bool) {
	for _, w := range t.work() {
		if ctx.Err() != nil {
			return busy
		}
		if w.detector != nil {
			busy = true
		}
		if !w.idle {
			t.lookAt(ctx, w)
		}
	}
	return busy
}

// work is one terminal to look at, as it was a moment ago.
type work struct {
	entry    *tracked
	detector Detector // nil where there is no agent to look at
	subject  Subject
	before   held
	moved    bool
	idle     bool // there is nothing to look at yet
}

func (t *Tracker) work() []work {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []work
	for id, e := range t.terminals {
		s := Subject{ID: id, PID: frontPID(e.t), CWD: e.t.CWD, Title: e.t.Title, Since: e.since}
		w := work{entry: e, detector: t.detectors[e.held.kind], subject: s, before: e.held, moved: e.moved}
		w.idle = !w.moved && e.held.prompted == 0 && e.notes.subject == s && e.notes.idle(now)
		all = append(all, w)
		e.moved = false
	}
	for _, o := range t.owners { // what ended lets go of its conversation
		for session, id := range o {
			if e := t.terminals[id]; e == nil || e.held.kind == "" {
				delete(o, session)
			}
		}
	}
	return all
}

// frontPID leads the process group in front; at the root of its terminal that is the terminal's own program.
func frontPID(t kaval.Terminal) int {
	if t.ForegroundPID == 0 {
		return t.PID
	}
	return t.ForegroundPID
}

// lookAt looks at one terminal and publishes what is new.
func (t *Tracker) lookAt(ctx context.Context, w work) {
	after := w.before
	if w.detector != nil {
		t.readFiles(w, &after)
		t.readScreen(ctx, w, &after)
	}
	t.mu.Lock()
	e := w.entry
	current := e.held.kind == w.before.kind && frontPID(e.t) == w.subject.PID
	if current {
		after.status, after.spoke, after.prompted = e.held.status, e.held.spoke, e.held.prompted
		after.settlePrompt(time.Now())
		e.held = after
		if cmd, ok := ParseCommand(e.t.LastCommand); ok && after.session != nil {
			e.resume = cmd.Resume(after.kind, after.session.ID)
		}
	}
	changed := current && !sameAnswer(w.before, after)
	t.mu.Unlock()
	if changed {
		t.opt.Changed(w.subject.ID)
	}
}

func sameAnswer(a, b held) bool {
	a.status, a.spoke = b.status, b.spoke // is told as it comes
	return reflect.DeepEqual(a.fuse(), b.fuse())
}

func (t *Tracker) readScreen(ctx context.Context, w work, h *held) {
	own := h.status != nil && stateOf(h.status.State) != padi.Unknown
	var facts Facts
	if h.facts != nil {
		facts = *h.facts
	}
	switch {
	case own, !w.detector.NeedsScreen(facts):
		h.view = nil
		return
	case w.moved:
		w.entry.notes.drawing = time.Now().Add(drawn)
	case h.view != nil && time.Now().After(w.entry.notes.drawing):
		return
	}
	ctx, cancel := context.WithTimeout(ctx, screenTimeout)
	defer cancel()
	screen, err := t.opt.Screen(ctx, w.subject.ID)
	if err != nil { // its terminal may be going
		return
	}
	v := w.detector.View(screen)
	h.view = &v
}

// complain says once that an agent is not as this build knows it.
func (t *Tracker) complain(kind, version, drift string) {
	key := kind + version + drift
	if drift == "" || t.loud[key] {
		return
	}
	t.loud[key] = true
	t.opt.Log.Warn("an agent writes what this build does not know", "agent", kind, "version", version, "what", drift)
}
