package agenttests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kolu/agent-tests/agentstub"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// late is how long after the fact a state may be published on a machine that has much else to do. What was measured is logged; on a quiet one it is below
// a third of a second.
const late = 3 * time.Second

func each(t *testing.T, test func(t *testing.T, e *world)) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, p))
		})
	}
}

// prompt hands over a text and wants a result.
func (e terminal) prompt(text string, want padi.PromptResult) padi.Receipt {
	e.t.Helper()
	r, err := e.w.Prompt(e.t.Context(), e.id, padi.PromptRequest{Data: []byte(text), TimeoutMS: limit.Milliseconds()})
	if err != nil {
		e.t.Fatal(err)
	}
	if r.Result != want {
		e.fail(fmt.Sprintf("prompt %.40q: %s (%s), want %s; evidence %q", text, r.Result, r.Reason, want, r.Evidence))
	}
	return r
}

func (e terminal) key(bytes string) {
	e.t.Helper()
	if err := e.w.Write(e.t.Context(), e.id, kaval.Input{Data: []byte(bytes)}); err != nil {
		e.t.Fatal(err)
	}
}

// escape presses Escape as often as the program needs it.
func (e terminal) escape() time.Time {
	e.t.Helper()
	for i := range e.p.escapes {
		if i > 0 {
			time.Sleep(250 * time.Millisecond) // less is one key press to the program
		}
		e.key("\x1b")
	}
	return time.Now()
}

func asked(prompt string) func(agentstub.Event) bool {
	return func(ev agentstub.Event) bool {
		return !ev.Aux && strings.Contains(strings.Join(strings.Fields(ev.Prompt), " "), strings.Join(strings.Fields(prompt), " "))
	}
}

// took logs how long after a fact its state was published.
func (e terminal) took(what string, fact time.Time, en entry) {
	e.t.Helper()
	d := en.at.Sub(fact).Round(time.Millisecond)
	e.t.Logf("%s: %v after, by its %s", what, d, en.rec.Agent.Source)
	if d > late {
		e.t.Errorf("%s: published %v after the fact", what, d)
	}
}

// TestTurns follows an agent through its turns.
func TestTurns(t *testing.T) {
	each(t, func(t *testing.T, e *world) {
		a := e.start()
		began := time.Now()
		a.prompt("say: hello", padi.Taken) // which waits for the program's start
		e.event(began, "request", asked("say: hello"))
		a.until(-1, "the first turn ends", in(padi.BucketWaiting))
		a.working()
		a.permission()
		a.question()
		a.interrupt()
		a.queued()
		a.failed()
	})
}

// working has a turn held open: it is working from its start to its end and never anything else.
func (e terminal) working() {
	e.t.Helper()
	mark, began := e.mark(), time.Now()
	e.prompt("hold: turn ;; say: done", padi.Taken)
	open := e.event(began, "request", asked("hold: turn"))
	e.took("working", open, e.until(mark, "working", in(padi.BucketWorking)))
	mark = e.mark()
	time.Sleep(3 * time.Second) // of a turn in which nothing happens
	e.never(mark, padi.BucketWaiting, "a turn was under way")
	e.stub.Release("turn")
	end := e.event(open, "end", nil)
	e.took("ended", end, e.until(mark, "the turn ends", in(padi.BucketWaiting)))
}

// permission has a tool asked for that needs one.
func (e terminal) permission() {
	e.t.Helper()
	mark, began := e.mark(), time.Now()
	file := filepath.Join(e.cwd, "made")
	e.prompt("bash: touch made", padi.Taken)
	fact := e.event(began, "tool", nil)
	en := e.until(mark, "a permission is asked", in(padi.BucketAwaiting))
	e.took("permission", fact, en)
	if en.rec.Agent.Asks != "permission" {
		e.t.Errorf("asks for %q", en.rec.Agent.Asks)
	}
	e.never(mark, padi.BucketWaiting, "a turn was under way")
	if r := e.prompt("say: into the dialog", padi.Blocked); r.Bytes != 0 {
		e.t.Errorf("typed %d bytes into the dialog", r.Bytes)
	}
	mark = e.mark()
	e.answer(mark)
	e.until(mark, "the turn ends", in(padi.BucketWaiting))
	if _, err := os.Stat(file); err != nil {
		e.t.Errorf("the tool did not run: %v", err)
	}
}

// answer presses Enter at a dialog until the agent says that it works or that its turn has ended: a fresh one ignores it.
func (e terminal) answer(mark int) {
	e.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		e.key("\r")
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			r, err := e.w.Terminal(e.t.Context(), e.id)
			if err == nil && r.Agent != nil && r.Agent.State != padi.AwaitingUser {
				return
			}
		}
		if time.Now().After(deadline) {
			e.fail("the dialog was never answered")
		}
	}
}

