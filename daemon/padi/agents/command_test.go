package agents_test

import (
	"context"
	"log/slog"
	"testing"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

const uuid = "01a22fe3-e9e7-74e0-a7ed-abf8d1ae332e"

// TestCommands: what is remembered of a command line is how the agent runs, never what was said to it, and each word as it was.
func TestCommands(t *testing.T) {
	for line, want := range map[string]string{
		"claude":                        "claude",
		"claude --model opus 'do this'": "claude --model opus",
		"claude --dangerously-skip-permissions x":        "claude --dangerously-skip-permissions",
		"claude --resume " + uuid + " --bare":            "claude --bare",
		"claude --unknown value --model=o":               "claude --model=o",
		"claude --model o -- --bare":                     "claude --model o",
		`claude --settings '{"a": "b c"}' --add-dir ~/x`: `claude --settings '{"a": "b c"}' --add-dir ~/x`,
		`claude --append-system-prompt "it's ~"`:         `claude --append-system-prompt 'it'\''s ~'`,
		"X=1 npx codex -m o --full-auto fix it":          "codex -m o --full-auto",
		"codex resume --last":                            "codex",
		"/opt/bin/opencode --model a/b run it":           "/opt/bin/opencode --model a/b",
		"grok -m fast --no-plan hello":                   "grok -m fast --no-plan",
		"claude --version":                               "",
		"codex --help":                                   "",
		"vim claude":                                     "",
		"":                                               "",
		"claude 'open":                                   "",
	} {
		cmd, ok := agents.ParseCommand(line)
		if ok != (want != "") || ok && cmd.Line() != want {
			t.Errorf("%q: %q, %v; want %q", line, cmd.Line(), ok, want)
		}
	}
}

// TestResume: the exact conversation of the same kind of agent, or none.
func TestResume(t *testing.T) {
	for _, tc := range []struct{ line, kind, id, want string }{
		{"claude --model opus hi", "claude-code", uuid, "claude --resume " + uuid + " --model opus"},
		{"codex --full-auto", "codex", uuid, "codex resume " + uuid + " --full-auto"},
		{"opencode", "opencode", "ses_dd01bccbeffeulRer3KNVfF0D1", "opencode --session ses_dd01bccbeffeulRer3KNVfF0D1"},
		{"grok --no-plan", "grok", uuid, "grok --resume " + uuid + " --no-plan"},
		{"claude", "claude-code", "not-an-id", ""},
		{"claude", "claude-code", uuid + "; rm -rf /", ""},
		{"opencode", "opencode", "ses_$(x)", ""},
		{"claude", "codex", uuid, ""},
		{"aider", "aider", uuid, ""},
	} {
		cmd, _ := agents.ParseCommand(tc.line)
		got := ""
		if r := cmd.Resume(tc.kind, tc.id); r != nil {
			got = r.Command
		}
		if got != tc.want {
			t.Errorf("%q in %s %s: %q, want %q", tc.line, tc.kind, tc.id, got, tc.want)
		}
	}
}

// TestHint: a command names the agent that a launcher hides only as long as something is in front; the root program of a terminal always is.
func TestHint(t *testing.T) {
	for name, tc := range map[string]struct {
		t    kaval.Terminal
		want string
	}{
		"behind node":            {kaval.Terminal{PID: 1, ForegroundPID: 2, ForegroundProcess: "node", LastCommand: "codex"}, "codex"},
		"after it ended":         {kaval.Terminal{PID: 1, ForegroundPID: 1, ForegroundProcess: "bash", LastCommand: "codex"}, ""},
		"at the root":            {kaval.Terminal{PID: 1, ForegroundPID: 1, CommandRooted: true, ForegroundProcess: "node", LastCommand: "codex"}, "codex"},
		"a command with no mark": {kaval.Terminal{PID: 1, ForegroundPID: 2, ForegroundProcess: "claude", LastCommand: "ls"}, "claude-code"},
	} {
		if got := agents.KindOf(tc.t); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// bound is a detector of one conversation.
type bound struct{}

func (bound) Kind() string                                              { return "claude-code" }
func (bound) Paths(agents.Subject, *agents.Session) []string            { return nil }
func (bound) Read(agents.Subject, agents.Session) (agents.Facts, error) { return agents.Facts{}, nil }
func (bound) View(kaval.Screen) agents.View                             { return agents.View{} }
func (bound) NeedsScreen(agents.Facts) bool                             { return false }
func (bound) Sessions(agents.Subject) ([]agents.Session, error) {
	return []agents.Session{{ID: uuid, Certain: true}}, nil
}

// TestQuitForgetsTheWayBack: an agent that ended by itself, as its shell shows, does not come back. A terminal into which kaval cannot see for a moment keeps
// what it had.
func TestQuitForgetsTheWayBack(t *testing.T) {
	changed := make(chan struct{}, 64)
	tracker := agents.New(agents.Options{Detectors: []agents.Detector{bound{}}, Changed: func(padi.TerminalID) { changed <- struct{}{} }, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); tracker.Run(ctx) }()
	defer func() { cancel(); <-done }()
	in := kaval.Terminal{ID: "t", PID: 1, ForegroundPID: 2, ForegroundProcess: "claude", LastCommand: "claude --model o"}
	tracker.See(in)
	<-changed
	seen := func(what string, wantAgent, wantResume bool) {
		t.Helper()
		if a, r := tracker.Agent("t"); (a != nil) != wantAgent || (r != nil) != wantResume {
			t.Errorf("%s: agent %+v, resume %+v", what, a, r)
		}
	}
	seen("at work", true, true)
	blind := in
	blind.ForegroundPID, blind.ForegroundProcess = 0, ""
	tracker.See(blind)
	seen("blind", true, true)
	other := in
	other.ForegroundPID, other.ForegroundProcess, other.LastCommand = 3, "vim", "vim"
	tracker.See(other)
	seen("something else is in front", false, true)
	in.ForegroundPID, in.ForegroundProcess = 1, "bash"
	tracker.See(in)
	seen("in the shell", false, false)
}
