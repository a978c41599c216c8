package sqlite_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kolu/daemon/padi/agents/sqlite"
)

// engine is the real program with a database open, as an agent has it.
type engine struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

func open(t *testing.T, path string) *engine {
	t.Helper()
	cmd := exec.Command("sqlite3", "-batch", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &engine{t: t, in: in, out: bufio.NewReader(out)}
}

// do runs statements to their end.
func (e *engine) do(sql string) {
	e.t.Helper()
	e.n++
	mark := fmt.Sprintf("done %d", e.n)
	fmt.Fprintf(e.in, "%s\nSELECT '%s';\n", sql, mark)
	for {
		line, err := e.out.ReadString('\n')
		if err != nil {
			e.t.Fatalf("sqlite3 after %q: %v", sql, err)
		}
		if strings.TrimSpace(line) == mark {
			return
		}
	}
}

const messages = `CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, -- whose
  time_created INTEGER, data TEXT DEFAULT '(,)', n INTEGER, CONSTRAINT x CHECK (n > -2));
CREATE INDEX message_session ON message (session_id);`

func where(t *testing.T, r *sqlite.Reader, session string) (ids []string) {
	t.Helper()
	err := r.View(func(db *sqlite.DB) error {
		ids = nil
		table, err := db.Table("message")
		if err != nil {
			return err
		}
		return table.Where("session_id", session, func(row sqlite.Row) bool {
			ids = append(ids, row.Text("id"))
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestFollowsTheLog reads what another process commits, with a log that grows, is checkpointed, and begins anew.
func TestFollowsTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	e := open(t, path)
	e.do("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;" + messages)
	r := sqlite.NewReader(path)
	var want []string
	for i := range 40 {
		id := fmt.Sprintf("m%02d", i)
		e.do(fmt.Sprintf("INSERT INTO message VALUES ('%s', 's%d', %d, 'x', 1);", id, i%2, i))
		if i%2 == 0 {
			want = append([]string{id}, want...)
		}
		if i%7 == 3 {
			e.do("PRAGMA wal_checkpoint(RESTART);")
		}
		if got := where(t, r, "s0"); !slices.Equal(got, want) {
			t.Fatalf("after %d inserts: %v, want %v", i+1, got, want)
		}
	}
	e.do("BEGIN; DELETE FROM message;")
	if got := where(t, r, "s0"); len(got) != 20 {
		t.Errorf("an open transaction shows: %v", got)
	}
	e.do("COMMIT;")
	if got := where(t, r, "s0"); len(got) != 0 {
		t.Errorf("deleted rows are there: %v", got)
	}
}

// TestManyPages reads trees of several levels and rows on pages of their own, with and without a log.
func TestManyPages(t *testing.T) {
	for _, mode := range []string{"WAL", "DELETE"} {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			e := open(t, path)
			e.do("PRAGMA page_size=1024; PRAGMA journal_mode=" + mode + ";" + messages)
			e.do(`WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM k WHERE i < 19999)
INSERT INTO message SELECT printf('m%05d', i), printf('session-%03d-%s', i % 200, hex(zeroblob(20))), i, printf('%.*c', i % 5000, 'x'), i - 1 FROM k;`)
			e.do("ALTER TABLE message ADD COLUMN late TEXT;")
			r := sqlite.NewReader(path)
			err := r.View(func(db *sqlite.DB) error {
				table, err := db.Table("message")
				if err != nil {
					return err
				}
				checkAll(t, table)
				checkSession(t, table)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func checkAll(t *testing.T, table *sqlite.Table) {
	i := 19999
	err := table.Newest(func(row sqlite.Row) bool {
		if row.Text("id") != fmt.Sprintf("m%05d", i) || row.Int("n") != int64(i-1) || len(row.Text("data")) != max(i%5000, 1) || row["late"] != nil {
			t.Errorf("row %d is %s, %d, %d bytes", i, row.Text("id"), row.Int("n"), len(row.Text("data")))
			return false
		}
		i--
		return true
	})
	if err != nil || i != -1 {
		t.Errorf("stopped before row %d: %v", i, err)
	}
}

func checkSession(t *testing.T, table *sqlite.Table) {
	i := 19977
	err := table.Where("session_id", "session-177-"+strings.Repeat("00", 20), func(row sqlite.Row) bool {
		if row.Int("time_created") != int64(i) {
			t.Errorf("row of the session is %d, want %d", row.Int("time_created"), i)
			return false
		}
		i -= 200
		return true
	})
	if err != nil || i != -23 {
		t.Errorf("stopped before %d: %v", i, err)
	}
	if missing := table.Missing("id", "data", "late", "nothing"); !slices.Equal(missing, []string{"nothing"}) {
		t.Errorf("missing %v", missing)
	}
}

// TestWhileWritten looks again and again while another process writes, with checkpoints: each look must be of one moment.
func TestWhileWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	e := open(t, path)
	e.do("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=8; PRAGMA synchronous=OFF; CREATE TABLE pair (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO pair VALUES (1, 'a'), (2, 'a');")
	e.do("WITH RECURSIVE k(i) AS (SELECT 3 UNION ALL SELECT i+1 FROM k WHERE i < 2000) INSERT INTO pair SELECT i, 'pad' FROM k;")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			fmt.Fprintf(e.in, "UPDATE pair SET v = '%d' WHERE id IN (1, 2, 1999, 2000);\n", i)
		}
		e.do("")
	}()
	r := sqlite.NewReader(path)
	for n, over := 0, false; !over; n++ {
		select {
		case <-done:
			over = true
		default:
		}
		seen := map[string]bool{}
		err := r.View(func(db *sqlite.DB) error {
			clear(seen)
			table, err := db.Table("pair")
			if err != nil {
				return err
			}
			return table.Newest(func(row sqlite.Row) bool {
				if row.Text("v") != "pad" {
					seen[row.Text("v")] = true
				}
				return true
			})
		})
		if err != nil && !errors.Is(err, sqlite.ErrBusy) {
			t.Fatal(err)
		}
		if err == nil && n > 3 && len(seen) != 1 && !seen["a"] {
			t.Fatalf("look %d saw %v at once", n, seen)
		}
	}
}

func TestNotADatabase(t *testing.T) {
	dir := t.TempDir()
	gone := sqlite.NewReader(filepath.Join(dir, "gone.db")).View(func(*sqlite.DB) error { return nil })
	if !errors.Is(gone, fs.ErrNotExist) {
		t.Errorf("a database that is not there: %v", gone)
	}
	junk := filepath.Join(dir, "junk.db")
	if err := os.WriteFile(junk, []byte(strings.Repeat("junk", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.NewReader(junk).View(func(*sqlite.DB) error { return nil }); !errors.Is(err, sqlite.ErrFormat) {
		t.Errorf("junk: %v", err)
	}
}

// FuzzBrokenFiles has bytes of a database and its log changed: whatever comes of it, it is an error or rows, and it ends.
func FuzzBrokenFiles(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "a.db")
	sql := "PRAGMA page_size=512; PRAGMA journal_mode=DELETE;" + messages +
		"WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM k WHERE i < 200) INSERT INTO message SELECT 'm'||i, 's'||(i%5), i, hex(zeroblob(i*3)), i FROM k;"
	if out, err := exec.Command("sqlite3", path, sql).CombinedOutput(); err != nil {
		f.Fatalf("%v: %s", err, out)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte{1})
	f.Add(uint32(512), []byte{0xff, 0xff, 0xff})
	f.Add(uint32(108), []byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, at uint32, with []byte) {
		bad := slices.Clone(good)
		copy(bad[int(at)%len(bad):], with)
		broken := filepath.Join(t.TempDir(), "b.db")
		if err := os.WriteFile(broken, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		rows := 0
		_ = sqlite.NewReader(broken).View(func(db *sqlite.DB) error {
			table, err := db.Table("message")
			if err != nil {
				return err
			}
			return errors.Join(
				table.Newest(func(sqlite.Row) bool { rows++; return rows < 10000 }),
				table.Where("session_id", "s1", func(sqlite.Row) bool { rows++; return rows < 20000 }))
		})
	})
}
