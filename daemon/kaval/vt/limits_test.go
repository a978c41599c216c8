package vt

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// within fails a test that takes far longer than it may; the bound is against hangs, not a measure of speed.
func within(t *testing.T, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

const attackSize = 8 << 20

func TestStringsWithoutEndCostNothing(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for _, start := range []string{"\x1b]2;", "\x1b]52;c;", "\x1bP$q", "\x1bPq", "\x1b_G", "\x1b^", "\x1bX"} {
		t.Run(fmt.Sprintf("%q", start), func(t *testing.T) {
			term := small()
			size, _ := heap(func() any {
				within(t, func() {
					term.Write([]byte(start))
					for range attackSize / len(chunk) {
						term.Write(chunk)
					}
				})
				return term
			})
			if size > 4<<20 {
				t.Errorf("holds %d bytes", size)
			}
			term.Write([]byte("\x1b\\ok"))
			if got := lines(term)[0]; got != "ok" {
				t.Errorf("after it the screen shows %q", got)
			}
			if e := term.Events(); len(e) != 0 {
				t.Errorf("events %v", e)
			}
		})
	}
}

func TestHugeCountsAreClamped(t *testing.T) {
	for _, count := range []string{"2147483647", "4294967295", "99999999999999999999"} {
		for _, final := range "@ABCDEFGHIJKLMPSTXZ`abdefgmnrstu^" {
			term := New(Options{Cols: 400, Rows: 200, Scrollback: 100})
			within(t, func() { fmt.Fprintf(term, "ab\x1b[%s;%s%c", count, count, final) })
			check(t, term)
		}
	}
	for _, seq := range []string{"\x1b[2147483647'}", "\x1b[2147483647'~", "\x1b[>2147483647u", "\x1b[<2147483647u", "\x1b[?2147483647h"} {
		term := small()
		within(t, func() { term.Write([]byte(seq)) })
		check(t, term)
	}
}

func TestAMillionParameters(t *testing.T) {
	term := small()
	within(t, func() { term.Write([]byte("\x1b[" + strings.Repeat("1;", 1_000_000) + "31mx\x1b[0mok")) })
	if got := lines(term)[0]; got != "xok" {
		t.Errorf("screen shows %q", got)
	}
}

func TestCombiningMarksOnOneCellAreBounded(t *testing.T) {
	term := small()
	term.Write([]byte("a"))
	within(t, func() { term.Write(bytes.Repeat([]byte("\u0301"), attackSize/8)) })
	term.Write([]byte("b"))
	got := lines(term)[0]
	if len(got) > maxCluster+1 || !strings.HasPrefix(got, "a\u0301") || !strings.HasSuffix(got, "b") {
		t.Errorf("cell of %d bytes", len(got))
	}
}

func TestSizesAreClamped(t *testing.T) {
	term := small()
	term.Write([]byte("text"))
	for _, s := range [][4]int{{0, 0, 1, 1}, {-5, -5, 1, 1}, {10_000, 10_000, MaxCols, MaxRows}, {80, 24, 80, 24}} {
		term.Resize(s[0], s[1])
		if got := term.Snapshot(); got.Cols != s[2] || got.Rows != s[3] {
			t.Errorf("resize to %dx%d gave %dx%d", s[0], s[1], got.Cols, got.Rows)
		}
		check(t, term)
	}
	if got := lines(term)[0]; got != "text" {
		t.Errorf("screen shows %q", got)
	}
}

func TestEveryStyleLinkAndClusterInUseIsKeptAndNoOther(t *testing.T) {
	term := New(Options{Cols: 80, Rows: 24, Scrollback: 10})
	row := func(base int) {
		for x := range 80 {
			n := base*80 + x
			fmt.Fprintf(term, "\x1b[38;2;%d;%d;%dm\x1b]8;;http://e.com/%d\x1b\\%c\u0301", n>>16, n>>8&255, n&255, n, 'a'+n%26)
		}
	}
	const rows = 400
	for y := range rows {
		row(y)
	}
	if n := len(term.styles); n > 3*minInterned {
		t.Errorf("%d styles for 1920 cells", n)
	}
	if n := len(term.clusters); n > 3*minInterned {
		t.Errorf("%d clusters for 1920 cells", n)
	}
	if term.linkBytes > maxLinkBytes {
		t.Errorf("%d bytes of links", term.linkBytes)
	}
	for y := range 24 {
		for _, x := range []int{0, 41, 79} {
			n := (rows-24+y)*80 + x
			c := term.cur.rows[y].cells[x]
			s := term.styles[c.style()]
			got := fmt.Sprintf("%s %06x %s", term.appendText(nil, c), uint32(s.fg)&0xffffff, term.links[s.link].uri)
			want := fmt.Sprintf("%c\u0301 %06x http://e.com/%d", 'a'+n%26, n, n)
			if got != want {
				t.Errorf("cell %d,%d is %q, want %q", x, y, got, want)
			}
		}
	}
}

func TestLinksInARenderingAreBounded(t *testing.T) {
	term := New(Options{Cols: 120, Rows: 40, Scrollback: 100})
	uri := "http://e.com/" + strings.Repeat("x", 3500)
	for y := range 80 {
		for x := range 120 {
			fmt.Fprintf(term, "\x1b]8;;%s%d\x1b\\%c", uri, x%2, 'a'+(x+y)%26)
		}
	}
	drawn := term.Render(100)
	if len(drawn) > 2*maxLinksOut {
		t.Errorf("a rendering of %d bytes", len(drawn))
	}
	fresh := New(Options{Cols: 120, Rows: 40, Scrollback: 100})
	fresh.Write(drawn)
	if got, want := fresh.Text(Extent{}), term.Text(Extent{}); got != want {
		t.Errorf("shows %.80q, want %.80q", got, want)
	}
	if len(linkRuns(fresh)) != 0 || len(linkRuns(term)) != 120*40 {
		t.Error("the links at the end were kept, or none were there")
	}
}

func TestRepliesAreBounded(t *testing.T) {
	term := small()
	term.Write(bytes.Repeat([]byte("\x1b[c\x1b[6n\x1b[>q"), 100_000))
	if n := len(term.Drain()); n == 0 || n > maxReplies {
		t.Errorf("%d bytes of replies", n)
	}
	term.Write([]byte("\x1b[5n"))
	if got := string(term.Drain()); got != "\x1b[0n" {
		t.Errorf("after that %q", got)
	}
}

func TestEventsAreBounded(t *testing.T) {
	term := small()
	big := strings.Repeat("QUJD", 100_000) // decodes to 300 kB
	for i := range 2000 {
		if i%50 == 0 {
			fmt.Fprintf(term, "\x1b]52;c;%s\x07", big)
		}
		fmt.Fprintf(term, "\x1b]9;note %d\x07", i)
	}
	events := term.Events()
	bytes := 0
	for _, e := range events {
		bytes += e.size()
	}
	if len(events) > maxEvents || bytes > maxEventBytes {
		t.Errorf("%d events of %d bytes", len(events), bytes)
	}
	if last := events[len(events)-1]; last.Text != "note 1999" {
		t.Errorf("the last event is %q", last.Text)
	}
	if e := term.Events(); e != nil {
		t.Errorf("%d events twice", len(e))
	}
}

func TestStacksAreBounded(t *testing.T) {
	term := small()
	term.Write(bytes.Repeat([]byte("\x1b[>5u\x1b[22;0t"), 10_000))
	if a, b := len(term.cur.kitty.saved), len(term.titles); a > maxKitty || b > maxTitles {
		t.Errorf("stacks of %d and %d", a, b)
	}
	term.Write(bytes.Repeat([]byte("\x1b[<9999u\x1b[23;0t"), 100))
	if s := term.Snapshot(); s.Modes.KittyFlags != 0 {
		t.Errorf("flags %d left", s.Modes.KittyFlags)
	}
}

// A program that redraws for ever, as spinners do, fills neither the line cap nor the byte cap beyond its bound.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	const limit = 1 << 20
	term := New(Options{Cols: 200, Rows: 50, Scrollback: 1_000_000, ScrollbackBytes: limit})
	size, _ := heap(func() any {
		for i := range 60_000 {
			fmt.Fprintf(term, "\x1b[38;2;%d;%d;3mframe %d of the spinner \x1b[48;5;%dm with some colour\x1b[0m\r\n", i%256, i/256%256, i, i%256)
		}
		return term
	})
	if size > 3*limit {
		t.Errorf("holds %d bytes", size)
	}
	s := term.Snapshot()
	if s.HistoryLines < 1000 || s.FirstLine+int64(s.HistoryLines) != s.Top || s.Top != 60_000-49 {
		t.Errorf("%d lines, %d to %d", s.HistoryLines, s.FirstLine, s.Top)
	}
}

