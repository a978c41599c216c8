package codex_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/codex"
)

const thread = "01a22fe3-e9e7-74e0-a7ed-abf8d1ae332e"

func sql(t *testing.T, db, statements string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sqlite3", db, statements).CombinedOutput(); err != nil {
		t.Fatalf("sqlite3: %v\n%s", err, out)
	}
}

const schema = `PRAGMA journal_mode=WAL; CREATE TABLE threads (id TEXT PRIMARY KEY, rollout_path TEXT, cwd TEXT, source TEXT, archived INTEGER,
	updated_at_ms INTEGER, title TEXT, model TEXT, tokens_used INTEGER);`

func newDetector(t *testing.T, dir string) *codex.Detector {
	return codex.New(dir, func(key string) string {
		if key == "CODEX_HOME" {
			return dir
		}
		return ""
	})
}

func insert(id, path, source string, archived, updated int) string {
	return fmt.Sprintf("INSERT INTO threads VALUES ('%s', '%s', '/work', '%s', %d, %d, 'title of %s', 'gpt', 9000000);", id, path, source, archived, updated, id)
}

func subject() agents.Subject { return agents.Subject{ID: "t", PID: os.Getpid(), CWD: "/work"} }

// TestRollout reads the state out of rollouts.
func TestRollout(t *testing.T) {
	event := func(kind string) string {
		return fmt.Sprintf(`{"type":"event_msg","payload":{"type":%q,"reason":"interrupted"}}`, kind)
	}
	open := func(id, name string) string {
		return fmt.Sprintf(`{"type":"response_item","payload":{"type":"function_call","call_id":%q,"name":%q}}`, id, name)
	}
	done := func(id string) string {
		return fmt.Sprintf(`{"type":"response_item","payload":{"type":"function_call_output","call_id":%q}}`, id)
	}
	for name, tc := range map[string]struct {
		lines []string
		want  padi.AgentState
	}{
		"no turn":                        {[]string{`{"type":"session_meta","payload":{}}`}, ""},
		"a turn":                         {[]string{event("task_started")}, padi.Thinking},
		"a turn that ended":              {[]string{event("task_started"), event("task_complete")}, padi.Waiting},
		"only the end of one":            {[]string{event("task_complete")}, padi.Waiting},
		"a turn that was cut":            {[]string{event("task_started"), event("turn_aborted")}, padi.Waiting},
		"a call":                         {[]string{event("task_started"), open("1", "exec_command")}, padi.ToolUse},
		"a call that returned":           {[]string{event("task_started"), open("1", "exec_command"), done("1")}, padi.Thinking},
		"a question":                     {[]string{event("task_started"), open("1", "request_user_input")}, padi.AwaitingUser},
		"a question and a call":          {[]string{event("task_started"), open("1", "request_user_input"), open("2", "exec_command")}, padi.ToolUse},
		"a call left by a turn cut":      {[]string{event("task_started"), open("1", "exec_command"), event("turn_aborted"), event("task_started")}, padi.Thinking},
		"a line that is no JSON":         {[]string{event("task_started"), "{"}, padi.Thinking},
		"the end of a call, which isn't": {[]string{event("task_started"), open("1", "x"), event("exec_command_end")}, padi.ToolUse},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "r.jsonl")
			if err := os.WriteFile(path, []byte(strings.Join(tc.lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			facts, err := newDetector(t, dir).Read(subject(), agents.Session{ID: thread, Path: path})
			if err != nil || facts.State != tc.want {
				t.Errorf("%q, %v; %+v", facts.State, err, facts.Evidence)
			}
		})
	}
}

