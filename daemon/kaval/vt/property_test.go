package vt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// resizeMark stands in test input for a resize: the two bytes after it give the size. It occurs in no valid output.
const resizeMark = 0xf8

// feed plays input with resizes, its output cut into pieces of at most cut bytes where cut is positive.
func feed(t *Terminal, input []byte, cut int) {
	write := func(p []byte) {
		if cut <= 0 {
			t.Write(p)
			return
		}
		for part := range slices.Chunk(p, cut) {
			t.Write(part)
		}
	}
	for {
		i := bytes.IndexByte(input, resizeMark)
		if i < 0 || i+2 >= len(input) {
			write(input)
			return
		}
		write(input[:i])
		t.Resize(int(input[i+1])%100+1, int(input[i+2])%40+1)
		input = input[i+3:]
	}
}

// inputs are what the properties are held against: cases, recordings and random output.
func inputs(tb testing.TB) map[string][]byte {
	tb.Helper()
	all := map[string][]byte{}
	for _, c := range loadCases(tb) {
		var b []byte
		for _, s := range c.Steps {
			if s.Write == nil {
				b = append(b, resizeMark, byte(s.Resize[0]-1), byte(s.Resize[1]-1))
			} else {
				b = append(b, bytes.Repeat(s.data(tb), min(max(s.Times, 1), 20))...)
			}
		}
		all["case "+c.Name] = b
	}
	for _, r := range loadRecordings(tb) {
		all["recording "+r.name] = r.raw
	}
	n := 400
	if testing.Short() {
		n = 50
	}
	for i := range n {
		all[fmt.Sprintf("random %d", i)] = randomOutput(rand.New(rand.NewPCG(uint64(i), 7501)), 300)
	}
	return all
}

