package workspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/ptyhost"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	claudecode "kolu/daemon/padi/agents/claude"
	"kolu/daemon/padi/agents/fakeagent"
	"kolu/daemon/padi/workspace"
)

func TestMain(m *testing.M) {
	if fakeagent.Asked() {
		os.Exit(fakeagent.Main())
	}
	os.Exit(m.Run())
}

// staged is a fake agent in a real terminal.
type staged struct {
	t       *testing.T
	w       *workspace.Workspace
	id      padi.TerminalID
	prompts string
}

// stage starts a fake agent. One with files writes them where the workspace looks.
func stage(t *testing.T, s fakeagent.Script, files bool) staged {
	t.Helper()
	home := t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	host := ptyhost.New(ptyhost.Options{Log: log, RunDir: t.TempDir()})
	t.Cleanup(host.Close)
	w, stop := run(t, workspace.Options{Kaval: host, Detectors: []agents.Detector{claudecode.New(home, func(string) string { return "" })}})
	t.Cleanup(stop)
	if files {
		s.Files = filepath.Join(home, ".claude")
	}
	s.Prompts = filepath.Join(home, "prompts")
	return staged{t: t, w: w, id: spawnFake(t, host, home, s), prompts: s.Prompts}
}

func spawnFake(t *testing.T, host kaval.Host, home string, s fakeagent.Script) padi.TerminalID {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(home, "claude")
	if err := os.Symlink(self, link); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	script, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	term, err := host.Spawn(t.Context(), kaval.SpawnRequest{
		Argv: []string{link, string(script)}, CommandRooted: true, CWD: home, Size: kaval.Size{Cols: 100, Rows: 30},
		Env: map[string]string{"HOME": home, "PATH": os.Getenv("PATH"), "TERM": "xterm-256color", fakeagent.Env: "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return term.ID
}

// prompt hands over a text within a time that a loaded machine keeps.
func (s staged) prompt(text string) padi.Receipt {
	s.t.Helper()
	return s.promptWithin(text, 60*time.Second)
}

func (s staged) promptWithin(text string, limit time.Duration) padi.Receipt {
	s.t.Helper()
	s.known()
	r, err := s.w.Prompt(s.t.Context(), s.id, padi.PromptRequest{Data: []byte(text), TimeoutMS: limit.Milliseconds()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("%s: %s %v", r.Result, r.Reason, r.Evidence)
	return r
}

// known waits until the workspace has seen the terminal.
func (s staged) known() {
	s.t.Helper()
	s.until("the terminal is known", func(padi.Record) bool { return true })
}

// until waits for a record.
func (s staged) until(what string, ok func(padi.Record) bool) padi.Record {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 90*time.Second)
	defer cancel()
	var last padi.Record
	for ev, err := range s.w.Watch(ctx) {
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range append(ev.Records, orNone(ev.Record)...) {
			if r.ID == s.id {
				if last = r; ok(r) {
					return r
				}
			}
		}
	}
	s.t.Fatalf("never: %s; last %+v, agent %+v", what, last, last.Agent)
	return last
}

func orNone(r *padi.Record) []padi.Record {
	if r == nil {
		return nil
	}
	return []padi.Record{*r}
}

// heard are the prompts that the agent took.
func (s staged) heard() (all []string) {
	s.t.Helper()
	b, err := os.ReadFile(s.prompts)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var text string
		if err := json.Unmarshal([]byte(line), &text); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of a prompt, with some words in it\n", i+1)
	}
	return strings.TrimRight(b.String(), "\n")
}

// TestPromptIsTaken hands prompts to agents with each of the habits by which a prompt gets lost: what the receipt says is what the agent heard.
func TestPromptIsTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		script fakeagent.Script
		text   string
	}{
		"one line":                              {fakeagent.Script{Paste: true, Word: true}, "hello"},
		"says nothing itself":                   {fakeagent.Script{Paste: true}, "hello"},
		"forty lines that fold":                 {fakeagent.Script{Paste: true, Fold: true}, lines(40)},
		"four hundred lines that scroll":        {fakeagent.Script{Paste: true}, lines(400)},
		"a composer drawn late":                 {fakeagent.Script{Paste: true, Debounce: 400}, "a debounced composer"},
		"a program that is slow":                {fakeagent.Script{Paste: true, Lag: 700}, "slow to read"},
		"Enter after a burst is a line break":   {fakeagent.Script{Paste: true, Burst: 120}, "typed in a burst"},
		"a paste must come whole in one read":   {fakeagent.Script{Paste: true, Strict: true}, lines(5)},
		"a clock in the footer":                 {fakeagent.Script{Paste: true, Clock: true}, "never quiet"},
		"the first Enter is swallowed":          {fakeagent.Script{Paste: true, Swallow: 1}, "press it again"},
		"asks for pastes before anybody looked": {fakeagent.Script{Paste: true, Word: true}, lines(3)},
		"never asks for pastes":                 {fakeagent.Script{Burst: 100}, "typed as it is"},
		"asks for pastes a while later":         {fakeagent.Script{PasteAfter: 600}, lines(3)},
		"a composer that comes late":            {fakeagent.Script{Paste: true, Hidden: 1500}, "not before it is drawn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage(t, tc.script, false)
			r := s.prompt(tc.text)
			if r.Result != padi.Taken || r.Bracketed != (tc.script.Paste || tc.script.PasteAfter > 0) {
				t.Errorf("%s: %s\n%s", r.Result, r.Reason, r.Screen)
			}
			if got := s.heard(); !slices.Equal(got, []string{tc.text}) {
				t.Errorf("heard %q", got)
			}
		})
	}
}

