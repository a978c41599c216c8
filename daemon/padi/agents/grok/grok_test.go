package grok_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/grok"
)

func newDetector(t *testing.T) (*grok.Detector, string) {
	dir := t.TempDir()
	return grok.New(dir, func(key string) string {
		if key == "KOLU_GROK_DIR" {
			return dir
		}
		return ""
	}), dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEvents reads the state out of events.
func TestEvents(t *testing.T) {
	ev := func(kind string) string { return fmt.Sprintf(`{"type":%q,"tool_name":"ask_user_question"}`, kind) }
	phase := func(p string) string { return fmt.Sprintf(`{"type":"phase_changed","phase":%q}`, p) }
	for name, tc := range map[string]struct {
		lines []string
		want  padi.AgentState
	}{
		"a turn":                     {[]string{ev("turn_started")}, padi.Thinking},
		"a turn that ended":          {[]string{ev("turn_started"), ev("turn_ended")}, padi.Waiting},
		"a permission":               {[]string{ev("turn_started"), phase("permission_prompt")}, padi.AwaitingUser},
		"a tool":                     {[]string{ev("turn_started"), phase("tool_execution")}, padi.ToolUse},
		"a phase of the future":      {[]string{ev("turn_started"), phase("dreaming")}, padi.Thinking},
		"a question":                 {[]string{ev("turn_started"), ev("tool_started"), phase("tool_execution")}, padi.AwaitingUser},
		"an answered one":            {[]string{ev("turn_started"), ev("tool_started"), ev("tool_completed"), phase("streaming_text")}, padi.Thinking},
		"one open when the turn end": {[]string{ev("turn_started"), ev("tool_started"), ev("turn_ended")}, padi.Waiting},
		"one of the turn before":     {[]string{ev("tool_started"), ev("turn_started"), phase("streaming_text")}, padi.Thinking},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newDetector(t)
			write(t, filepath.Join(dir, "s", "events.jsonl"), strings.Join(tc.lines, "\n")+"\n")
			facts, err := d.Read(agents.Subject{}, agents.Session{ID: "x", Path: filepath.Join(dir, "s")})
			if err != nil || facts.State != tc.want {
				t.Errorf("%q, %v", facts.State, err)
			}
		})
	}
}

// TestBinding: a process keeps its conversation though another grok wrote the list without it, and takes a new one when the list says so.
func TestBinding(t *testing.T) {
	d, dir := newDetector(t)
	s := agents.Subject{ID: "t", PID: os.Getpid(), CWD: "/a b"}
	list := filepath.Join(dir, "active_sessions.json")
	want := func(what, id string) {
		t.Helper()
		got, err := d.Sessions(s)
		if err != nil || (id == "") != (len(got) == 0) || id != "" && (got[0].ID != id || !got[0].Certain) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	want("no list", "")
	write(t, list, `[{"session_id":"other","pid":1,"cwd":"/a b"}]`)
	want("a process that was never on it", "")
	mine := fmt.Sprintf(`[{"session_id":"one","pid":%d,"cwd":"/a b"}]`, os.Getpid())
	write(t, list, mine)
	want("on it", "one")
	if got, _ := d.Sessions(s); got[0].Path != filepath.Join(dir, "sessions", "%2Fa%20b", "one") {
		t.Errorf("path %s", got[0].Path)
	}
	write(t, list, `[]`)
	want("written by another grok", "one")
	write(t, list, strings.Replace(mine, "one", "two", 1))
	want("a new conversation", "two")
	write(t, list, `[{"sess`)
	if _, err := d.Sessions(s); err == nil {
		t.Error("half a list is no error")
	}
}
