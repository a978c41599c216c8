package claude

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/proc"
)

// stale is after how long without a word a transcript's "working" is doubted.
const stale = 2 * time.Minute

// line is one entry of a transcript, as far as it is read here.
type line struct {
	Type      string          `json:"type"`
	Operation string          `json:"operation"`
	Content   json.RawMessage `json:"content"`
	Compact   bool            `json:"isCompactSummary"`
	Sidechain bool            `json:"isSidechain"`
	APIError  bool            `json:"isApiErrorMessage"`
	Timestamp time.Time       `json:"timestamp"`
	Summary   string          `json:"summary"`
	AITitle   string          `json:"aiTitle"`
	Prompt    string          `json:"lastPrompt"`
	Message   message         `json:"message"`
}

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Model      string          `json:"model"`
	StopReason string          `json:"stop_reason"`
	Usage      *usage          `json:"usage"`
}

type usage struct {
	Input         *int64 `json:"input_tokens"`
	CacheCreation *int64 `json:"cache_creation_input_tokens"`
	CacheRead     *int64 `json:"cache_read_input_tokens"`
}

// block is one part of a message's content.
type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Name    string          `json:"name"`
	IsError bool            `json:"is_error"`
	Input   json.RawMessage `json:"input"`
	Content json.RawMessage `json:"content"`
}

// blocks gives content as parts; a plain string is one of text.
func blocks(raw json.RawMessage) []block {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []block{{Type: "text", Text: s}}
	}
	var b []block
	_ = json.Unmarshal(raw, &b) // of another form: nothing that is known here
	return b
}

// transcript is what the end of a transcript says.
type transcript struct {
	state     padi.AgentState
	asks      string
	why       string
	model     string
	summary   string
	tokens    int64
	startedAt int64
	promptAt  time.Time // of the prompt that nothing followed yet
	quietMS   int64
	tasks     *padi.Progress
	// outstanding are the background tasks that were started and have not ended, with the run of a workflow or "".
	outstanding map[string]string
}

func (d *Detector) readTranscript(path string) (transcript, error) {
	var written int64 // from before it is read: what is read may be newer than that, never older
	if info, err := os.Stat(path); err == nil {
		written = info.ModTime().UnixMilli()
	}
	lines, _, err := agents.Tail(path)
	if errors.Is(err, fs.ErrNotExist) {
		return transcript{why: "no transcript yet"}, nil
	}
	if err != nil {
		return transcript{}, err
	}
	t := readLines(lines)
	t.quietMS = age(written)
	t.startedAt = d.scan(path).startedAt
	t.tasks = d.scan(path).progress()
	return t, nil
}

// readLines reads lines from the last one back.
func readLines(raw [][]byte) transcript {
	t := transcript{outstanding: map[string]string{}}
	ended := map[string]bool{}
	for i := len(raw) - 1; i >= 0; i-- {
		var l line
		if json.Unmarshal(raw[i], &l) != nil || l.Sidechain {
			continue
		}
		switch l.Type {
		case "user", "assistant":
			t.take(l, ended)
		case "queue-operation":
			if id := taskEnded(l); id != "" {
				ended[id] = true
			}
		case "summary", "ai-title", "last-prompt":
			if text := firstOf(l.Summary, l.AITitle, l.Prompt); t.summary == "" {
				t.summary = oneLine(text)
			}
		}
	}
	return t
}

func (t *transcript) take(l line, ended map[string]bool) {
	content := blocks(l.Message.Content)
	if l.Type == "user" {
		t.noteLaunches(content, ended)
	}
	if u := l.Message.Usage; t.tokens == 0 && u != nil {
		for _, n := range []*int64{u.Input, u.CacheCreation, u.CacheRead} {
			if n != nil {
				t.tokens += *n
			}
		}
	}
	if t.model == "" && l.Type == "assistant" && l.Message.Model != "<synthetic>" {
		t.model = l.Message.Model
	}
	if t.state != "" || l.Type == "user" && !isPrompt(l, content) {
		return
	}
	if l.Type == "assistant" {
		t.assistant(l, content)
		return
	}
	t.user(l, content)
}