func (e terminal) question() {
	e.t.Helper()
	mark, began := e.mark(), time.Now()
	e.prompt("ask: Which colour should it be?", padi.Taken)
	fact := e.event(began, "tool", nil)
	en := e.until(mark, "a question is asked", in(padi.BucketAwaiting))
	e.took("question", fact, en)
	if en.rec.Agent.Asks != "question" {
		e.t.Errorf("asks for %q", en.rec.Agent.Asks)
	}
	mark = e.mark()
	e.answer(mark)
	e.until(mark, "the turn ends", in(padi.BucketWaiting))
}

func (e terminal) interrupt() {
	e.t.Helper()
	mark, began := e.mark(), time.Now()
	e.prompt("hold: cut", padi.Taken)
	e.event(began, "request", asked("hold: cut"))
	e.until(mark, "working", in(padi.BucketWorking))
	mark = e.mark()
	fact := e.escape()
	e.took("interrupted", fact, e.until(mark, "the turn is over", in(padi.BucketWaiting)))
	e.stub.Release("cut")
	e.clear()
}

// clear empties the composer, into which some programs put an interrupted prompt back.
func (e terminal) clear() {
	e.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		r, err := e.w.Prompt(e.t.Context(), e.id, padi.PromptRequest{Data: []byte("say: after the cut"), TimeoutMS: limit.Milliseconds()})
		if err != nil {
			e.t.Fatal(err)
		}
		if r.Result == padi.Taken {
			e.until(-1, "the turn ends", in(padi.BucketWaiting))
			return
		}
		if time.Now().After(deadline) {
			e.fail("the composer is never free: " + r.Reason)
		}
		e.key("\x15")
	}
}

// queued has a prompt handed over in the middle of a turn: it waits for its end, and cuts nothing short.
func (e terminal) queued() {
	e.t.Helper()
	mark, began := e.mark(), time.Now()
	e.prompt("hold: long ;; say: whole", padi.Taken)
	e.event(began, "request", asked("hold: long"))
	e.until(mark, "working", in(padi.BucketWorking))
	e.prompt("say: queued behind", padi.Busy)
	released := time.Now()
	e.stub.Release("long")
	e.event(released, "request", asked("say: queued behind"))
	for _, ev := range e.stub.Events() {
		if ev.What == "cancelled" && time.UnixMicro(int64(ev.T*1000)).After(began) {
			e.t.Error("the turn was cut short")
		}
	}
	e.until(-1, "all ends", in(padi.BucketWaiting))
	e.settled()
}

// failed has the model server refuse: the turn ends. opencode tries again for ever.
func (e terminal) failed() {
	if e.p.name == "opencode" {
		return
	}
	e.t.Helper()
	mark := e.mark()
	e.prompt("error: 400 no", padi.Taken)
	e.until(mark, "the turn ends", in(padi.BucketWaiting))
}

// settled waits until the agent has been idle for a while.
func (e terminal) settled() {
	e.t.Helper()
	for idle := 0; idle < 10; idle++ {
		time.Sleep(100 * time.Millisecond)
		if r, err := e.w.Terminal(e.t.Context(), e.id); err != nil || !in(padi.BucketWaiting)(r) {
			idle = -1
		}
	}
}

// TestPromptsArriveWhole hands over prompts of 1 to 400 lines: each is taken, and the model server gets it as it was. KOLU_AGENTS_PROMPTS says how many.
func TestPromptsArriveWhole(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5, 10, 25, 60, 150, 400}
	count := len(sizes)
	if n, err := strconv.Atoi(os.Getenv("KOLU_AGENTS_PROMPTS")); err == nil {
		count = n
	}
	each(t, func(t *testing.T, e *world) {
		a := e.start()
		for i := range count {
			n := sizes[i%len(sizes)]
			text := lines(i, n)
			began := time.Now()
			r := a.prompt(text, padi.Taken)
			e.event(began, "request", asked(text))
			if !r.Bracketed {
				t.Errorf("%d lines were not marked as a paste", n)
			}
			a.until(-1, "the turn ends", in(padi.BucketWaiting))
		}
		if got := requests(e); got != count {
			t.Errorf("%d prompts arrived of %d", got, count)
		}
	})
}

// requests counts the turns that began.
func requests(e *world) int {
	seen := map[string]bool{}
	for _, ev := range e.stub.Events() {
		if ev.What == "request" && !ev.Aux {
			seen[ev.Prompt] = true
		}
	}
	return len(seen)
}

func lines(i, n int) string {
	var b strings.Builder
	for j := range n {
		fmt.Fprintf(&b, "prompt %d, line %d: the quick brown fox, 100 %% of it\n", i, j)
	}
	return b.String()
}

