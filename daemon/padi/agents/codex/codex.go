// Package codex knows Codex: its database of threads and the rollout that each thread is written to. For agents.Tracker. It only reads. Checked with
// 0.171.0; docs/agents.md says which file says what.
package codex

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/proc"
	"kolu/daemon/padi/agents/sqlite"
)

// Kind is what padi calls it.
const Kind = "codex"

// Detector is Codex's.
type Detector struct {
	dir, pinned string
	reader      *sqlite.Reader
	drift       string
	rollouts    map[string]rollout // by path, with the size they were read at
}

var _ agents.Detector = (*Detector)(nil)

// New makes a detector for the home directory and the environment of this padi.
func New(home string, getenv func(string) string) *Detector {
	d := &Detector{dir: getenv("KOLU_CODEX_DIR"), pinned: getenv("KOLU_CODEX_DB"), rollouts: map[string]rollout{}}
	if d.dir == "" {
		d.dir = getenv("CODEX_HOME")
	}
	if d.dir == "" {
		d.dir = filepath.Join(home, ".codex")
	}
	return d
}

// Kind is codex.
func (d *Detector) Kind() string { return Kind }

// database is the newest of the numbered databases, by their number.
func (d *Detector) database() *sqlite.Reader {
	path := d.pinned
	if path == "" {
		names, _ := filepath.Glob(filepath.Join(d.dir, "state_*.sqlite"))
		if len(names) == 0 {
			return nil
		}
		path = slices.MaxFunc(names, func(a, b string) int { return number(a) - number(b) })
	}
	if d.reader == nil || d.reader.Path() != path {
		d.reader = sqlite.NewReader(path)
	}
	return d.reader
}

func number(path string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "state_"), ".sqlite"))
	if err != nil {
		return -1
	}
	return n
}

// Paths are the database with its log, and the rollout.
func (d *Detector) Paths(_ agents.Subject, has *agents.Session) []string {
	paths := []string{d.dir}
	if has != nil {
		paths = append(paths, has.Path)
	}
	if db := d.database(); db != nil {
		paths = append(paths, db.Path(), db.Path()+"-wal")
	}
	return paths
}

var rolloutName = regexp.MustCompile(`/rollout-[^/]*-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl$`)

// Sessions is the thread whose rollout the program holds open, where the system tells that; else the threads of its folder. In Codex's daemon mode, which is
// its usual one, another process holds them all; those that a program keeps itself can then only be of another program.
func (d *Detector) Sessions(s agents.Subject) ([]agents.Session, error) {
	pids, _ := proc.Group(s.PID)
	seen := false
	for _, pid := range pids {
		open, _ := proc.Open(pid)
		if session := newest(open); session != nil {
			return []agents.Session{*session}, nil
		}
		seen = seen || slices.ContainsFunc(open, isState)
	}
	if seen {
		return d.threads(s, "vscode")
	}
	return d.threads(s, "vscode", "cli")
}

func isState(path string) bool {
	return strings.HasPrefix(filepath.Base(path), "state_") && strings.HasSuffix(path, ".sqlite")
}

// newest is the rollout that began last: a program that left one conversation for another may hold both for a moment.
func newest(open []string) *agents.Session {
	var found *agents.Session
	for _, path := range open {
		m := rolloutName.FindStringSubmatch(path)
		if m == nil {
			continue
		}
		if began := startOf(m[1]); found == nil || began > found.CreatedAt {
			found = &agents.Session{ID: m[1], Path: path, CreatedAt: began, Certain: true}
		}
	}
	return found
}

// columns are what the table of threads must have.
var columns = []string{"id", "rollout_path", "cwd", "source", "archived", "updated_at_ms", "title", "model"}

// most is how many threads of a folder are candidates.
const most = 64

// threads are those of a folder that a person began at a terminal, by their sources, the last one first.
func (d *Detector) threads(s agents.Subject, sources ...string) ([]agents.Session, error) {
	var found []agents.Session
	err := d.view(func(t *sqlite.Table) error {
		found = nil
		return t.Newest(func(row sqlite.Row) bool {
			if row.Text("cwd") == s.CWD && row.Int("archived") == 0 && slices.Contains(sources, row.Text("source")) {
				id := row.Text("id")
				found = append(found, agents.Session{
					ID: id, Path: row.Text("rollout_path"), CWD: s.CWD, CreatedAt: startOf(id), UpdatedAt: row.Int("updated_at_ms"),
				})
			}
			return true
		})
	})
	slices.SortStableFunc(found, func(a, b agents.Session) int { return int(b.UpdatedAt - a.UpdatedAt) })
	return found[:min(len(found), most)], err
}

// view looks at the table of threads. Without a database there are none; with one of another shape there are none either, and the drift is noted.
func (d *Detector) view(look func(*sqlite.Table) error) error {
	db := d.database()
	if db == nil {
		return nil
	}
	err := db.View(func(db *sqlite.DB) error {
		t, err := db.Table("threads")
		if err != nil {
			return err
		}
		if missing := t.Missing(columns...); len(missing) > 0 {
			return fmt.Errorf("%w: threads has no %s", errShape, strings.Join(missing, ", "))
		}
		d.drift = ""
		return look(t)
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

// Read puts the rollout and the thread's row together.
func (d *Detector) Read(_ agents.Subject, session agents.Session) (agents.Facts, error) {
	r, err := d.rollout(session.Path)
	if err != nil {
		return agents.Facts{}, err
	}
	f := agents.Facts{State: r.state, Asks: r.asks, Model: r.model, ContextTokens: r.tokens, StartedAt: startOf(session.ID), Version: r.version, At: r.modified}
	f.Evidence = []padi.Evidence{{Source: agents.FromFile, Path: session.Path, State: r.state, Detail: r.why, AgeMS: r.quiet()}}
	err = d.view(func(t *sqlite.Table) error {
		return t.Where("id", session.ID, func(row sqlite.Row) bool {
			f.Summary = oneLine(row.Text("title"))
			if model := row.Text("model"); model != "" {
				f.Model = model
			}
			return false
		})
	})
	f.Drift = d.drift
	if err != nil { // the rollout has said enough
		f.Evidence = append(f.Evidence, padi.Evidence{Source: agents.FromFile, Path: "threads", Detail: err.Error()})
	}
	return f, nil
}

// startOf is when a version 7 id was made, in milliseconds since 1970, or 0 for any other id.
func startOf(id string) int64 {
	hex := strings.ReplaceAll(id, "-", "")
	if len(id) != 36 || len(hex) != 32 || hex[12] != '7' || !strings.Contains("89ab", hex[16:17]) {
		return 0
	}
	if _, err := strconv.ParseUint(hex[16:], 16, 64); err != nil {
		return 0
	}
	ms, err := strconv.ParseInt(hex[:12], 16, 64)
	if err != nil {
		return 0
	}
	return ms
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

func modified(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.ModTime().UnixMilli()
}
