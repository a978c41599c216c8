// Package opencode knows opencode: its database, and its screen, on which alone a permission is asked. For agents.Tracker. It only reads. Checked with
// 1.18.33; docs/agents.md says which table says what.
package opencode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/proc"
	"kolu/daemon/padi/agents/sqlite"
)

// Kind is what padi calls it.
const Kind = "opencode"

// Detector is opencode's.
type Detector struct {
	path    string
	readers map[string]*sqlite.Reader
	drift   string
}

var _ agents.Detector = (*Detector)(nil)

// New makes a detector for the home directory and the environment of this padi.
func New(home string, getenv func(string) string) *Detector {
	d := &Detector{path: getenv("KOLU_OPENCODE_DB"), readers: map[string]*sqlite.Reader{}}
	if d.path == "" {
		data := getenv("XDG_DATA_HOME")
		if data == "" {
			data = filepath.Join(home, ".local", "share")
		}
		d.path = filepath.Join(data, "opencode", "opencode.db")
	}
	return d
}

// Kind is opencode.
func (d *Detector) Kind() string { return Kind }

func (d *Detector) reader(path string) *sqlite.Reader {
	if path == "" {
		path = d.path
	}
	if d.readers[path] == nil {
		d.readers[path] = sqlite.NewReader(path)
	}
	return d.readers[path]
}

// Paths are the database and its log.
func (d *Detector) Paths(_ agents.Subject, has *agents.Session) []string {
	path := d.path
	if has != nil {
		path = has.Path
	}
	return []string{path, path + "-wal"}
}

// database is the one that the program holds open, where the system tells that.
func (d *Detector) database(s agents.Subject) string {
	pids, _ := proc.Group(s.PID)
	for _, pid := range pids {
		open, _ := proc.Open(pid)
		for _, p := range open {
			if filepath.Base(p) == filepath.Base(d.path) {
				return p
			}
		}
	}
	return d.path
}

const (
	// untitled is the terminal's title until there is a conversation, titled what stands before one's title.
	untitled = "OpenCode"
	titled   = "OC | "
	most     = 64
)

// Sessions are the conversations of the folder that have the title which the terminal shows, the last one first. While the terminal's title says that there is none,
// there is none.
func (d *Detector) Sessions(s agents.Subject) ([]agents.Session, error) {
	if s.Title == untitled {
		return nil, nil
	}
	path := d.database(s)
	var found []agents.Session
	err := d.view(path, "session", []string{"id", "directory", "title", "time_created", "time_updated", "time_archived"}, func(_ *sqlite.DB, t *sqlite.Table) error {
		found = nil
		return t.Newest(func(row sqlite.Row) bool {
			if row.Text("directory") == s.CWD && row["time_archived"] == nil && row["parent_id"] == nil && sameTitle(s.Title, row.Text("title")) {
				found = append(found, agents.Session{
					ID: row.Text("id"), Path: path, CWD: s.CWD, CreatedAt: row.Int("time_created"), UpdatedAt: row.Int("time_updated"),
				})
			}
			return true
		})
	})
	slices.SortStableFunc(found, func(a, b agents.Session) int { return int(b.UpdatedAt - a.UpdatedAt) })
	return found[:min(len(found), most)], err
}

// sameTitle reports whether a terminal's title may be that of a conversation. A long one is cut, and a title of another form tells nothing.
func sameTitle(terminal, session string) bool {
	shown, ok := strings.CutPrefix(terminal, titled)
	if !ok {
		return true
	}
	shown = strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(shown, "…"), "..."), " ")
	return strings.HasPrefix(session, shown)
}

