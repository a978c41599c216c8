package vt

import (
	"fmt"
	"strings"
	"testing"
)

// numbered is a terminal of 20 columns and 5 rows with n lines "line i" on it, the cursor after the last.
func numbered(n int) *Terminal {
	t := New(Options{Cols: 20, Rows: 5, Scrollback: 1000})
	for i := range n {
		if i > 0 {
			t.Write([]byte("\r\n"))
		}
		fmt.Fprintf(t, "line %d", i)
	}
	return t
}

func TestRenderStartsAtTheHeadOfAWrappedLine(t *testing.T) {
	term := New(Options{Cols: 10, Rows: 3, Scrollback: 100})
	term.Write([]byte("before\r\n" + strings.Repeat("0123456789", 4) + "\r\nb\r\nc\r\nd"))
	fresh := New(Options{Cols: 10, Rows: 3, Scrollback: 100})
	fresh.Write(term.Render(2)) // two rows up is within the long line
	if got, want := strings.Join(historyLines(fresh), "|"), "0123456789|0123456789|0123456789|0123456789"; got != want {
		t.Errorf("history %q, want %q", got, want)
	}
	fresh.Resize(40, 3)
	if got := historyLines(fresh)[0]; got != strings.Repeat("0123456789", 4) {
		t.Errorf("unwraps to %q", got)
	}
}

func TestNarrowingWrapsTheCursorLine(t *testing.T) {
	term := New(Options{Cols: 40, Rows: 5, Scrollback: 100})
	url := "https://example.com/a/long/path"
	term.Write([]byte("$ open " + url))
	term.Resize(15, 5)
	term.Resize(60, 5)
	if got := lines(term)[0]; got != "$ open "+url {
		t.Errorf("the line is %q", got)
	}
	term.Write([]byte("!"))
	if got := lines(term)[0]; got != "$ open "+url+"!" {
		t.Errorf("typing goes on at %q", got)
	}
}

func TestNarrowingKeepsWhatIsRightOfTheCursor(t *testing.T) {
	for _, above := range []int{0, 1, 4} {
		term := New(Options{Cols: 40, Rows: 5, Scrollback: 100})
		term.Write([]byte(strings.Repeat("output\r\n", above) + "$ a long command line in the works\x1b[1;3H"))
		fmt.Fprintf(term, "\x1b[%d;9H", above+1) // in the middle of it
		term.Resize(10, 5)
		term.Resize(40, 5)
		if got, want := lines(term)[above], "$ a long command line in the works"; got != want {
			t.Errorf("below %d lines it is %q, want %q", above, got, want)
		}
		if s := term.Snapshot(); s.CursorX != 8 || s.CursorY != above {
			t.Errorf("below %d lines the cursor is at %d,%d", above, s.CursorX, s.CursorY)
		}
	}
}

func TestHistoryPagesStayWhileLinesAreDropped(t *testing.T) {
	term := New(Options{Cols: 20, Rows: 5, Scrollback: 50})
	say := func(from, to int) {
		for i := from; i < to; i++ {
			fmt.Fprintf(term, "line %d\r\n", i)
		}
	}
	say(0, 60)
	_, _, top, _ := term.History(nil, 10)
	say(60, 80)
	chunk, n, next, _ := term.History(&top, 5)
	if want := fmt.Sprintf("line %d\r\nline %d", top-5, top-4); n != 5 || next != top-5 || !strings.HasPrefix(string(chunk), want) {
		t.Errorf("page of %d lines above %d is %q at %d", n, top, chunk, next)
	}
	say(80, 200)
	if chunk, n, _, exhausted := term.History(&top, 5); n != 0 || len(chunk) != 0 || !exhausted {
		t.Errorf("a page that was dropped gives %d lines %q, exhausted %v", n, chunk, exhausted)
	}
}

func TestOnlyAChangeOfWidthStartsANewEpoch(t *testing.T) {
	term := numbered(30)
	for _, s := range []struct {
		cols, rows int
		epoch      int64
	}{{20, 5, 0}, {20, 9, 0}, {20, 3, 0}, {21, 3, 1}, {21, 4, 1}, {20, 4, 2}} {
		term.Resize(s.cols, s.rows)
		if got := term.Epoch(); got != s.epoch {
			t.Errorf("after %dx%d epoch %d, want %d", s.cols, s.rows, got, s.epoch)
		}
	}
}

