package claude

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"kolu/daemon/padi/agents"
)

var (
	launched = regexp.MustCompile(`(?:launched in background\. Task ID: |Command running in background with ID: |Async agent launched successfully\.\s+agentId: )([\w-]+)`)
	runID    = regexp.MustCompile(`Run ID: ([\w-]+)`)
	taskID   = regexp.MustCompile(`<task-id>([\w-]+)</task-id>`)
	taskEnd  = regexp.MustCompile(`<status>(?:completed|failed|stopped|killed)`)
)

// noteLaunches takes the background work that results of tools tell of. Lines are read from the last one back, so what has ended is known already.
func (t *transcript) noteLaunches(content []block, ended map[string]bool) {
	for _, b := range content {
		if b.Type != "tool_result" {
			continue
		}
		text := textOf(b.Content)
		m := launched.FindStringSubmatch(text)
		if m == nil || ended[m[1]] {
			continue
		}
		run := ""
		if r := runID.FindStringSubmatch(text); r != nil {
			run = r[1]
		}
		t.outstanding[m[1]] = run
	}
}

// taskEnded is the background task of whose end an entry tells, or "".
func taskEnded(l line) string {
	text := textOf(l.Content)
	if l.Operation != "enqueue" || !taskEnd.MatchString(text) {
		return ""
	}
	if m := taskID.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// background reports whether work goes on although the turn has ended: a workflow or a fork that wrote in the last two minutes. A shell or an agent that
// was only started in the background does not count, since what tells of its end gets lost when Claude is started again.
func (d *Detector) background(path string, t *transcript, f *agents.Facts) bool {
	dir := strings.TrimSuffix(path, ".jsonl")
	for _, run := range t.outstanding {
		if run != "" && workflowLive(dir, run) {
			f.Message, f.Again = "a workflow runs", stale
			return true
		}
	}
	if forkLive(dir) {
		f.Message, f.Again = "a fork runs", stale
		return true
	}
	return false
}

// workflowLive reads both layouts: the snapshot that is written at the end, and the folder of a live run.
func workflowLive(dir, run string) bool {
	var end struct{ Status string }
	if b, err := os.ReadFile(filepath.Join(dir, "workflows", run+".json")); err == nil && json.Unmarshal(b, &end) == nil {
		return end.Status == "running" || end.Status == "pending"
	}
	return youngest(filepath.Join(dir, "subagents", "workflows", run, "*.jsonl")) < stale
}

// youngest is how long ago the newest of some files changed. The time of their folder would not move with what is appended.
func youngest(pattern string) time.Duration {
	paths, _ := filepath.Glob(pattern)
	least := time.Duration(1<<63 - 1)
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			least = min(least, time.Since(info.ModTime()))
		}
	}
	return least
}

func forkLive(dir string) bool {
	metas, _ := filepath.Glob(filepath.Join(dir, "subagents", "agent-*.meta.json"))
	for _, meta := range metas {
		b, err := os.ReadFile(meta)
		if err != nil || !bytes.Contains(b, []byte(`"fork"`)) {
			continue
		}
		var m struct {
			AgentType string `json:"agentType"`
		}
		log := strings.TrimSuffix(meta, ".meta.json") + ".jsonl"
		if json.Unmarshal(b, &m) == nil && m.AgentType == "fork" && youngest(log) < stale && !ended(log) {
			return true
		}
	}
	return false
}

// ended reports whether a fork's own transcript says that its turn has ended.
func ended(path string) bool {
	lines, _, err := agents.Tail(path)
	if err != nil {
		return false
	}
	for i := range lines { // they are all of a side chain, which is the main one here
		lines[i] = bytes.ReplaceAll(lines[i], []byte(`"isSidechain":true`), []byte(`"isSidechain":false`))
	}
	return readLines(lines).state == "waiting"
}