// TestPromptIsNotTaken says what became of prompts that no agent took.
func TestPromptIsNotTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		script fakeagent.Script
		want   padi.PromptResult
		reason string
	}{
		"a dialog is up":          {fakeagent.Script{Paste: true, Dialog: true}, padi.Blocked, "a dialog is up"},
		"Enter does nothing":      {fakeagent.Script{Paste: true, Deaf: true}, padi.Staged, "still in the composer after 3 Enter"},
		"there is no composer":    {fakeagent.Script{Paste: true, Hidden: 600_000}, padi.Blocked, "no composer was seen"},
		"the agent ended already": {fakeagent.Script{Exit: 3}, padi.AgentGone, ""},
		"a turn is under way":     {fakeagent.Script{Paste: true, Working: true, Word: true}, padi.Busy, "queued behind it"},
		"the same without a word": {fakeagent.Script{Paste: true, Working: true}, padi.Busy, "queued behind it"},
		"a paste that wedges it":  {fakeagent.Script{Paste: true, Strict: true, Deaf: true}, padi.Staged, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage(t, tc.script, false)
			var r padi.Receipt
			if tc.script.Exit != 0 {
				r = s.ended()
			} else {
				r = s.promptWithin("hello", 8*time.Second)
			}
			if r.Result != tc.want || !strings.Contains(r.Reason, tc.reason) {
				t.Errorf("%s: %s\n%s", r.Result, r.Reason, r.Screen)
			}
			if got := s.heard(); len(got) != 0 {
				t.Errorf("heard %q", got)
			}
		})
	}
}

// ended prompts a terminal whose program ended by itself.
func (s staged) ended() padi.Receipt {
	s.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		r, err := s.w.Prompt(s.t.Context(), s.id, padi.PromptRequest{Data: []byte("hello")})
		if err == nil {
			return r
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}

// TestPromptGoesOnWithWhatWasStaged asks again for a prompt that was staged: it is not typed twice.
func TestPromptGoesOnWithWhatWasStaged(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true, Swallow: 3}, false)
	if r := s.promptWithin("once only", 8*time.Second); r.Result != padi.Staged {
		t.Fatalf("%s: %s", r.Result, r.Reason)
	}
	if r := s.prompt("something else"); r.Result != padi.Blocked || !strings.Contains(r.Reason, "onceonly") {
		t.Errorf("beside another text: %s: %s", r.Result, r.Reason)
	}
	if r := s.prompt("once only"); r.Result != padi.Taken || r.Bytes != 0 {
		t.Errorf("again: %s: %s, %d bytes typed", r.Result, r.Reason, r.Bytes)
	}
	if got := s.heard(); !slices.Equal(got, []string{"once only"}) {
		t.Errorf("heard %q", got)
	}
}

// TestPromptsFollowOneAnother hands over many at once: each arrives whole and by itself.
func TestPromptsFollowOneAnother(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true, Word: true}, false)
	s.known()
	done := make(chan padi.Receipt)
	var want []string
	for i := range 6 {
		text := fmt.Sprintf("prompt %d\nof two lines", i)
		want = append(want, text)
		go func() { // ends with the receive below
			r, err := s.w.Prompt(t.Context(), s.id, padi.PromptRequest{Data: []byte(text), TimeoutMS: 60_000})
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
	}
	for range want {
		if r := <-done; r.Result != padi.Taken {
			t.Errorf("%s: %s", r.Result, r.Reason)
		}
	}
	got := s.heard()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("heard %q", got)
	}
}

// TestPromptEndsWithItsAgent: the agent goes when it has the prompt, one way or the other.
func TestPromptEndsWithItsAgent(t *testing.T) {
	for text, code := range map[string]int{"die 7": 7, "kill": 137, "quit": 0} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s := stage(t, fakeagent.Script{Paste: true, Word: true}, true)
			r := s.prompt(text)
			if r.Result != padi.AgentGone && r.Result != padi.Taken {
				t.Errorf("%s: %s", r.Result, r.Reason)
			}
			res, err := s.w.Wait(t.Context(), s.id, padi.WaitRequest{Until: []padi.Bucket{padi.BucketWaiting}, TimeoutMS: 60_000})
			if err != nil || res.Result != kaval.Gone || res.ExitCode == nil || *res.ExitCode != code {
				t.Errorf("wait gives %+v, %v", res.WaitResult, err)
			}
		})
	}
}

func TestPromptIsChecked(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true}, false)
	for name, data := range map[string]string{"empty": "", "only line breaks": "\n\r\n", "a key": "a\x03b", "the end of a paste": "a\x1b[201~b", "no UTF-8": "a\xff"} {
		_, err := s.w.Prompt(t.Context(), s.id, padi.PromptRequest{Data: []byte(data)})
		if kaval.Code(err) != "invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := s.w.Prompt(t.Context(), "nothing", padi.PromptRequest{Data: []byte("x")})
	if kaval.Code(err) != "no-terminal" {
		t.Errorf("a terminal that is not there: %v", err)
	}
}