func TestHistoryIsBoundedInLines(t *testing.T) {
	term := New(Options{Cols: 80, Rows: 10, Scrollback: 10_000})
	for i := range 50_000 {
		fmt.Fprintf(term, "line %d\r\n", i)
	}
	s := term.Snapshot()
	if s.HistoryLines != 10_000 || s.Top != 50_000-9 {
		t.Errorf("%d lines, top %d", s.HistoryLines, s.Top)
	}
	if got, want := historyLines(term)[0], fmt.Sprintf("line %d", s.FirstLine); got != want {
		t.Errorf("oldest is %q, want %q", got, want)
	}
}

// A client with a tiny window may come and go without a loss.
func TestAWindowOfTwoByOneLosesNoHistory(t *testing.T) {
	term := New(Options{Cols: 80, Rows: 24, Scrollback: 10_000})
	for i := range 10_023 {
		fmt.Fprintf(term, "\x1b[3%dmline %d\x1b[m 中文\r\n", i%8, i)
	}
	before := term.Text(Extent{Kind: ExtentFull})
	within(t, func() {
		term.Resize(2, 1)
		term.Resize(80, 24)
	})
	if after := term.Text(Extent{Kind: ExtentFull}); after != before {
		t.Errorf("%d lines became %d, from %.20q to %.20q", strings.Count(before, "\n"), strings.Count(after, "\n"), before, after)
	}
	check(t, term)
	for range 100 {
		term.Write([]byte("more\r\n"))
	}
	if n := term.Snapshot().HistoryLines; n != 10_000 {
		t.Errorf("%d lines", n)
	}
}

// The limits are 12 MB for 10,000 lines of 120 cells and 200 bytes for a line of 68, held to on a fifth of that.
func TestMemory(t *testing.T) {
	const lines, screen = 2000, 100 << 10
	const wide = screen + 12<<20/10_000*lines
	for _, tt := range []struct {
		name string
		make func() any
		most int64
	}{
		{"an idle terminal", func() any { return New(Options{Cols: 120, Rows: 40, Scrollback: 10_000}) }, screen},
		{"120 plain cells", func() any { return filledLines(plainCell, 120, lines) }, wide},
		{"120 coloured cells", func() any { return filledLines(colourCell, 120, lines) }, wide},
		{"120 cells of two colours each", func() any { return filledLines(denseCell, 120, lines) }, wide + 1<<20},
		{"68 bytes", func() any { return filledLines(plainCell, 68, lines) }, screen + 200*lines},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, keep := heap(tt.make)
			if got > tt.most {
				t.Errorf("takes %d bytes, want at most %d", got, tt.most)
			}
			runtime.KeepAlive(keep)
		})
	}
}
