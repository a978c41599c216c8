// Package submit hands a text to an agent as one prompt and says, by what it sees, what became of it. For the workspace. It types where there is a composer and
// nowhere else, waits until the composer shows the text, presses Enter as a write of its own, and watches the composer empty. There is no fixed pause in it: each step
// ends when something is seen, or when its time is over. Start reading at [Prompt].
package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

const (
	// DefaultTimeout is how long a composer may take to appear, and an agent to take what was typed.
	DefaultTimeout = 30 * time.Second
	// each is how often the terminal is looked at.
	each = 20 * time.Millisecond
	// steady is how long the composer must show the same before Enter is pressed: Codex takes one within 100 ms of typed text for a line break.
	steady = 150 * time.Millisecond
	// again is after how long Enter is pressed once more at a composer that still holds the text; each further time takes twice as long. opencode ignores it for
	// seconds while it starts on a busy machine.
	again = 1500 * time.Millisecond
	// settled is how long at most the text may take to show; Enter is pressed then all the same, if nothing speaks against it.
	settleLimit = 10 * time.Second
	// holdsFor is how long a dialog must be seen to count, since one that was just answered may still be drawn.
	holdsFor = 300 * time.Millisecond
	// quiet is for how long a terminal prints nothing when its composer counts as being what it seems; else it must stay the same for a moment. Claude puts an interrupted
	// prompt back a little after it says that it is idle.
	quiet = 500 * time.Millisecond
	// splitFor is how long a screen may show a turn after its end.
	splitFor = 3 * time.Second
	// absentFor is how long an agent may take to be started, by a command that was typed just now.
	absentFor = 3 * time.Second
	// plainAfter is how long a composer must be there until a program that has not asked for marked pastes counts as one that never does.
	plainAfter = 2 * time.Second
)

// Look is a terminal at one moment.
type Look struct {
	Gone     bool // the terminal ended
	ExitCode *int
	Front    string // the program in front
	// Kind is that of the agent in front, "" without one.
	Kind  string
	Agent *padi.Agent
	// WordAt is when the agent last said itself what it does, in milliseconds since 1970.
	WordAt int64
	// IdleMS is how long ago the last output was.
	IdleMS int64
	Screen kaval.Screen
	View   agents.View
}

// working reports whether a turn is under way. An agent's own word is ahead of its screen.
func (l Look) working() bool {
	if l.Agent != nil && l.Agent.Source == agents.FromStatus {
		return l.Agent.State.Bucket() == padi.BucketWorking
	}
	return l.Agent != nil && l.Agent.State.Bucket() == padi.BucketWorking || l.View.State == padi.Thinking
}

// witness is what tells that a turn is under way.
func (l Look) witness() string {
	if l.Agent != nil && l.Agent.State.Bucket() == padi.BucketWorking {
		return l.Agent.Source
	}
	return agents.FromScreen
}

// split reports whether the screen still shows a turn that has ended by everything else, as it does for a moment.
func (l Look) split() bool {
	return l.Agent != nil && l.Agent.State == padi.Waiting && l.View.State == padi.Thinking
}

// asking reports whether a dialog is up, and which.
func (l Look) asking() (string, bool) {
	switch {
	case l.Agent != nil && l.Agent.State == padi.AwaitingUser:
		return "it asks for " + or(l.Agent.Asks, "an answer"), true
	case l.View.State == padi.AwaitingUser, l.View.Dialog != "" && !l.View.Composer:
		return "a dialog is up: " + l.View.Dialog, true
	}
	return "", false
}

// Terminal is where a prompt goes.
type Terminal interface {
	Look(ctx context.Context) (Look, error)
	Write(ctx context.Context, data []byte) error
	// Taken is told when the agent has the prompt, with when Enter was pressed.
	Taken(pressed time.Time)
}

const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// Prompt hands over a text. An error means that the terminal could not be looked at or written to, so that what became of the text is not known.
func Prompt(ctx context.Context, t Terminal, req padi.PromptRequest) (padi.Receipt, error) {
	if err := req.Check(); err != nil {
		return padi.Receipt{}, err
	}
	limit := time.Duration(req.TimeoutMS) * time.Millisecond
	if limit == 0 {
		limit = DefaultTimeout
	}
	p := &prompt{t: t, text: req.Text(), limit: limit, began: time.Now()}
	p.bare = agents.Bare(string(p.text))
	err := p.run(ctx)
	p.receipt.ElapsedMS = time.Since(p.began).Milliseconds()
	p.receipt.Agent = p.last.Agent
	if r := p.receipt.Result; r != padi.Taken && r != padi.Busy {
		p.receipt.Screen = p.last.Screen.Text
	}
	return p.receipt, err
}

