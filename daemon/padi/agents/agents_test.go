package agents_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

// TestFromTaps is what a terminal's taps alone tell.
func TestFromTaps(t *testing.T) {
	const shell, child = 10, 20
	const none = "it says nothing itself and no session of it was found"
	status := func(state, app, msg string) *kaval.ProgramStatus {
		return &kaval.ProgramStatus{State: state, App: app, Message: msg}
	}
	for name, tc := range map[string]struct {
		in   kaval.Terminal
		want *padi.Agent
	}{
		"a shell": {kaval.Terminal{PID: shell, ForegroundPID: shell, ForegroundProcess: "bash"}, nil},
		"a shell after an agent": {
			kaval.Terminal{PID: shell, ForegroundPID: shell, ForegroundProcess: "bash", LastCommand: "claude"}, nil},
		"nothing known": {kaval.Terminal{PID: shell, LastCommand: "claude"}, nil},
		"claude in front": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "claude"},
			&padi.Agent{Kind: "claude-code", State: padi.Unknown, Reason: none}},
		"codex by its launcher": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "node", LastCommand: "X=1 npx /opt/codex --full-auto"},
			&padi.Agent{Kind: "codex", State: padi.Unknown, Reason: none}},
		"a command at the root": {
			kaval.Terminal{PID: shell, ForegroundPID: shell, CommandRooted: true, LastCommand: "'/opt/my tools/grok' -x"},
			&padi.Agent{Kind: "grok", State: padi.Unknown, Reason: none}},
		"another program": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "vim", LastCommand: "vim claude"}, nil},
		"working": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "claude", Status: status("working", "claude-code", "Bash")},
			&padi.Agent{Kind: "claude-code", State: padi.Thinking, Source: "status", Message: "Bash"}},
		"blocked": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "node",
				Status: &kaval.ProgramStatus{State: "blocked", App: "codex", Kind: "permission"}},
			&padi.Agent{Kind: "codex", State: padi.AwaitingUser, Source: "status", Asks: "permission"}},
		"done without a name": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "opencode", Status: status("done", "", "")},
			&padi.Agent{Kind: "opencode", State: padi.Waiting, Source: "status"}},
		"an unknown app": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "node", Status: status("idle", "amp", "")},
			&padi.Agent{Kind: "amp", State: padi.Waiting, Source: "status"}},
		"a state from the future": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "codex", Status: status("dreaming", "codex", "")},
			&padi.Agent{Kind: "codex", State: padi.Unknown, Reason: none}},
		"a status of nobody": {
			kaval.Terminal{PID: shell, ForegroundPID: child, ForegroundProcess: "make", Status: status("working", "", "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tracker := agents.New(agents.Options{})
			tc.in.ID = "t"
			tracker.See(tc.in)
			got, _ := tracker.Agent("t")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