// TestThreads: the newest database by its number; threads of the folder that a person began, the last written to first.
func TestThreads(t *testing.T) {
	dir := t.TempDir()
	sql(t, filepath.Join(dir, "state_5.sqlite"), schema+insert("old", "/o", "cli", 0, 1))
	sql(t, filepath.Join(dir, "state_10.sqlite"), schema+insert("a", "/a", "cli", 0, 10)+insert("b", "/b", "vscode", 0, 30)+insert("c", "/c", "cli", 1, 40)+
		insert("d", "/d", `{"subagent":"x"}`, 0, 50)+"INSERT INTO threads VALUES ('e', '/e', '/other', 'cli', 0, 60, '', '', 0);")
	sessions, err := newDetector(t, dir).Sessions(subject())
	if err != nil || len(sessions) != 2 || sessions[0].ID != "b" || sessions[1].ID != "a" {
		t.Errorf("%+v, %v", sessions, err)
	}
}

// TestFacts: the context is what the last request carried, not what the thread used in its life; the beginning is in the id.
func TestFacts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.jsonl")
	usage := `{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":5000},"last_token_usage":{"input_tokens":1200,"cached_input_tokens":800}}}}`
	if err := os.WriteFile(path, []byte(usage+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sql(t, filepath.Join(dir, "state_5.sqlite"), schema+insert(thread, path, "cli", 0, 1))
	facts, err := newDetector(t, dir).Read(subject(), agents.Session{ID: thread, Path: path})
	if err != nil || facts.ContextTokens != 1200 || facts.Summary != "title of "+thread || facts.Model != "gpt" || facts.Drift != "" {
		t.Errorf("%+v, %v", facts, err)
	}
	if at := time.UnixMilli(facts.StartedAt).UTC().Format(time.DateOnly); at != "2026-12-01" {
		t.Errorf("began %s", at)
	}
	for _, id := range []string{"01a22fe3-e9e7-44e0-a7ed-abf8d1ae332e", "01a22fe3-e9e7-74e0-07ed-abf8d1ae332e", "01a22fe3", "01a22fe3-e9e7-74e0-a7ed-abf8d1ae33zz"} {
		if facts, _ := newDetector(t, dir).Read(subject(), agents.Session{ID: id, Path: path}); facts.StartedAt != 0 {
			t.Errorf("%s has a time: %d", id, facts.StartedAt)
		}
	}
}

// TestDrift: a table of another shape is nothing, with a word about it; a locked database is read all the same, and a broken one is no loss of what was known.
func TestDrift(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "state_5.sqlite")
	sql(t, db, "CREATE TABLE threads (id TEXT, cwd TEXT);")
	d := newDetector(t, dir)
	if got, err := d.Sessions(subject()); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	facts, err := d.Read(subject(), agents.Session{ID: thread, Path: filepath.Join(dir, "none")})
	if err != nil || !strings.Contains(facts.Drift, "rollout_path") {
		t.Errorf("%+v, %v", facts, err)
	}
	if got, err := newDetector(t, t.TempDir()).Sessions(subject()); err != nil || len(got) != 0 {
		t.Errorf("nothing there: %+v, %v", got, err)
	}
}

// TestOpenRollout: the process that has a rollout open is in that conversation, whatever the database says.
func TestOpenRollout(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not tell what a process holds open")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "rollout-2026-12-01T04-36-35-"+thread+".jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sessions, err := newDetector(t, dir).Sessions(agents.Subject{ID: "t", PID: os.Getpid(), CWD: "/elsewhere"})
	if err != nil || len(sessions) != 1 || sessions[0].ID != thread || !sessions[0].Certain {
		t.Errorf("%+v, %v", sessions, err)
	}
}

// TestDaemonMode: a program that can be seen to hold the database and no rollout is in a thread that Codex's daemon keeps, and in none that another program keeps itself.
func TestDaemonMode(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not tell what a process holds open")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "state_5.sqlite")
	sql(t, path, schema+insert("own", "/a", "cli", 0, 30)+insert("kept", "/b", "vscode", 0, 20))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sessions, err := newDetector(t, dir).Sessions(subject())
	if err != nil || len(sessions) != 1 || sessions[0].ID != "kept" || sessions[0].Certain {
		t.Errorf("%+v, %v", sessions, err)
	}
}