func TestAFullResetNumbersTheLinesAnew(t *testing.T) {
	term := numbered(30)
	before := term.Epoch()
	term.Write([]byte("\x1bc"))
	if s := term.Snapshot(); s.Epoch == before || s.Top != 0 || s.HistoryLines != 0 {
		t.Errorf("epoch %d, top %d, %d lines", s.Epoch, s.Top, s.HistoryLines)
	}
	for i := range 10 {
		fmt.Fprintf(term, "new %d\r\n", i)
	}
	chunk, _, top, exhausted := term.History(nil, 100)
	if top != 0 || !exhausted || !strings.HasPrefix(string(chunk), "new 0\r\nnew 1\r\n") {
		t.Errorf("history %q from %d, exhausted %v", chunk, top, exhausted)
	}
}

func TestErasedHistoryKeepsTheNumbers(t *testing.T) {
	term := numbered(30)
	top := term.Snapshot().Top
	term.Write([]byte("\x1b[3J"))
	if s := term.Snapshot(); s.Top != top || s.FirstLine != top || s.Epoch != 0 {
		t.Errorf("top %d, first %d, epoch %d", s.Top, s.FirstLine, s.Epoch)
	}
}

func TestHistoryStartsAtTheScreen(t *testing.T) {
	term := numbered(30)
	chunk, n, top, exhausted := term.History(nil, 3)
	if got, want := string(chunk), "line 22\r\nline 23\r\nline 24"; got != want || n != 3 || top != 22 || exhausted {
		t.Errorf("%d lines %q from %d, exhausted %v, want %q", n, got, top, exhausted, want)
	}
	if got := lines(term)[0]; got != "line 25" {
		t.Errorf("the screen starts with %q", got)
	}
	all, n, top, exhausted := term.History(&top, 100)
	if n != 22 || top != 0 || !exhausted || strings.Count(string(all), "\r\n") != 21 {
		t.Errorf("the rest is %d lines from %d, exhausted %v", n, top, exhausted)
	}
}

func TestABlankPageIsNotTheEnd(t *testing.T) {
	term := New(Options{Cols: 20, Rows: 5, Scrollback: 1000})
	term.Write([]byte("first\r\n" + strings.Repeat("\r\n", 20) + "last"))
	chunk, n, top, exhausted := term.History(nil, 10)
	if exhausted || n != 10 || string(chunk) != strings.Repeat("\r\n", 9) {
		t.Errorf("blank page of %d lines: %q, exhausted %v", n, chunk, exhausted)
	}
	if _, _, _, exhausted = term.History(&top, 10); !exhausted {
		t.Error("the page with the first line does not end the history")
	}
}

func TestHistoryHasColours(t *testing.T) {
	term := New(Options{Cols: 20, Rows: 2, Scrollback: 10})
	term.Write([]byte("\x1b[31mred\x1b[m\r\n\r\n\r\n"))
	if chunk, _, _, _ := term.History(nil, 10); !strings.HasPrefix(string(chunk), "\x1b[0;31mred") || !strings.HasSuffix(string(chunk), "\x1b[m") {
		t.Errorf("history %q", chunk)
	}
}

func TestTextExtents(t *testing.T) {
	term := numbered(30)
	term.Write([]byte("\r\n\r\n"))
	for _, tt := range []struct {
		e    Extent
		want string
	}{
		{Extent{}, "line 27\nline 28\nline 29\n\n"},
		{Extent{Trim: true}, "line 27\nline 28\nline 29"},
		{Extent{Kind: ExtentTail, Lines: 3}, "line 29\n\n"},
		{Extent{Kind: ExtentTail, Lines: 3, Trim: true}, "line 27\nline 28\nline 29"},
		{Extent{Kind: ExtentTail, Lines: 7, Trim: true}, "line 23\nline 24\nline 25\nline 26\nline 27\nline 28\nline 29"},
		{Extent{Kind: ExtentTail}, ""},
		{Extent{Kind: ExtentTail, Lines: -1}, ""},
		{Extent{Kind: ExtentRange, Start: 3, End: 5}, "line 3\nline 4"},
		{Extent{Kind: ExtentRange, Start: -9, End: 1}, "line 0"},
		{Extent{Kind: ExtentRange, Start: 40, End: 50}, ""},
	} {
		if got := term.Text(tt.e); got != tt.want {
			t.Errorf("%+v gives %q, want %q", tt.e, got, tt.want)
		}
	}
	full := term.Text(Extent{Kind: ExtentFull})
	if n := strings.Count(full, "\n") + 1; n != 32 || !strings.HasPrefix(full, "line 0\nline 1\n") {
		t.Errorf("full has %d lines", n)
	}
	term.Write([]byte("\x1b[?1049h\x1b[Hvim"))
	if got := term.Text(Extent{Kind: ExtentFull, Trim: true}); got != "vim" {
		t.Errorf("the alternate screen's buffer is %q", got)
	}
}

