package opencode_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/opencode"
)

const schema = `PRAGMA journal_mode=WAL;
CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, title text NOT NULL, version text, time_created integer, time_updated integer, time_archived integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id,time_created,id);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, data text NOT NULL);
CREATE INDEX part_message_id_id_idx ON part (message_id,id);
CREATE TABLE todo (session_id text NOT NULL, status text NOT NULL, position integer NOT NULL, CONSTRAINT todo_pk PRIMARY KEY(session_id, position));
INSERT INTO session VALUES ('ses_1', NULL, '/work', 'First title', '1.18', 10, 20, NULL), ('ses_2', NULL, '/work', 'Second title', '1.18', 30, 40, NULL),
  ('ses_3', NULL, '/work', 'Archived', '1.18', 50, 60, 70), ('ses_4', 'ses_1', '/work', 'Of a subagent', '1.18', 50, 60, NULL), ('ses_5', NULL, '/else', 'Second title', '1.18', 1, 90, NULL);`

type fixture struct {
	t    *testing.T
	path string
	d    *opencode.Detector
}

func newFixture(t *testing.T, statements ...string) fixture {
	t.Helper()
	home := t.TempDir()
	f := fixture{t: t, path: filepath.Join(home, ".local", "share", "opencode", "opencode.db")}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		t.Fatal(err)
	}
	f.sql(schema + strings.Join(statements, ""))
	f.d = opencode.New(home, func(string) string { return "" })
	return f
}

func (f fixture) sql(statements string) {
	f.t.Helper()
	if out, err := exec.CommandContext(f.t.Context(), "sqlite3", f.path, statements).CombinedOutput(); err != nil {
		f.t.Fatalf("sqlite3: %v\n%s", err, out)
	}
}

func message(id string, at int, data string) string {
	return fmt.Sprintf("INSERT INTO message VALUES ('%s', 'ses_1', %d, '%s');", id, at, data)
}

func tool(id, name, status string) string {
	return fmt.Sprintf(`INSERT INTO part VALUES ('%s', 'm2', '{"type":"tool","tool":"%s","state":{"status":"%s"}}');`, id, name, status)
}

// TestMessages reads the state out of a conversation's last message and its parts.
func TestMessages(t *testing.T) {
	asked := message("m1", 1, `{"role":"user","time":{"created":1}}`)
	open := message("m2", 2, `{"role":"assistant","time":{"created":2}}`)
	for name, tc := range map[string]struct {
		rows string
		want padi.AgentState
	}{
		"nothing yet":           {"", ""},
		"a prompt":              {asked, padi.Thinking},
		"an answer under way":   {asked + open, padi.Thinking},
		"an answer":             {asked + message("m2", 2, `{"role":"assistant","time":{"created":2,"completed":3},"finish":"stop"}`), padi.Waiting},
		"not yet completed":     {asked + message("m2", 2, `{"role":"assistant","time":{"created":2},"finish":"stop"}`), padi.Thinking},
		"between two tools":     {asked + message("m2", 2, `{"role":"assistant","time":{"created":2,"completed":3},"finish":"tool-calls"}`), padi.Thinking},
		"interrupted":           {asked + message("m2", 2, `{"role":"assistant","time":{"created":2,"completed":3},"error":{"name":"MessageAbortedError"}}`), padi.Waiting},
		"a tool":                {asked + open + tool("p1", "bash", "running"), padi.ToolUse},
		"a tool that ended":     {asked + open + tool("p1", "bash", "completed"), padi.Thinking},
		"a question":            {asked + open + tool("p1", "question", "running"), padi.AwaitingUser},
		"a question and a tool": {asked + open + tool("p1", "question", "running") + tool("p2", "bash", "running"), padi.ToolUse},
		"another role":          {asked + message("m3", 3, `{"role":"system"}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.rows)
			facts, err := f.d.Read(agents.Subject{}, agents.Session{ID: "ses_1", Path: f.path})
			if err != nil || facts.State != tc.want || facts.Drift != "" {
				t.Errorf("%q, %v, %+v", facts.State, err, facts)
			}
		})
	}
}

func TestFacts(t *testing.T) {
	f := newFixture(t, message("m1", 1, `{"role":"assistant","time":{"created":1,"completed":2},"finish":"stop","modelID":"m","providerID":"p","tokens":{"total":77}}`),
		message("m2", 3, `{"role":"user","time":{"created":3}}`), "INSERT INTO todo VALUES ('ses_1','completed',0),('ses_1','pending',1),('ses_2','pending',0);")
	facts, err := f.d.Read(agents.Subject{}, agents.Session{ID: "ses_1", Path: f.path})
	if err != nil || facts.Model != "p/m" || facts.ContextTokens != 77 || facts.Summary != "First title" || facts.StartedAt != 10 ||
		facts.Tasks == nil || *facts.Tasks != (padi.Progress{Total: 2, Completed: 1}) {
		t.Errorf("%+v, %v", facts, err)
	}
	f.sql(message("m3", 4, "{no json"))
	if _, err := f.d.Read(agents.Subject{}, agents.Session{ID: "ses_1", Path: f.path}); err == nil {
		t.Error("a message that cannot be read is taken for none")
	}
}

// TestSessions are those of the folder, that a person began, with the title that the terminal shows.
func TestSessions(t *testing.T) {
	f := newFixture(t)
	for title, want := range map[string]string{
		"":                    "ses_2 ses_1",
		"OpenCode":            "",
		"OC | First title":    "ses_1",
		"OC | Second ti…":     "ses_2",
		"OC | Not this title": "",
		"something else":      "ses_2 ses_1",
	} {
		got, err := f.d.Sessions(agents.Subject{PID: -1, CWD: "/work", Title: title})
		var ids []string
		for _, s := range got {
			ids = append(ids, s.ID)
		}
		if err != nil || strings.Join(ids, " ") != want {
			t.Errorf("%q: %v, %v; want %s", title, ids, err, want)
		}
	}
}

// TestWithout: no database is no conversation; one of another shape is none either, with a word about it.
func TestWithout(t *testing.T) {
	d := opencode.New(t.TempDir(), func(string) string { return "" })
	if got, err := d.Sessions(agents.Subject{PID: -1, CWD: "/work"}); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	f := newFixture(t)
	f.sql("DROP TABLE message; CREATE TABLE message (id text);")
	if facts, err := f.d.Read(agents.Subject{}, agents.Session{ID: "ses_1", Path: f.path}); err != nil || !strings.Contains(facts.Drift, "session_id") {
		t.Errorf("%+v, %v", facts, err)
	}
}

// TestCompletions: what may be completed is drawn above the composer and is no part of it.
func TestCompletions(t *testing.T) {
	text := "  ┃ /exit    Exit the app   ┃\n  ┃ /export  Export it      ┃\n  ┃\n  ┃  /exit\n  ┃\n  ┃  Build · Stub model\n  ╹▀▀▀"
	d := opencode.New(t.TempDir(), func(string) string { return "" })
	if v := d.View(kaval.Screen{Text: text, CursorX: 10, CursorY: 3}); !v.Composer || v.Draft != "/exit" {
		t.Errorf("%+v", v)
	}
}