// TestComesBack ends an agent and goes on with its conversation by the line that its record had; and tells two of one directory apart.
func TestComesBack(t *testing.T) {
	each(t, func(t *testing.T, e *world) {
		a := e.start()
		a.prompt("say: one", padi.Taken)
		b := e.start() // not at once: of two first starts of opencode in one home the second was seen to stay without a screen
		b.prompt("say: two", padi.Taken)
		hasResume := func(r padi.Record) bool { return r.Resume != nil && in(padi.BucketWaiting)(r) }
		first, second := a.until(-1, "a conversation", hasResume).rec, b.until(-1, "a conversation", hasResume).rec
		if first.Resume.SessionID == second.Resume.SessionID {
			t.Fatalf("both are in %s", first.Resume.SessionID)
		}
		mark := a.mark()
		if r, err := e.w.Prompt(t.Context(), a.id, padi.PromptRequest{Data: []byte(e.p.quit)}); err != nil || r.Result != padi.AgentGone && r.Result != padi.Taken {
			t.Fatalf("quit: %+v, %v", r, err)
		}
		gone := a.until(mark, "no agent", func(r padi.Record) bool { return r.Agent == nil }).rec
		if gone.Resume != nil {
			t.Errorf("an agent that ended by itself would come back: %+v", gone.Resume)
		}
		c := e.start("bash", "-ic", first.Resume.Command)
		began := time.Now()
		c.prompt("say: three", padi.Taken)
		e.event(began, "request", asked("say: three"))
		back := c.until(-1, "its conversation", func(r padi.Record) bool {
			return r.Agent != nil && r.Agent.SessionID != "" && in(padi.BucketWaiting)(r)
		}).rec
		if back.Agent.SessionID != first.Resume.SessionID {
			t.Errorf("came back as %s, was %s (%s)", back.Agent.SessionID, first.Resume.SessionID, first.Resume.Command)
		}
		b.crash(second.Foreground.PID)
	})
}

// crash kills an agent in the middle of a turn: it is gone, whatever it left behind.
func (e terminal) crash(pid int) {
	e.t.Helper()
	mark := e.mark()
	e.prompt("hold: crash", padi.Taken)
	e.until(mark, "working", in(padi.BucketWorking))
	mark = e.mark()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		e.t.Fatal(err)
	}
	fact := time.Now()
	en := e.until(mark, "no agent", func(r padi.Record) bool { return r.Agent == nil })
	if d := en.at.Sub(fact); d > late {
		e.t.Errorf("gone %v after the fact", d)
	}
	e.never(mark, padi.BucketWaiting, "it was killed")
	e.prompt("say: to nobody", padi.AgentGone)
}

// TestDialogsOfAFirstStart has an agent stop at a dialog of its first start: nothing is typed at it, and it is not called idle.
func TestDialogsOfAFirstStart(t *testing.T) {
	i := slices.IndexFunc(programs, func(p program) bool { return p.name == "claude" })
	p := programs[i]
	p.setup = func(t *testing.T, home, _, _ string) {
		write(t, filepath.Join(home, ".claude.json"), `{"hasCompletedOnboarding": true, "customApiKeyResponses": {"approved": ["ubstubstubstubstubAA"], "rejected": []}}`)
	}
	e := newWorld(t, p)
	a := e.start()
	mark := a.mark()
	r := a.prompt("say: to a dialog", padi.Blocked)
	if r.Bytes != 0 || !strings.Contains(r.Screen, "trust") {
		t.Errorf("receipt %+v", r)
	}
	a.never(mark, padi.BucketWaiting, "a dialog was up")
}

// TestCodexsDaemon runs Codex as it runs unless it is told otherwise: a daemon of its own keeps the threads, outside of the terminal.
func TestCodexsDaemon(t *testing.T) {
	p := programs[slices.IndexFunc(programs, func(p program) bool { return p.name == "codex" })]
	e := newWorld(t, p)
	a := e.start("codex")
	t.Cleanup(func() { endDaemons(e.home) })
	a.prompt("say: through a daemon", padi.Taken)
	rec := a.until(-1, "its conversation", func(r padi.Record) bool { return r.Resume != nil && in(padi.BucketWaiting)(r) }).rec
	if !strings.HasPrefix(rec.Resume.Command, "codex resume "+rec.Agent.SessionID) {
		t.Errorf("resumes by %q", rec.Resume.Command)
	}
}

// endDaemons ends what an agent left running that has this home.
func endDaemons(home string) {
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range entries {
		if env, err := os.ReadFile(path); err == nil && strings.Contains("\x00"+string(env), "\x00HOME="+home+"\x00") {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
