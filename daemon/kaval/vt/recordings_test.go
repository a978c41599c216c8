package vt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type recording struct {
	name  string
	raw   []byte
	Cols  int
	Rows  int
	Bytes int
	Marks []struct {
		Offset int
		Label  string
		Resize []int
	}
	End struct {
		AlternateScreen bool `json:"alternate_screen"`
		Cursor          [2]int
	}
	screen string
}

func loadRecordings(tb testing.TB) []recording {
	tb.Helper()
	files, err := filepath.Glob("testdata/recordings/*.json")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no recordings: %v", err)
	}
	var all []recording
	for _, f := range files {
		base := strings.TrimSuffix(f, ".json")
		r := recording{name: filepath.Base(base), raw: readFile(tb, base+".raw"), screen: string(readFile(tb, base+".screen.txt"))}
		if err := json.Unmarshal(readFile(tb, f), &r); err != nil {
			tb.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func readFile(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// play feeds a recording with its resizes, each piece through write.
func (r recording) play(write func(t *Terminal, p []byte)) *Terminal {
	t := New(Options{Cols: r.Cols, Rows: r.Rows, Scrollback: 10_000, Name: "kolu(test)"})
	at := 0
	for _, m := range r.Marks {
		if m.Resize != nil {
			write(t, r.raw[at:m.Offset])
			at = m.Offset
			t.Resize(m.Resize[0], m.Resize[1])
		}
	}
	write(t, r.raw[at:])
	return t
}

func (t *Terminal) writeAll(p []byte) { t.Write(p) }

// trimLines drops what the reference keeps and we do not: blanks that were written at the end of a row.
func trimLines(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, strings.TrimRight(line, "\n "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

func TestRecordings(t *testing.T) {
	for _, r := range loadRecordings(t) {
		t.Run(r.name, func(t *testing.T) {
			if len(r.raw) != r.Bytes {
				t.Fatalf("recording has %d bytes, want %d", len(r.raw), r.Bytes)
			}
			term := r.play((*Terminal).writeAll)
			got, want := trimLines(term.Text(Extent{})), trimLines(r.screen)
			if got != want {
				t.Errorf("screen:\n%s\nwant:\n%s", got, want)
			}
			s := term.Snapshot()
			if s.PendingWrap { // the reference counts the cursor beyond the last column then
				s.CursorX++
			}
			if s.Alt != r.End.AlternateScreen || s.CursorX != r.End.Cursor[0] || s.CursorY != r.End.Cursor[1] {
				t.Errorf("alt %v cursor %d,%d, want %v %v", s.Alt, s.CursorX, s.CursorY, r.End.AlternateScreen, r.End.Cursor)
			}
		})
	}
}