var fragments = []string{
	"a", "b", " ", "Z", "hello world", "中", "文", "한", "é", "e\u0301", "👍", "🏽", "❤", "\ufe0f", "\u200d", "🇩", "🇪", "👩‍👩‍👧", "1\ufe0f\u20e3",
	"\r", "\n", "\r\n", "\b", "\t", "\a", "\x0e", "\x0f", "\x1b(0", "\x1b(B", "\x1b)0", "\x1bn", "\x1bN", "\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1bH",
	"\x1b#8", "\x1b=", "\x1b>", "\x1b[!p", "\x1b]8;;http://e.com\x1b\\", "\x1b]8;id=a;http://f.org\x07", "\x1b]8;;\x07", "\x1b]2;t\x07",
	"\x1b[?45h", "\x1b[2 @", "\x1b[ A", "\x1b[3'}", "\x1b[2'~", "\x1b[?7l", "\x1b[?7h", "\x1b[?6h", "\x1b[?6l", "\x1b[4h", "\x1b[4l", "\x1b[?25l", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h", "\x1b[?1047l", "\x1b[20h", "\x1b[20l",
	"\x1b[?2004h", "\x1b[?1000h", "\x1b[?1006h", "\x1b[>1u", "\x1b[<u", "\x1b[=5u", "\x1b[3 q", "\x1b[m", "\x1b[1;31m", "\x1b[44m", "\x1b[7m", "\x1b[4:3;58:5:9m",
	"\x1b[38;2;1;2;3m", "\x1b[0;38;2;1;2;3;48;2;4;5;6m", "\x1b[48;5;200m", "\x1b[1\"q", "\x1b[0\"q", "\x1b[3g", "\xff", "\xe4\xb8", "\xc2\x9b2J", "\x18", "\x1b", "\x1bP$qm\x1b\\", "\x1b_x\x1b\\",
	"\x1b[2J", "\x1b[3J", "\x1b[J", "\x1b[1J", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[?K", "\x1b[r", "\x1b[2;4r", "\x1b[1;3r", "\x1b[s", "\x1b[u", "\x1b[c", "\x1b[6n",
}

func randomOutput(r *rand.Rand, n int) []byte {
	var b []byte
	for range n {
		switch k := r.IntN(20); {
		case k < 11:
			b = append(b, fragments[r.IntN(len(fragments))]...)
		case k < 15:
			final := "@ABCDEFGHILMPSTXZ`abdef"
			b = fmt.Appendf(b, "\x1b[%d;%d%c", r.IntN(12), r.IntN(25), final[r.IntN(len(final))])
		case k < 18:
			for range r.IntN(30) {
				b = append(b, byte('a'+r.IntN(26)))
			}
		case k == 18 && r.IntN(8) == 0:
			b = append(b, resizeMark, byte(r.IntN(30)), byte(r.IntN(12)))
		}
	}
	return b
}

func small() *Terminal { return New(Options{Cols: 20, Rows: 6, Scrollback: 50, Name: "kolu(test)"}) }

func TestAnySplitGivesTheSameState(t *testing.T) {
	for name, in := range inputs(t) {
		whole := small()
		feed(whole, in, 0)
		for _, cut := range []int{1, 2, 3, 7} {
			parts := small()
			feed(parts, in, cut)
			if diff := difference(whole, parts, true); diff != "" {
				t.Errorf("%s cut into %d: %s", name, cut, diff)
			}
			if a, b := whole.out.replies, parts.out.replies; !bytes.Equal(a, b) {
				t.Errorf("%s cut into %d: replies %q and %q", name, cut, a, b)
			}
		}
	}
}

func TestRenderReplaysToTheSameState(t *testing.T) {
	for name, in := range inputs(t) {
		term := small()
		feed(term, in, 0)
		for _, history := range []int{1000, 3, 0} {
			if diff := replayed(term, history); diff != "" {
				t.Errorf("%s with %d lines of history: %s", name, history, diff)
			}
		}
	}
}

// logical is the text of history and main screen with wrapped rows joined.
func logical(t *Terminal) string {
	var b []byte
	add := func(text []byte, cont, filler bool) {
		if !cont && b != nil {
			b = append(bytes.TrimRight(b, " "), '\n')
		}
		if filler {
			text = text[:len(text)-1]
		}
		b = append(b, text...)
	}
	for i := range t.hist.len() {
		r := t.hist.row(&t.interner, i, t.cols)
		add(paddedText(t, r), r.cont, r.cells[t.cols-1]&fillerBit != 0)
	}
	for _, r := range t.main.rows {
		add(paddedText(t, r), r.cont, r.cells[t.cols-1]&fillerBit != 0)
	}
	return string(bytes.TrimRight(b, " \n"))
}

func paddedText(t *Terminal, r *row) (b []byte) {
	for _, c := range r.cells {
		b = t.appendText(b, c)
	}
	return b
}

func TestAChangeOfWidthKeepsTheText(t *testing.T) {
	for name, in := range inputs(t) {
		term := New(Options{Cols: 20, Rows: 6, Scrollback: 10_000})
		feed(term, in, 0)
		feed(term, []byte("\x18\x1b[?1049l\x1b[r\x1b[999;999H"), 0) // whatever it is in the middle of; nothing is below the cursor
		want := logical(term)
		for _, cols := range []int{7, 33, 2, 100, 5, 20} {
			term.Resize(cols, term.rows)
			check(t, term)
			if got := logical(term); got != want {
				t.Errorf("%s at %d columns: %q, want %q", name, cols, got, want)
				break
			}
		}
	}
}

func TestALoadedTerminalGoesOnAsTheSavedOne(t *testing.T) {
	for name, in := range inputs(t) {
		for _, part := range []int{len(in) / 2, len(in) - 1} {
			if i := bytes.LastIndexByte(in[:part], resizeMark); i >= 0 && part-i < 3 {
				continue
			}
			whole, first := small(), small()
			feed(whole, in[:part], 0)
			feed(whole, in[part:], 0)
			feed(first, in[:part], 0)
			loaded, err := Load(first.Save())
			if err != nil {
				t.Fatal(err)
			}
			check(t, loaded)
			feed(loaded, in[part:], 0)
			if diff := difference(whole, loaded, true); diff != "" {
				t.Errorf("%s saved after %d bytes: %s", name, part, diff)
			}
			if a, b := whole.Drain(), loaded.Drain(); !bytes.Equal(a, b) {
				t.Errorf("%s saved after %d bytes: replies %q and %q", name, part, a, b)
			}
			if diff := cmp.Diff(whole.Events(), loaded.Events()); diff != "" {
				t.Errorf("%s saved after %d bytes: events %s", name, part, diff)
			}
		}
	}
}

func TestDamagedStatesAreRefused(t *testing.T) {
	good := fullScreen().Save()
	if _, err := Load(good); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(good); i += 9973 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := Load(bad); err == nil {
			t.Errorf("a state with byte %d changed was loaded", i)
		}
		if _, err := Load(good[:i]); err == nil {
			t.Errorf("the first %d bytes of a state were loaded", i)
		}
	}
	for _, change := range []func(*image){
		func(im *image) { im.X = im.Cols }, func(im *image) { im.Rows = 0 }, func(im *image) { im.Tabs = nil },
		func(im *image) { im.Bottom = im.Rows }, func(im *image) { im.Main.Y = -1 }, func(im *image) { im.Parser.State = 99 },
	} {
		im := small().image()
		change(&im)
		if im.check() == nil {
			t.Errorf("accepted %+v", im)
		}
	}
}

// replayed renders a terminal, feeds that to a fresh one and tells the difference.
func replayed(term *Terminal, history int) string {
	s := term.Snapshot()
	fresh := New(Options{Cols: s.Cols, Rows: s.Rows, Scrollback: 10_000, Name: "kolu(test)"})
	drawn := term.Render(history)
	fresh.Write(drawn)
	if diff := difference(term, fresh, false); diff != "" {
		return fmt.Sprintf("%s\nrendered as %q", diff, drawn)
	}
	return ""
}

// difference tells how two terminals differ. Without exact, what a rendering leaves out is not compared: lines that it did not
// take, the title, and parts that show nothing.
func difference(a, b *Terminal, exact bool) string {
	if a.cols != b.cols || a.rows != b.rows {
		return fmt.Sprintf("size %dx%d and %dx%d", a.cols, a.rows, b.cols, b.rows)
	}
	lines := a.hist.len()
	if !exact {
		lines = min(lines, b.hist.len())
	}
	if exact && a.hist.len() != b.hist.len() {
		return fmt.Sprintf("%d and %d lines of history", a.hist.len(), b.hist.len())
	}
	for i := range lines {
		x := a.hist.row(&a.interner, a.hist.len()-lines+i, a.cols)
		y := b.hist.row(&b.interner, b.hist.len()-lines+i, b.cols)
		if diff := rowDifference(a, b, x, y, i > 0); diff != "" {
			return fmt.Sprintf("history line %d: %s", i, diff)
		}
	}
	for _, s := range []struct {
		name string
		a, b []*row
	}{{"main", a.main.rows, b.main.rows}, {"alt", a.alt.rows, b.alt.rows}} {
		if len(s.a) != len(s.b) {
			return fmt.Sprintf("%s has %d and %d rows", s.name, len(s.a), len(s.b))
		}
		for y := range s.a {
			if diff := rowDifference(a, b, s.a[y], s.b[y], y > 0 || lines > 0 && s.name == "main"); diff != "" {
				return fmt.Sprintf("%s row %d: %s", s.name, y, diff)
			}
		}
	}
	return stateDifference(a, b, exact)
}

func rowDifference(a, b *Terminal, x, y *row, cont bool) string {
	if cont && x.cont != y.cont {
		return fmt.Sprintf("wrapped %v and %v", x.cont, y.cont)
	}
	for i := range x.cells {
		c, d := shown(a, x.cells[i]), shown(b, y.cells[i])
		if c != d {
			return fmt.Sprintf("column %d: %+v and %+v", i, c, d)
		}
	}
	return ""
}

type shownCell struct {
	text  string
	bits  cell
	style style
	link  link
}

func shown(t *Terminal, c cell) shownCell {
	s := t.styles[c.style()]
	l := t.links[s.link]
	s.link = 0
	return shownCell{string(t.appendText(nil, c)), c & (wideBit | tailBit), s, l}
}

func stateDifference(a, b *Terminal, exact bool) string {
	sa, sb := a.Snapshot(), b.Snapshot()
	for _, s := range []*Snapshot{&sa, &sb} {
		s.Generation = 0
		if !exact {
			s.Title, s.Modes.Synchronized = "", false
			s.HistoryLines, s.Top, s.FirstLine, s.Epoch = 0, 0, 0, 0
		}
	}
	if sa != sb {
		return fmt.Sprintf("state %+v and %+v", sa, sb)
	}
	pa, pb := penOf(a, a.pen), penOf(b, b.pen)
	switch {
	case pa != pb:
		return fmt.Sprintf("pen %+v and %+v", pa, pb)
	case a.top != b.top || a.bottom != b.bottom:
		return fmt.Sprintf("region %d-%d and %d-%d", a.top, a.bottom, b.top, b.bottom)
	case !slices.Equal(a.tabs, b.tabs):
		return fmt.Sprintf("tabs %v and %v", a.tabs, b.tabs)
	case a.charsets != b.charsets || a.gl != b.gl:
		return fmt.Sprintf("character sets %q %d and %q %d", a.charsets, a.gl, b.charsets, b.gl)
	}
	for _, s := range [][2]*screen{{&a.main, &b.main}, {&a.alt, &b.alt}} {
		if ka, kb := s[0].kitty, s[1].kitty; ka.flags != kb.flags || !slices.Equal(ka.saved, kb.saved) {
			return fmt.Sprintf("kitty %v and %v", ka, kb)
		}
		ca, cb := s[0].saved, s[1].saved
		ca.pen, cb.pen = style{}, style{}
		if ca != cb || penOf(a, s[0].saved.pen) != penOf(b, s[1].saved.pen) {
			return fmt.Sprintf("saved cursor %+v and %+v", s[0].saved, s[1].saved)
		}
	}
	return ""
}

func penOf(t *Terminal, s style) shownCell {
	l := t.links[s.link]
	s.link = 0
	return shownCell{style: s, link: l}
}

// check holds what must be true of any terminal.
func check(tb testing.TB, t *Terminal) {
	tb.Helper()
	if t.x < 0 || t.x >= t.cols || t.y < 0 || t.y >= t.rows || t.pend && t.x != t.cols-1 {
		tb.Fatalf("cursor %d,%d pending %v on %dx%d", t.x, t.y, t.pend, t.cols, t.rows)
	}
	if t.top < 0 || t.bottom >= t.rows || t.top > t.bottom {
		tb.Fatalf("region %d-%d of %d rows", t.top, t.bottom, t.rows)
	}
	if t.hist.len() > t.hist.limit || len(t.main.rows) != t.rows {
		tb.Fatalf("%d lines of history, %d rows", t.hist.len(), len(t.main.rows))
	}
	for _, r := range slices.Concat(t.main.rows, t.alt.rows) {
		checkRow(tb, t, r)
	}
}

func checkRow(tb testing.TB, t *Terminal, r *row) {
	tb.Helper()
	if len(r.cells) != t.cols || r.used > t.cols {
		tb.Fatalf("row of %d cells, %d used, want %d", len(r.cells), r.used, t.cols)
	}
	for x, c := range r.cells {
		wide, tail := c&wideBit != 0, x+1 < t.cols && r.cells[x+1]&tailBit != 0
		if wide != tail || x == 0 && c&tailBit != 0 {
			tb.Fatalf("half a wide character at column %d", x)
		}
		if x >= r.used && c != 0 {
			tb.Fatalf("column %d beyond the %d used is %x", x, r.used, c)
		}
	}
}

func TestRandomOutputKeepsTheInvariants(t *testing.T) {
	for name, in := range inputs(t) {
		term := small()
		for i := 0; i < len(in); i += 16 {
			feed(term, in[i:min(i+16, len(in))], 0)
			check(t, term)
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// FuzzScreen looks for output that breaks the terminal, its invariants, the independence of cuts, or the replay.
func FuzzScreen(f *testing.F) {
	for _, in := range inputs(f) {
		if len(in) < 2000 {
			f.Add(in)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 64<<10 {
			t.Skip()
		}
		whole, parts := small(), small()
		feed(whole, in, 0)
		feed(parts, in, 1)
		check(t, whole)
		if diff := difference(whole, parts, true); diff != "" {
			t.Fatal("cut: ", diff)
		}
		if diff := replayed(whole, 1000); diff != "" {
			t.Fatal("replay: ", diff)
		}
		loaded, err := Load(whole.Save())
		if err != nil {
			t.Fatal(err)
		}
		if diff := difference(whole, loaded, true); diff != "" {
			t.Fatal("load: ", diff)
		}
		whole.Text(Extent{Kind: ExtentFull, Trim: true})
		whole.History(nil, 10)
	})
}