// prompt is one that is under way.
type prompt struct {
	t      Terminal
	text   []byte
	bare   string
	limit  time.Duration
	began  time.Time
	before Look // before anything was typed
	met    bool // an agent was there
	// composer is when one was seen first.
	composer time.Time
	last     Look
	receipt  padi.Receipt
}

var errStop = errors.New("the receipt is written")

func (p *prompt) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{p.awaitComposer, p.typeText, p.settle, p.submit} {
		if err := step(ctx); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// end writes the receipt.
func (p *prompt) end(result padi.PromptResult, format string, args ...any) error {
	p.receipt.Result = result
	p.receipt.Reason = fmt.Sprintf(format, args...)
	return errStop
}

func (p *prompt) saw(format string, args ...any) {
	p.receipt.Evidence = append(p.receipt.Evidence, fmt.Sprintf(format, args...))
}

// look is one look. An agent that is no longer there ends the prompt.
func (p *prompt) look(ctx context.Context) error {
	l, err := p.t.Look(ctx)
	if err != nil {
		return err
	}
	p.last = l
	switch {
	case l.Gone:
		p.receipt.ExitCode = l.ExitCode
		return p.end(padi.AgentGone, "the terminal ended")
	case l.Kind != "":
		p.met = true
	case p.met || time.Since(p.began) >= absentFor:
		return p.end(padi.AgentGone, "no agent has the terminal: %s is in front", or(l.Front, "its shell"))
	}
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(each):
		return nil
	}
}

// awaitComposer waits for the place to type at.
func (p *prompt) awaitComposer(ctx context.Context) error {
	var askingSince time.Time
	var c quietScreen
	for {
		if err := p.look(ctx); err != nil {
			return err
		}
		why, asking := p.last.asking()
		switch {
		case !asking:
			askingSince = time.Time{}
		case askingSince.IsZero():
			askingSince = time.Now()
		case time.Since(askingSince) >= holdsFor:
			return p.end(padi.Blocked, "%s", why)
		}
		split := p.last.split() && time.Since(p.began) < splitFor
		if still := c.steady(p.shown()); !asking && !split && p.canType(still) && (still || p.last.IdleMS >= quiet.Milliseconds()) {
			p.before = p.last
			return p.checkDraft()
		}
		if time.Since(p.began) >= p.limit {
			return p.end(padi.Blocked, "no composer was seen in %s", p.limit)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// canType reports whether there is a composer. Where nothing is known of an agent's screen, one that asked for marked pastes and is quiet has one.
func (p *prompt) canType(still bool) bool {
	if p.last.Kind == "" {
		return false
	}
	if known(p.last.Kind) {
		return p.last.View.Composer && (p.last.Screen.BracketedPaste || p.composerFor() >= plainAfter)
	}
	return p.last.View.Composer || p.last.Screen.BracketedPaste && still
}

// composerFor is how long the composer has been there.
func (p *prompt) composerFor() time.Duration {
	if p.composer.IsZero() {
		p.composer = time.Now()
	}
	return time.Since(p.composer)
}

// known reports whether an agent's composer is known when it is seen.
func known(kind string) bool { return kind == "claude-code" || kind == "codex" || kind == "opencode" }

// checkDraft refuses a composer in which something else is. What is there from a prompt that was staged before is gone on with.
func (p *prompt) checkDraft() error {
	v := p.before.View
	if !v.Composer || v.Empty || v.Draft == "" || v.Draft == p.bare {
		return nil
	}
	return p.end(padi.Blocked, "the composer holds another text: %s", short(v.Draft))
}

// typeText types, unless the text is in the composer already.
func (p *prompt) typeText(ctx context.Context) error {
	if v := p.before.View; v.Composer && !v.Empty && v.Draft == p.bare {
		p.saw("the composer held the text already")
		return nil
	}
	data := p.text
	if p.before.Screen.BracketedPaste {
		data = []byte(pasteStart + string(p.text) + pasteEnd)
		p.receipt.Bracketed = true
	}
	if err := p.t.Write(ctx, data); err != nil {
		return err
	}
	p.receipt.Bytes = len(data)
	return nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func short(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