// view looks at a table. Without a database there is nothing; with one of another shape there is nothing either, and the drift is noted.
func (d *Detector) view(path, table string, columns []string, look func(*sqlite.DB, *sqlite.Table) error) error {
	err := d.reader(path).View(func(db *sqlite.DB) error {
		t, err := db.Table(table)
		if err != nil {
			return err
		}
		if missing := t.Missing(columns...); len(missing) > 0 {
			return fmt.Errorf("%w: %s has no %s", errShape, table, strings.Join(missing, ", "))
		}
		d.drift = ""
		return look(db, t)
	})
	switch {
	case errors.Is(err, errShape), errors.Is(err, sqlite.ErrNoTable), errors.Is(err, sqlite.ErrFormat):
		d.drift = err.Error()
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

var errShape = errors.New("not the shape known here")

// message is what the column data of a message holds.
type message struct {
	Role string `json:"role"`
	Time struct {
		Created   int64 `json:"created"`
		Completed int64 `json:"completed"`
	} `json:"time"`
	Finish     string          `json:"finish"`
	Error      json.RawMessage `json:"error"`
	ModelID    string          `json:"modelID"`
	ProviderID string          `json:"providerID"`
	Tokens     struct {
		Total int64 `json:"total"`
	} `json:"tokens"`
	id string
}

// Read takes the last messages of a conversation, the parts of the last one, and the list of tasks.
func (d *Detector) Read(_ agents.Subject, session agents.Session) (agents.Facts, error) {
	var f agents.Facts
	var last message
	err := d.view(session.Path, "message", []string{"id", "session_id", "time_created", "data"}, func(db *sqlite.DB, t *sqlite.Table) error {
		f, last = agents.Facts{}, message{}
		if err := readMessages(t, session.ID, &f, &last); err != nil {
			return err
		}
		if f.State == padi.Thinking && last.Role == "assistant" {
			if err := readParts(db, last.id, &f); err != nil {
				return err
			}
		}
		return readRest(db, session.ID, &f)
	})
	if err != nil {
		return f, err
	}
	why := "no message yet"
	if last.Role != "" {
		why = fmt.Sprintf("last message: %s, finish %q", last.Role, last.Finish)
	}
	f.Drift, f.At = d.drift, max(last.Time.Completed, last.Time.Created)
	f.Evidence = []padi.Evidence{{Source: agents.FromFile, Path: session.Path, State: f.State, Detail: why, AgeMS: age(f.At)}}
	return f, nil
}

// readMessages goes back from the last message to the last answer with a count of tokens.
func readMessages(t *sqlite.Table, session string, f *agents.Facts, last *message) error {
	var broken error
	seen := 0
	err := t.Where("session_id", session, func(row sqlite.Row) bool {
		var m message
		if err := json.Unmarshal([]byte(row.Text("data")), &m); err != nil {
			broken = fmt.Errorf("message %s: %w", row.Text("id"), err)
			return false
		}
		m.id = row.Text("id")
		if last.Role == "" {
			*last = m
			f.State = stateOf(m)
		}
		if f.Model == "" && m.ModelID != "" {
			f.Model = m.ProviderID + "/" + m.ModelID
		}
		if f.ContextTokens == 0 {
			f.ContextTokens = m.Tokens.Total
		}
		seen++
		return (f.ContextTokens == 0 || f.Model == "") && seen < most
	})
	return errors.Join(err, broken)
}

// stateOf is what a conversation's last message says. An answer that was interrupted or that failed has an error in place of a finish.
func stateOf(m message) padi.AgentState {
	switch {
	case m.Role == "user":
		return padi.Thinking
	case m.Role != "assistant":
		return ""
	case m.Time.Completed != 0 && (m.Finish == "stop" || m.Finish == "length" || m.Finish == "content-filter" || len(m.Error) > 0):
		return padi.Waiting
	}
	return padi.Thinking
}

// readParts looks for tools that run in an unfinished answer.
func readParts(db *sqlite.DB, message string, f *agents.Facts) error {
	t, err := db.Table("part")
	if err != nil {
		return err
	}
	running, asking := 0, 0
	err = t.Where("message_id", message, func(row sqlite.Row) bool {
		var p struct {
			Type  string `json:"type"`
			Tool  string `json:"tool"`
			State struct {
				Status string `json:"status"`
			} `json:"state"`
		}
		if json.Unmarshal([]byte(row.Text("data")), &p) == nil && p.Type == "tool" && p.State.Status == "running" {
			running++
			if p.Tool == "question" || p.Tool == "plan_exit" {
				asking++
			}
		}
		return true
	})
	switch {
	case running > 0 && asking == running:
		f.State, f.Asks = padi.AwaitingUser, "question"
	case running > 0:
		f.State = padi.ToolUse
	}
	return err
}

// readRest takes the title, the beginning and the list of tasks; a database without them has told what counts.
func readRest(db *sqlite.DB, session string, f *agents.Facts) error {
	if t, err := db.Table("session"); err == nil {
		err = t.Where("id", session, func(row sqlite.Row) bool {
			f.Summary, f.StartedAt, f.Version = row.Text("title"), row.Int("time_created"), row.Text("version")
			return false
		})
		if err != nil {
			return err
		}
	}
	t, err := db.Table("todo")
	if err != nil {
		return nil
	}
	var p padi.Progress
	err = t.Where("session_id", session, func(row sqlite.Row) bool {
		p.Total++
		if row.Text("status") == "completed" {
			p.Completed++
		}
		return true
	})
	if p.Total > 0 {
		f.Tasks = &p
	}
	return err
}

func age(at int64) int64 {
	if at == 0 {
		return 0
	}
	return max(time.Now().UnixMilli()-at, 0)
}