// local are the beginnings of entries that only record what the user did in the program itself.
var local = []string{"<command-name>", "<command-message>", "<command-args>", "<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>"}

// isPrompt reports whether an entry of the user's side makes the model answer. What is marked as meta usually does: a skill, say.
func isPrompt(l line, content []block) bool {
	if l.Compact {
		return false
	}
	for _, b := range content {
		for _, start := range local {
			if strings.HasPrefix(b.Text, start) {
				return false
			}
		}
	}
	return true
}

func (t *transcript) assistant(l line, content []block) {
	switch l.Message.StopReason {
	case "end_turn":
		t.state, t.why = padi.Waiting, "the last answer ended"
	case "stop_sequence", "max_tokens", "refusal":
		t.state, t.why = padi.Waiting, "the last answer stopped: "+l.Message.StopReason
	case "tool_use":
		t.state, t.why = padi.ToolUse, "a tool was called: "+toolNames(content)
		if asksUser(content) {
			t.state, t.asks = padi.AwaitingUser, "question"
		}
	default:
		t.state, t.why = padi.Thinking, "an answer is under way"
	}
	if l.APIError {
		t.state, t.why = padi.Waiting, "the last request failed"
	}
}

func toolNames(content []block) string {
	var names []string
	for _, b := range content {
		if b.Type == "tool_use" {
			names = append(names, b.Name)
		}
	}
	return strings.Join(names, ", ")
}

// asksUser reports whether every tool that was called asks the user.
func asksUser(content []block) bool {
	asked := false
	for _, b := range content {
		if b.Type != "tool_use" {
			continue
		}
		if b.Name != "AskUserQuestion" && b.Name != "ExitPlanMode" {
			return false
		}
		asked = true
	}
	return asked
}

func (t *transcript) user(l line, content []block) {
	for _, b := range content {
		switch {
		case strings.HasPrefix(b.Text, "[Request interrupted by user"):
			t.state, t.why = padi.Waiting, "interrupted"
			return
		case b.IsError && strings.HasPrefix(textOf(b.Content), "The user doesn't want to proceed with this tool use"):
			t.state, t.why = padi.Waiting, "a tool was refused"
			return
		}
	}
	t.state, t.why, t.promptAt = padi.Thinking, "the last entry is for the model", l.Timestamp
}

func textOf(raw json.RawMessage) string {
	var b strings.Builder
	for _, part := range blocks(raw) {
		b.WriteString(part.Text)
	}
	return b.String()
}

// decayed is the state with what cannot be true any more taken out: a tool without a child process, a prompt from before this process began.
// started is when that was, pid which one; 0 where it is not known.
func (t transcript) decayed(started int64, pid int) (state padi.AgentState, asks string) {
	if t.state == padi.Thinking && started != 0 && !t.promptAt.IsZero() && t.promptAt.UnixMilli() < started {
		if t.quietMS >= stale.Milliseconds() {
			return padi.Waiting, ""
		}
	}
	if t.state == padi.ToolUse && t.quietMS >= stale.Milliseconds() && pid != 0 {
		if children, err := proc.Children(pid); err == nil && len(children) == 0 {
			return padi.Waiting, ""
		}
	}
	return t.state, t.asks
}

// again is when decayed may say something else.
func (t transcript) again() time.Duration {
	if t.state != padi.Thinking && t.state != padi.ToolUse {
		return 0
	}
	if left := stale - time.Duration(t.quietMS)*time.Millisecond; left > 0 {
		return left + time.Second
	}
	return stale
}

// age is how long ago a moment was, in milliseconds; 0 where it is not known.
func age(at int64) int64 {
	if at == 0 {
		return 0
	}
	return max(time.Now().UnixMilli()-at, 0)
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
