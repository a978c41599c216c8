package agents

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"kolu/daemon/padi"
	"kolu/internal/shellquote"
)

// flags are the options of an agent that are worth remembering: those that say how it runs, never what was said to it.
type flags struct {
	value []string // with a value
	plain []string
}

var known = map[string]flags{
	"claude-code": {
		value: []string{"--model", "--allowedTools", "--disallowedTools", "--permission-mode", "--add-dir", "--agent", "--mcp-config",
			"--append-system-prompt", "--settings"},
		plain: []string{"--dangerously-skip-permissions", "--strict-mcp-config", "--bare"},
	},
	"codex": {
		value: []string{"--model", "-m", "--config", "-c", "--profile", "-p", "--sandbox", "-s", "--ask-for-approval", "-a"},
		plain: []string{"--yolo", "--full-auto", "--oss", "--no-daemon"},
	},
	"opencode": {
		value: []string{"--model", "--agent"},
		plain: []string{"--dangerously-skip-permissions", "--yolo", "--pure"},
	},
	"grok": {
		value: []string{"--model", "-m", "--permission-mode", "--agent", "--reasoning-effort", "--effort"},
		plain: []string{"--always-approve", "--no-plan", "--no-subagents", "--no-alt-screen"},
	},
	"aider": {value: []string{"--model"}},
	"goose": {}, "gemini": {}, "cursor-agent": {},
}

// Command is a command line that starts an agent, without what was said to it and without what chose a conversation.
type Command struct {
	Kind string
	// Head is the program as it was typed; Flags what follows, each with its value.
	Head  string
	Flags []string
}

// ParseCommand reads a command line. It reports false for one that starts no agent, or one that only tells its version or its help.
func ParseCommand(line string) (Command, bool) {
	words, err := shellquote.Split(line)
	if err != nil {
		return Command{}, false
	}
	words = pastLaunchers(words)
	if len(words) == 0 {
		return Command{}, false
	}
	kind := programs[path.Base(words[0])]
	if kind == "" || slices.ContainsFunc(words[1:], isInformation) {
		return Command{}, false
	}
	return Command{Kind: kind, Head: words[0], Flags: keep(known[kind], words[1:])}, true
}

func isInformation(w string) bool {
	return slices.Contains([]string{"--version", "-V", "--help", "-h"}, w)
}

// keep leaves the flags that are known. What follows one that is not, and is no flag itself, may be its value and goes with it.
func keep(f flags, words []string) []string {
	var kept []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w == "--" {
			break
		}
		name, _, joined := strings.Cut(w, "=")
		switch {
		case !strings.HasPrefix(w, "-"): // a prompt, or a verb
		case joined && slices.Contains(f.value, name), slices.Contains(f.plain, w):
			kept = append(kept, w)
		case slices.Contains(f.value, w):
			if i+1 < len(words) {
				kept = append(kept, w, words[i+1])
			}
			i++
		case i+1 < len(words) && !strings.HasPrefix(words[i+1], "-"):
			i++
		}
	}
	return kept
}

// Line is the command as a shell reads it.
func (c Command) Line() string { return shellquote.Join(append([]string{c.Head}, c.Flags...)) }

var (
	uuidID     = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	opencodeID = regexp.MustCompile(`^ses_[0-9a-zA-Z]{1,64}$`)
)

// Resume is the line that goes on with a conversation in a fresh shell, or nil: for an agent of another kind than the one that the command
// starts, and for an id that is not of the agent's form, since going on with any other conversation would be worse than none.
func (c Command) Resume(kind, session string) *padi.Resume {
	if c.Kind != kind {
		return nil
	}
	var marker []string
	switch {
	case kind == "claude-code" && uuidID.MatchString(session), kind == "grok" && uuidID.MatchString(session):
		marker = []string{"--resume", session}
	case kind == "codex" && uuidID.MatchString(session):
		marker = []string{"resume", session}
	case kind == "opencode" && opencodeID.MatchString(session):
		marker = []string{"--session", session}
	default:
		return nil
	}
	words := append(append([]string{c.Head}, marker...), c.Flags...)
	return &padi.Resume{Kind: kind, SessionID: session, Command: shellquote.Join(words)}
}

// commandKind is the kind of agent that a command line starts, or "".
func commandKind(line string) string {
	words, _ := shellquote.Split(line)
	words = pastLaunchers(words)
	if len(words) == 0 {
		return ""
	}
	return programs[path.Base(words[0])]
}

// pastLaunchers leaves out assignments and words that only start another program.
func pastLaunchers(words []string) []string {
	for i, w := range words {
		switch base := path.Base(w); {
		case isAssignment(w), base == "env", base == "exec", base == "command", base == "nohup", base == "npx":
			continue
		default:
			return words[i:]
		}
	}
	return nil
}

func isAssignment(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
