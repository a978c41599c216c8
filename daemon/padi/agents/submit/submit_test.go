package submit_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/submit"
)

// terminal is one whose agent does what a test tells it, at exact times.
type terminal struct {
	mu      sync.Mutex // of what changes while a prompt is under way
	kind    string
	draft   string
	state   padi.AgentState
	writes  []string
	taken   time.Time
	onEnter func(t *terminal)
}

func (t *terminal) Look(context.Context) (submit.Look, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return submit.Look{
		Kind: t.kind, Agent: &padi.Agent{Kind: t.kind, State: t.state, Source: agents.FromStatus},
		Screen: kaval.Screen{BracketedPaste: true, Text: t.draft},
		View:   agents.View{Composer: true, Draft: agents.Bare(t.draft), Empty: t.draft == ""},
	}, nil
}

func (t *terminal) Write(_ context.Context, data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := string(data)
	t.writes = append(t.writes, s)
	if text, ok := strings.CutPrefix(s, "\x1b[200~"); ok {
		t.draft = strings.TrimSuffix(text, "\x1b[201~")
		return nil
	}
	t.onEnter(t)
	return nil
}

// after changes the terminal in a while.
func (t *terminal) after(d time.Duration, change func()) {
	time.AfterFunc(d, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		change()
	})
}

func (t *terminal) Taken(pressed time.Time) { t.taken = pressed }

func run(t *testing.T, term *terminal) padi.Receipt {
	t.Helper()
	r, err := submit.Prompt(t.Context(), term, padi.PromptRequest{Data: []byte("the prompt\r\n")})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSlowScreen has a screen that shows the text for two seconds after the agent has begun: Enter is pressed once, and that turn is ours.
func TestSlowScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := &terminal{kind: "claude-code", state: padi.Waiting, onEnter: func(term *terminal) {
			term.after(500*time.Millisecond, func() { term.state = padi.Thinking })
			term.after(2500*time.Millisecond, func() { term.draft = "" })
		}}
		r := run(t, term)
		if r.Result != padi.Taken || r.Enters != 1 || term.taken.IsZero() {
			t.Errorf("%+v", r)
		}
		if want := []string{"\x1b[200~the prompt\x1b[201~", "\r"}; !slices.Equal(term.writes, want) {
			t.Errorf("wrote %q", term.writes)
		}
	})
}

// TestEnterIsNotForADialog has a dialog come up while the text still stands: Enter is not pressed at it.
func TestEnterIsNotForADialog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := &terminal{kind: "claude-code", state: padi.Waiting, onEnter: func(term *terminal) { term.state = padi.AwaitingUser }}
		if r := run(t, term); r.Result != padi.Staged || r.Enters != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestCodexIsNotCut: a prompt behind a turn of Codex's goes by Tab, and by Enter once that turn has ended without it.
func TestCodexIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := &terminal{kind: "codex", state: padi.Thinking, onEnter: func(term *terminal) {
			if term.writes[len(term.writes)-1] == "\r" {
				term.draft, term.state = "", padi.Thinking
			} else {
				term.state = padi.Waiting // the turn ended just before the key
			}
		}}
		r := run(t, term)
		if r.Result != padi.Taken || !slices.Equal(term.writes[1:], []string{"\t", "\r"}) {
			t.Errorf("%+v, wrote %q", r, term.writes)
		}
	})
}