func TestWrappedRowsStayRowsInText(t *testing.T) {
	term := New(Options{Cols: 5, Rows: 3, Scrollback: 10})
	term.Write([]byte("abcdefgh"))
	if got := term.Text(Extent{Trim: true}); got != "abcde\nfgh" {
		t.Errorf("text %q", got)
	}
}

func TestWideCharactersKeepTheColumns(t *testing.T) {
	term := small()
	term.Write([]byte("日本\x1b[1;5HX"))
	if got := lines(term)[0]; got != "日本X" {
		t.Errorf("got %q", got)
	}
}

func TestClustersKeepTheirWidthInTheHistory(t *testing.T) {
	term := New(Options{Cols: 30, Rows: 5, Scrollback: 1000})
	for range 200 {
		term.Write([]byte("    \u26a0\ufe0f hello\r\n"))
	}
	for i := range 190 {
		r := term.hist.row(&term.interner, i, 30)
		if r.cells[4]&wideBit == 0 || r.cells[7] != 'h' {
			t.Fatalf("history line %d holds %x", i, r.cells[4:8])
		}
	}
	if got := lines(term)[0]; got != "    \u26a0\ufe0f hello" {
		t.Errorf("screen %q", got)
	}
}

func TestAFamilyIsOneWideCell(t *testing.T) {
	term := small()
	term.Write([]byte("👨\u200d👩\u200d👧\x1b[1;3HX"))
	if got := lines(term)[0]; got != "👨\u200d👩\u200d👧X" {
		t.Errorf("got %q", got)
	}
}

func TestLineDrawingIsUnicodeInText(t *testing.T) {
	term := small()
	term.Write([]byte("\x1b(0lqqk\x1b(B"))
	if got := lines(term)[0]; got != "┌──┐" {
		t.Errorf("got %q", got)
	}
}

func TestRowGenerations(t *testing.T) {
	term := numbered(3)
	before := term.Generation()
	term.Write([]byte("\x1b[2;1Hchanged"))
	for y, changed := range []bool{false, true, false, false, false} {
		if got := term.RowGeneration(y) > before; got != changed {
			t.Errorf("row %d changed: %v, want %v", y, got, changed)
		}
	}
	if term.RowGeneration(-1) != 0 || term.RowGeneration(5) != 0 {
		t.Error("rows outside the screen have a generation")
	}
}

func TestBackspaceGoesBackOverASoftWrapIfAsked(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"not asked", "abcdefg\b\b\b\b\bX", "abcde|Xg"},
		{"asked", "\x1b[?45habcdefg\b\b\b\bX", "abcXe|fg"},
		{"from a pending wrap", "\x1b[?45habcde\bX", "abcdX|"},
		{"not over a hard end", "\x1b[?45habc\r\nf\b\b\bX", "abc|X"},
		{"over a column left empty", "\x1b[?45habcd中\b\b\bX", "abcX|中"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term := New(Options{Cols: 5, Rows: 2})
			term.Write([]byte(tt.in))
			if got := strings.Join(lines(term), "|"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestColumnsAndShifts(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"DECIC", "abcde\r\nfghij\x1b[1;3H\x1b[2'}", "ab  c|fg  h"},
		{"DECDC", "abcde\r\nfghij\x1b[1;3H\x1b[2'~", "abe|fgj"},
		{"SL", "abcde\r\nfghij\x1b[1;3H\x1b[2 @", "cde|hij"},
		{"SR", "abcde\r\nfghij\x1b[1;3H\x1b[2 A", "  abc|  fgh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term := New(Options{Cols: 5, Rows: 2})
			term.Write([]byte(tt.in))
			if got := strings.Join(lines(term), "|"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			check(t, term)
		})
	}
}
