// Package claude knows Claude Code: the file in which each of its processes says what it is doing, and its transcripts. For agents.Tracker. It only
// reads. Checked with 2.1.332; docs/agents.md says which file says what.
package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/proc"
)

// Kind is what padi calls it.
const Kind = "claude-code"

// Detector is Claude Code's.
type Detector struct {
	sessions, projects string
	// found are the transcripts, by session.
	found map[string]string
	tasks map[string]*taskScan
}

var _ agents.Detector = (*Detector)(nil)

// New makes a detector for the home directory and the environment of this padi.
func New(home string, getenv func(string) string) *Detector {
	dir := getenv("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(home, ".claude")
	}
	d := &Detector{
		sessions: getenv("KOLU_CLAUDE_SESSIONS_DIR"), projects: getenv("KOLU_CLAUDE_PROJECTS_DIR"),
		found: map[string]string{}, tasks: map[string]*taskScan{},
	}
	if d.sessions == "" {
		d.sessions = filepath.Join(dir, "sessions")
	}
	if d.projects == "" {
		d.projects = filepath.Join(dir, "projects")
	}
	return d
}

// Kind is claude-code.
func (d *Detector) Kind() string { return Kind }

// process is what a process of Claude writes of itself, as sessions/<pid>.json.
type process struct {
	PID       int    `json:"pid"`
	SessionID string `json:"sessionId"`
	CWD       string `json:"cwd"`
	StartedAt int64  `json:"startedAt"`
	ProcStart string `json:"procStart"`
	Version   string `json:"version"`
	Status    string `json:"status"`
	WaitsFor  string `json:"waitingFor"`
	StatusAt  int64  `json:"statusUpdatedAt"`
}

func (d *Detector) processFile(pid int) string {
	return filepath.Join(d.sessions, strconv.Itoa(pid)+".json")
}

// Paths are the process's file, the transcript, and the folders in which background work shows.
func (d *Detector) Paths(s agents.Subject, has *agents.Session) []string {
	paths := []string{d.processFile(s.PID)}
	if has == nil {
		return append(paths, d.sessions)
	}
	paths = append(paths, d.processFile(pidOf(*has)))
	if t := d.transcript(has.ID, has.CWD); t != "" {
		paths = append(paths, t)
		for _, sub := range []string{"subagents", "workflows"} {
			paths = append(paths, filepath.Join(strings.TrimSuffix(t, ".jsonl"), sub))
		}
	}
	return paths
}

// Sessions is the one that a process in front says it is in.
func (d *Detector) Sessions(s agents.Subject) ([]agents.Session, error) {
	p, err := d.process(s.PID)
	if err != nil || p == nil {
		return nil, err
	}
	return []agents.Session{{
		ID: p.SessionID, CWD: p.CWD, Path: d.processFile(p.PID), Certain: true, Run: fmt.Sprintf("%d:%d", p.PID, p.StartedAt),
	}}, nil
}

func pidOf(s agents.Session) int {
	pid, _, _ := strings.Cut(s.Run, ":")
	n, _ := strconv.Atoi(pid)
	return n
}

// process finds the file of the process that leads a group, else that of another one in it, as with a launcher.
func (d *Detector) process(group int) (*process, error) {
	p, err := d.readProcess(group)
	if p != nil || err != nil {
		return p, err
	}
	entries, err := os.ReadDir(d.sessions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".json"))
		if err != nil || !proc.InGroup(pid, group) {
			continue
		}
		if p, err := d.readProcess(pid); p != nil || err != nil {
			return p, err
		}
	}
	return nil, nil
}

// readProcess gives nil for a file that is not there, not of that shape, or of a process that had the same number before.
func (d *Detector) readProcess(pid int) (*process, error) {
	b, err := os.ReadFile(d.processFile(pid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p process
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", d.processFile(pid), err) // it is written in place, so this may be half of it
	}
	if p.PID == 0 || p.SessionID == "" || p.CWD == "" {
		return nil, nil
	}
	if started := proc.Started(pid); p.ProcStart != "" && started != "" && started != p.ProcStart {
		return nil, nil
	}
	return &p, nil
}

// transcript is where a session's transcript is, or would be made.
func (d *Detector) transcript(id, cwd string) string {
	if path, ok := d.found[id]; ok {
		return path
	}
	for _, enc := range []func(rune) rune{notWord, slashOrDot} {
		path := filepath.Join(d.projects, strings.Map(enc, cwd), id+".jsonl")
		if _, err := os.Stat(path); err == nil {
			d.found[id] = path
			return path
		}
	}
	if paths, _ := filepath.Glob(filepath.Join(d.projects, "*", id+".jsonl")); len(paths) == 1 {
		d.found[id] = paths[0]
		return paths[0]
	}
	return filepath.Join(d.projects, strings.Map(notWord, cwd), id+".jsonl")
}

func notWord(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' {
		return r
	}
	return '-'
}

func slashOrDot(r rune) rune {
	if r == '/' || r == '.' {
		return '-'
	}
	return r
}

// Read puts the process's own word and the transcript together.
func (d *Detector) Read(s agents.Subject, session agents.Session) (agents.Facts, error) {
	p, err := d.readProcess(pidOf(session))
	if err != nil {
		return agents.Facts{}, err
	}
	path := d.transcript(session.ID, session.CWD)
	t, err := d.readTranscript(path)
	if err != nil {
		return agents.Facts{}, err
	}
	f := agents.Facts{Model: t.model, Summary: t.summary, ContextTokens: t.tokens, StartedAt: t.startedAt, Tasks: t.tasks}
	f.Evidence = append(f.Evidence, padi.Evidence{Source: agents.FromFile, Path: path, State: t.state, Detail: t.why, AgeMS: t.quietMS})
	var started int64
	if p != nil {
		f.Version, started = p.Version, p.StartedAt
		f.State, f.Asks, f.Drift = p.state(t)
		f.Message = p.WaitsFor
		f.Own, f.At = f.State != "", p.StatusAt
		f.Evidence = append([]padi.Evidence{p.evidence(f.State)}, f.Evidence...)
	}
	if !f.Own {
		f.State, f.Asks = t.decayed(started, pidOf(session))
		f.At = time.Now().UnixMilli() - t.quietMS
		f.Again = t.again()
	}
	if f.State == padi.Waiting && d.background(path, &t, &f) {
		f.State = padi.RunningBackground
	}
	return f, nil
}

// state is what the process says, made as exact as the transcript is.
func (p *process) state(t transcript) (state padi.AgentState, asks, drift string) {
	switch p.Status {
	case "":
		return "", "", "" // before the first prompt, and older versions
	case "busy":
		if t.state == padi.ToolUse {
			return padi.ToolUse, "", ""
		}
		return padi.Thinking, "", ""
	case "idle":
		return padi.Waiting, "", ""
	case "shell":
		return padi.RunningBackground, "", ""
	case "waiting":
		if strings.Contains(p.WaitsFor, "permission") {
			return padi.AwaitingUser, "permission", ""
		}
		return padi.AwaitingUser, "question", ""
	}
	return "", "", fmt.Sprintf("its process says %q, which is no state known here", p.Status)
}

func (p *process) evidence(state padi.AgentState) padi.Evidence {
	detail := "status " + strconv.Quote(p.Status)
	if p.WaitsFor != "" {
		detail += ", waiting for " + strconv.Quote(p.WaitsFor)
	}
	return padi.Evidence{Source: agents.FromFile, Path: "sessions/" + strconv.Itoa(p.PID) + ".json", State: state, Detail: detail, AgeMS: age(p.StatusAt)}
}
