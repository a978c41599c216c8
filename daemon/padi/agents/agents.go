// Package agents says which coding agent a terminal holds and what it is doing, from what kaval shows of the terminal. For the
// workspace, which folds the answer into its records. It reads no files and no screens, and it does not guess: what nothing tells
// is padi.Unknown.
package agents

import (
	"path"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/internal/shellquote"
)

// programs are the names that the agents' programs go by.
var programs = map[string]string{
	"claude": "claude-code", "claude.exe": "claude-code", "claude-code": "claude-code",
	"codex": "codex", "opencode": "opencode", "grok": "grok",
}

// FromStatus is the source of a state that the agent itself gave (OSC 7501).
const FromStatus = "status"

// Of gives the agent in front of a terminal, or nil where none is.
func Of(t kaval.Terminal) *padi.Agent {
	kind := kindOf(t)
	if s := t.Status; s != nil {
		if s.App != "" {
			kind = appKind(s.App)
		}
		if state := stateOf(s.State); kind != "" && state != padi.Unknown {
			return &padi.Agent{Kind: kind, State: state, Source: FromStatus, Message: s.Message}
		}
	}
	if kind == "" {
		return nil
	}
	return &padi.Agent{Kind: kind, State: padi.Unknown}
}

func kindOf(t kaval.Terminal) string {
	if !inFront(t) {
		return ""
	}
	if kind := programs[path.Base(t.ForegroundProcess)]; kind != "" {
		return kind
	}
	return programs[headWord(t.LastCommand)]
}

// inFront reports whether a program other than the terminal's shell has the terminal.
func inFront(t kaval.Terminal) bool {
	return t.CommandRooted || (t.ForegroundPID != 0 && t.ForegroundPID != t.PID)
}

func appKind(app string) string {
	if kind, ok := programs[app]; ok {
		return kind
	}
	return app
}

func stateOf(status string) padi.AgentState {
	switch status {
	case "working":
		return padi.Thinking
	case "blocked":
		return padi.AwaitingUser
	case "idle", "done", "error":
		return padi.Waiting
	}
	return padi.Unknown
}

// headWord is the name of the program that a command line starts, past assignments and words that only start another program.
func headWord(line string) string {
	words, _ := shellquote.Split(line)
	for _, w := range words {
		switch base := path.Base(w); {
		case isAssignment(w), base == "env", base == "exec", base == "command", base == "nohup", base == "npx":
			continue
		default:
			return base
		}
	}
	return ""
}

func isAssignment(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
