package vt

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type caseFile struct {
	Name             string
	Cols, Rows       int
	Scrollback       int
	Steps            []caseStep
	Check            []string
	Cells            [][2]int
	Expect           caseState
	ExpectWrong      string `json:"expect_wrong"`
	Accept           []caseState
	AcceptCells      [][]caseCell `json:"accept_cells"`
	AcceptReplies    []string     `json:"accept_replies"`
	AcceptScrollback [][]string   `json:"accept_scrollback"`
	ReplyRegex       string       `json:"reply_regex"`
}

type caseStep struct {
	Write  *string
	Resize []int
	Times  int
}

type caseState struct {
	Lines  []string
	Cursor struct {
		X, Y    int
		Visible bool
	}
	Wrapped    []bool
	Alt        bool
	Title      string
	Replies    string
	Scrollback []string
	Cells      []caseCell
	Modes      map[string]any
	Links      []caseLink
}

type caseCell struct {
	X, Y            int
	Text            string
	Width           int
	FG, BG          string
	Flags           []string
	Underline       int
	UnderlineColour string `json:"underline_colour"`
}

type caseLink struct {
	Y, X0, X1 int
	URI       string
}

func loadCases(tb testing.TB) []caseFile {
	tb.Helper()
	f, err := os.Open("testdata/cases.json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	var cases []caseFile
	if err := json.NewDecoder(z).Decode(&cases); err != nil {
		tb.Fatal(err)
	}
	return cases
}

func (s caseStep) data(tb testing.TB) []byte {
	tb.Helper()
	b, err := base64.StdEncoding.DecodeString(*s.Write)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// play feeds a case; cut bytes at a time where cut is positive.
func (c caseFile) play(tb testing.TB, cut int) *Terminal {
	tb.Helper()
	t := New(Options{Cols: c.Cols, Rows: c.Rows, Scrollback: c.Scrollback, Name: "kolu(test)"})
	for _, s := range c.Steps {
		if s.Write == nil {
			t.Resize(s.Resize[0], s.Resize[1])
			continue
		}
		b := s.data(tb)
		for range max(s.Times, 1) {
			if cut <= 0 {
				t.Write(b)
				continue
			}
			for part := range slices.Chunk(b, cut) {
				t.Write(part)
			}
		}
	}
	return t
}

func TestCases(t *testing.T) {
	cases := loadCases(t)
	if len(cases) != 200 {
		t.Fatalf("got %d cases, want 200", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			term := c.play(t, 0)
			for _, what := range c.Check {
				if diff := c.compare(t, term, what); diff != "" {
					t.Errorf("%s: %s", what, diff)
				}
			}
		})
	}
}

func lines(term *Terminal) []string {
	return strings.Split(term.Text(Extent{}), "\n")
}

func historyLines(term *Terminal) []string {
	s := term.Snapshot()
	if s.HistoryLines == 0 {
		return []string{}
	}
	var out []string
	for i := range s.HistoryLines {
		out = append(out, strings.TrimRight(string(term.hist.text(nil, i)), " "))
	}
	return out
}

func (c caseFile) compare(t *testing.T, term *Terminal, what string) string {
	snap := term.Snapshot()
	accept := []caseState{}
	if c.ExpectWrong == "" {
		accept = append(accept, c.Expect)
	}
	accept = append(accept, c.Accept...)
	switch what {
	case "screen":
		return oneOf(lines(term), each(accept, func(s caseState) []string { return s.Lines }))
	case "cursor":
		return oneOf([]any{snap.CursorX, snap.CursorY, snap.CursorVisible}, each(accept, func(s caseState) []any {
			return []any{s.Cursor.X, s.Cursor.Y, s.Cursor.Visible}
		}))
	case "wrapped":
		var got []bool
		for _, r := range term.cur.rows {
			got = append(got, r.cont)
		}
		return oneOf(got, [][]bool{c.Expect.Wrapped})
	case "altmode":
		return oneOf(snap.Alt, []bool{c.Expect.Alt})
	case "title":
		return oneOf(snap.Title, []string{c.Expect.Title})
	case "replies":
		return oneOf(string(term.Drain()), append([]string{c.Expect.Replies}, c.AcceptReplies...))
	case "replies_rx":
		if got := term.Drain(); !regexp.MustCompile(c.ReplyRegex).Match(got) {
			return fmt.Sprintf("got %q, want %s", got, c.ReplyRegex)
		}
		return ""
	case "scrollback":
		return oneOf(historyLines(term), append([][]string{c.Expect.Scrollback}, c.AcceptScrollback...))
	case "cells":
		var got []caseCell
		for _, at := range c.Cells {
			got = append(got, describe(term, at[0], at[1]))
		}
		want := append([][]caseCell{c.Expect.Cells}, c.AcceptCells...)
		return oneOf(got, want)
	case "modes":
		return oneOf(modeMap(snap.Modes), []map[string]any{c.Expect.Modes})
	case "links":
		return oneOf(linkRuns(term), [][]caseLink{c.Expect.Links})
	}
	t.Fatalf("unknown check %q", what)
	return ""
}

func each[A, B any](in []A, f func(A) B) []B {
	var out []B
	for _, a := range in {
		out = append(out, f(a))
	}
	return out
}

func oneOf[T any](got T, want []T) string {
	for _, w := range want {
		if reflect.DeepEqual(got, w) {
			return ""
		}
	}
	return fmt.Sprintf("got %+v, want one of %+v", got, want)
}

func describe(term *Terminal, x, y int) caseCell {
	c := term.cur.rows[y].cells[x]
	s := term.styles[c.style()]
	d := caseCell{X: x, Y: y, Text: string(term.appendText(nil, c)), Width: 1, FG: colourName(s.fg), BG: colourName(s.bg), Flags: []string{}}
	if c&wideBit != 0 {
		d.Width = 2
	}
	if s.ul != 0 {
		d.UnderlineColour = colourName(s.ul)
	}
	d.Underline = int(s.attrs & attrUnderline >> underlineShift)
	for _, f := range []struct {
		bit  attrs
		name string
	}{
		{attrBold, "bold"}, {attrDim, "dim"}, {attrItalic, "italic"}, {attrBlink, "blink"}, {attrInverse, "inverse"},
		{attrInvisible, "invisible"}, {attrStrike, "strike"}, {attrOverline, "overline"},
	} {
		if s.attrs&f.bit != 0 {
			d.Flags = append(d.Flags, f.name)
		}
	}
	return d
}

func colourName(c colour) string {
	switch {
	case c == 0:
		return "default"
	case c&rgbColour != 0:
		return fmt.Sprintf("#%06x", uint32(c&0xffffff))
	}
	return fmt.Sprintf("p%d", c&0xff)
}

func modeMap(m Modes) map[string]any {
	return map[string]any{
		"application_cursor": m.ApplicationCursor, "application_keypad": m.ApplicationKeypad, "bracketed_paste": m.BracketedPaste,
		"insert": m.Insert, "origin": m.Origin, "mouse": string(m.Mouse), "focus": m.FocusReports, "wraparound": m.Autowrap,
		"synchronized_output": m.Synchronized,
	}
}

func linkRuns(term *Terminal) []caseLink {
	var out []caseLink
	for y, r := range term.cur.rows {
		for x, c := range r.cells {
			uri := term.links[term.styles[c.style()].link].uri
			if uri == "" {
				continue
			}
			if n := len(out); n > 0 && out[n-1].Y == y && out[n-1].X1 == x-1 && out[n-1].URI == uri {
				out[n-1].X1 = x
			} else {
				out = append(out, caseLink{y, x, x, uri})
			}
		}
	}
	return out
}
