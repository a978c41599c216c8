// Package agents says which coding agent a terminal holds, which of its conversations that is, and what it is doing. For the workspace,
// which folds the answer into its records. Start reading at [Tracker], which looks, and [Detector], which knows one kind of agent.
//
// # What is believed
//
// In this order: an agent that no longer has the terminal is gone, whatever else is written anywhere. Then its own word (OSC 7501, which kaval
// taps); then its own files; then, where both are silent, its screen. Where nothing tells, or two witnesses of one rank differ, the state is
// padi.Unknown with a reason, and never a guess. docs/agents.md has the table for each agent.
//
// Everything here only reads. A file that cannot be read keeps what was known; one that is not there says that there is nothing.
package agents

import (
	"path"
	"strings"
	"time"
	"unicode"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// The sources of a state, as padi.Agent has them.
const (
	FromTerminal = "terminal"
	FromStatus   = "status"
	FromFile     = "file"
	FromScreen   = "screen"
	FromPrompt   = "prompt" // that was seen to be taken, before anything else tells of it
)

// Detector knows one kind of agent. A Tracker calls it from one goroutine.
type Detector interface {
	// Kind is what padi.Agent calls it.
	Kind() string
	// Paths are the files that Sessions and Read depend on. They are looked at whenever one of them changes; one that is not there yet may appear.
	Paths(s Subject, has *Session) []string
	// Sessions are the conversations that the agent may be in, the likeliest first. An error says that they could not be read, so that
	// what was known holds; none without an error, that there is none.
	Sessions(s Subject) ([]Session, error)
	// Read gives what the files say of a conversation.
	Read(s Subject, session Session) (Facts, error)
	// View reads the screen.
	View(screen kaval.Screen) View
	// NeedsScreen reports whether the screen must be asked, when the agent said nothing itself and the files say facts.
	NeedsScreen(facts Facts) bool
}

// Subject is a terminal with an agent in front, as far as its taps tell.
type Subject struct {
	ID padi.TerminalID
	// PID leads the process group in front.
	PID   int
	CWD   string
	Title string
	// Since is when the agent was started, in milliseconds since 1970; 0 where that was not seen.
	Since int64
}

// Session is one conversation of an agent.
type Session struct {
	ID string
	// Path is its transcript, where it has a file of its own.
	Path string
	CWD  string
	// CreatedAt is when the conversation began, in milliseconds since 1970, or 0.
	CreatedAt int64
	// UpdatedAt is when it was last written to, or 0.
	UpdatedAt int64
	// Certain says that the agent's process itself is bound to it, so that no other terminal can have it.
	Certain bool
	// Run tells two runs of one conversation apart.
	Run string
}

// Facts are what an agent's files say. What they do not say is left out.
type Facts struct {
	State padi.AgentState
	Asks  string
	// At is when what the state was read from was written, in milliseconds since 1970, or 0.
	At int64
	// Own says that the state is the agent's own word, rather than concluded from what it writes.
	Own           bool
	Message       string
	Model         string
	Summary       string
	ContextTokens int64
	StartedAt     int64
	Tasks         *padi.Progress
	Version       string
	Evidence      []padi.Evidence
	// Drift says what was not as it should be, once and loudly: the agent writes something that this build does not know.
	Drift string
	// Again is after how long the facts may differ though no file changed; 0 is never.
	Again time.Duration
}

// View is what a screen shows of an agent.
type View struct {
	// State is Thinking, AwaitingUser, or empty when the screen does not tell.
	State padi.AgentState
	Asks  string
	// Dialog is the line by which a dialog was known, whatever it is about.
	Dialog string
	// Composer says that there is a place to type a prompt at, Draft what is in it without blanks and Empty that it is at its start.
	Composer bool
	Draft    string
	Empty    bool
	// Folds is how many pastes the composer shows folded.
	Folds int
}

// programs are the names that the agents' programs go by.
var programs = map[string]string{
	"claude": "claude-code", "claude.exe": "claude-code", "claude-code": "claude-code",
	"codex": "codex", "opencode": "opencode", "grok": "grok",
	"aider": "aider", "goose": "goose", "gemini": "gemini", "cursor-agent": "cursor-agent",
}

// KindOf is the kind of the agent in front of a terminal, or "". What the program calls itself comes first, then the command that the shell
// ran, which a launcher like node hides, then the program's name.
func KindOf(t kaval.Terminal) string {
	if !inFront(t) {
		return ""
	}
	if t.Status != nil && t.Status.App != "" && stateOf(t.Status.State) != padi.Unknown {
		return appKind(t.Status.App)
	}
	if kind := programs[path.Base(t.ForegroundProcess)]; kind != "" {
		return kind
	}
	return commandKind(t.LastCommand)
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

// Bare is text without blanks and line breaks, so that a draft can be compared with what was typed however it was wrapped.
func Bare(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '\u00a0' {
			return -1
		}
		return r
	}, s)
}
