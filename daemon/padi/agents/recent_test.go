package agents_test

import (
	"fmt"
	"testing"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

// TestRecentAgents: a command that is run comes first, each once and without its prompt; what terminals show when padi starts changes no order.
func TestRecentAgents(t *testing.T) {
	tracker := agents.New(agents.Options{})
	see := func(id padi.TerminalID, line string) { tracker.See(kaval.Terminal{ID: id, PID: 1, LastCommand: line}) }
	want := func(what string, lines ...string) {
		t.Helper()
		var got []string
		for _, r := range tracker.Recent() {
			got = append(got, r.Command)
		}
		if fmt.Sprint(got) != fmt.Sprint(lines) {
			t.Errorf("%s: %q, want %q", what, got, lines)
		}
	}
	see("a", "claude")
	see("b", "codex --full-auto")
	see("c", "claude 'of another day'")
	want("as padi starts", "claude", "codex --full-auto")
	see("a", "opencode 'do it'")
	want("run", "opencode", "claude", "codex --full-auto")
	see("b", "ls")
	see("b", "codex --full-auto again")
	want("run again", "codex --full-auto", "opencode", "claude")
	see("b", "codex --full-auto again")
	see("d", "claude")
	want("seen again, and for the first time", "codex --full-auto", "opencode", "claude")
	see("d", "claude --version")
	if r := tracker.Recent(); r[0].At == 0 || r[2].At != 0 {
		t.Errorf("times %+v", r)
	}
	for i := range 20 {
		see("a", fmt.Sprintf("claude --model m%d", i))
	}
	if r := tracker.Recent(); len(r) != 10 || r[0].Command != "claude --model m19" {
		t.Errorf("%+v", r)
	}
}
