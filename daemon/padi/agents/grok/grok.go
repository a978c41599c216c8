// Package grok knows grok: the list of its processes and the events of each conversation. For agents.Tracker. It only reads. The files are known from
// fixtures alone, not from the program.
package grok

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/proc"
)

// Kind is what padi calls it.
const Kind = "grok"

// Detector is grok's.
type Detector struct {
	dir string
	// bound are the conversations of processes. The list on disk is written whole by any grok from what it knows itself, so one that is missing
	// from it has not ended.
	bound map[int]row
}

var _ agents.Detector = (*Detector)(nil)

// New makes a detector for the home directory and the environment of this padi.
func New(home string, getenv func(string) string) *Detector {
	d := &Detector{dir: getenv("KOLU_GROK_DIR"), bound: map[int]row{}}
	if d.dir == "" {
		d.dir = filepath.Join(home, ".grok")
	}
	return d
}

// Kind is grok.
func (d *Detector) Kind() string { return Kind }

// row is one process of active_sessions.json.
type row struct {
	SessionID string `json:"session_id"`
	PID       int    `json:"pid"`
	CWD       string `json:"cwd"`
}

func (d *Detector) list() string { return filepath.Join(d.dir, "active_sessions.json") }

// Paths are the list, and the files of the conversation.
func (d *Detector) Paths(_ agents.Subject, has *agents.Session) []string {
	paths := []string{d.list()}
	if has != nil {
		for _, name := range []string{"events.jsonl", "summary.json", "signals.json"} {
			paths = append(paths, filepath.Join(has.Path, name))
		}
	}
	return paths
}

// Sessions is the conversation to which the process is bound. Nothing is guessed for a process that was never on the list.
func (d *Detector) Sessions(s agents.Subject) ([]agents.Session, error) {
	rows, err := d.read()
	if err != nil {
		return nil, err
	}
	for pid := range d.bound {
		if !proc.Alive(pid) {
			delete(d.bound, pid)
		}
	}
	for _, r := range rows {
		if r.SessionID != "" && (r.PID == s.PID || proc.InGroup(r.PID, s.PID)) {
			d.bound[s.PID] = r
		}
	}
	r, ok := d.bound[s.PID]
	if !ok {
		return nil, nil
	}
	dir := filepath.Join(d.dir, "sessions", encoded(r.CWD), r.SessionID)
	return []agents.Session{{ID: r.SessionID, CWD: r.CWD, Path: dir, Certain: true, Run: fmt.Sprint(r.PID)}}, nil
}

func (d *Detector) read() ([]row, error) {
	b, err := os.ReadFile(d.list())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rows []row
	if err := json.Unmarshal(b, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", d.list(), err)
	}
	return rows, nil
}

// Read takes the events, and what else the conversation's folder tells.
func (d *Detector) Read(_ agents.Subject, session agents.Session) (agents.Facts, error) {
	path := filepath.Join(session.Path, "events.jsonl")
	lines, _, err := agents.Tail(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return agents.Facts{}, err
	}
	var f agents.Facts
	f.State, f.Asks = readEvents(lines)
	f.Own = f.State != ""
	if info, err := os.Stat(path); err == nil {
		f.At = info.ModTime().UnixMilli()
	}
	f.Evidence = []padi.Evidence{{Source: agents.FromFile, Path: path, State: f.State, Detail: "its events"}}
	var summary struct {
		Model     string    `json:"current_model_id"`
		Generated string    `json:"generated_title"`
		Summary   string    `json:"session_summary"`
		CreatedAt time.Time `json:"created_at"`
	}
	if readJSON(filepath.Join(session.Path, "summary.json"), &summary) {
		f.Model, f.Summary = summary.Model, summary.Generated
		if f.Summary == "" {
			f.Summary = summary.Summary
		}
		if !summary.CreatedAt.IsZero() {
			f.StartedAt = summary.CreatedAt.UnixMilli()
		}
	}
	var signals struct {
		ContextTokensUsed int64 `json:"contextTokensUsed"`
	}
	if readJSON(filepath.Join(session.Path, "signals.json"), &signals) {
		f.ContextTokens = signals.ContextTokensUsed
	}
	return f, nil
}

// readJSON reports whether a file was there and readable; what it would have told is only left out.
func readJSON(path string, v any) bool {
	b, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(b, v) == nil
}

// event is one line of events.jsonl.
type event struct {
	Type  string `json:"type"`
	Phase string `json:"phase"`
	Tool  string `json:"tool_name"`
}

// readEvents goes back from the last event. A question that is open counts only within the turn that is under way.
func readEvents(lines [][]byte) (state padi.AgentState, asks string) {
	answered, planned := 0, 0
	for i := len(lines) - 1; i >= 0; i-- {
		var e event
		if json.Unmarshal(lines[i], &e) != nil {
			continue
		}
		switch e.Type {
		case "tool_completed":
			if e.Tool == "ask_user_question" {
				answered++
			}
		case "tool_started":
			if e.Tool == "ask_user_question" {
				if answered--; answered < 0 && (state == "" || state != padi.Waiting) {
					return padi.AwaitingUser, "question"
				}
			}
		case "goal_planner_completed":
			planned++
		case "goal_planner_fired":
			if planned--; planned < 0 && state == "" {
				state = padi.Thinking
			}
		case "turn_ended":
			if state == "" {
				state = padi.Waiting
			}
			return state, asks
		case "turn_started":
			if state == "" {
				state = padi.Thinking
			}
			return state, asks
		case "phase_changed":
			if state == "" {
				state, asks = phase(e.Phase)
			}
		}
	}
	return state, asks
}

func phase(name string) (state padi.AgentState, asks string) {
	switch name {
	case "permission_prompt":
		return padi.AwaitingUser, "permission"
	case "tool_execution":
		return padi.ToolUse, ""
	}
	return padi.Thinking, ""
}

// NeedsScreen: its files say everything.
func (d *Detector) NeedsScreen(agents.Facts) bool { return false }

// View knows nothing of its screen.
func (d *Detector) View(kaval.Screen) agents.View { return agents.View{} }

// encoded is a folder as a name: what encodeURIComponent makes of it.
func encoded(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("-_.!~*'()", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
