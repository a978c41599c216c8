package vt

import "math"

// Resize changes the size, clamped to 1 by 1 and to MaxCols by MaxRows. The main screen and its history are wrapped anew when the width
// changes; the alternate screen is cut or padded. Fewer rows drop those below the cursor first and then move the top ones to the
// history; more rows bring some back if the cursor is in the last one.
func (t *Terminal) Resize(cols, rows int) {
	cols = min(max(cols, 1), MaxCols)
	rows = min(max(rows, 1), MaxRows)
	if cols == t.cols && rows == t.rows {
		return
	}
	t.gen++
	t.last, t.lastX = 0, 0
	if t.cur == &t.main {
		t.main.x, t.main.y, t.main.pend = t.x, t.y, t.pend
	} else {
		t.alt.x, t.alt.y, t.alt.pend = t.x, t.y, t.pend
	}
	if rows != t.rows {
		t.resizeRows(&t.main, rows, &t.hist)
		if t.cur == &t.alt {
			t.resizeRows(&t.alt, rows, nil)
		}
		t.rows = rows
	}
	if cols != t.cols {
		t.rewrap(cols)
		if t.cur == &t.alt {
			t.crop(&t.alt, cols)
		}
		t.resizeTabs(cols)
		t.cols = cols
		t.epoch++
	}
	t.x, t.y, t.pend = t.cur.x, t.cur.y, t.cur.pend && t.modes.Autowrap
	t.top, t.bottom = 0, rows-1
	t.touch(0, rows)
}

func (t *Terminal) resizeTabs(cols int) {
	tabs := defaultTabs(cols)
	copy(tabs, t.tabs)
	t.tabs = tabs
}

// resizeRows changes the height of a screen. Rows go to and come from hist, unless it is nil.
func (t *Terminal) resizeRows(s *screen, rows int, hist *history) {
	if drop := len(s.rows) - rows; drop > 0 {
		below := min(drop, len(s.rows)-1-s.y)
		s.rows = s.rows[:len(s.rows)-below]
		above := drop - below
		if hist != nil {
			hist.allow(above)
		}
		for _, r := range s.rows[:above] {
			if hist != nil {
				hist.push(&t.interner, r)
			}
		}
		s.rows = append([]*row(nil), s.rows[above:]...)
		s.shift(-above, rows)
		return
	}
	var back []*row
	if n := rows - len(s.rows); hist != nil && s.y == len(s.rows)-1 {
		n = min(n, hist.len())
		for i := hist.len() - n; i < hist.len(); i++ {
			back = append(back, hist.row(&t.interner, i, t.cols))
		}
		hist.truncate(hist.len() - n)
		hist.limit = max(hist.maxLines, min(hist.limit, hist.len()))
	}
	s.rows = append(back, s.rows...)
	s.rows = append(s.rows, newRows(t.cols, rows-len(s.rows))...)
	s.shift(len(back), rows)
}

// shift moves the cursors by n rows within a height.
func (s *screen) shift(n, rows int) {
	s.y = min(max(s.y+n, 0), rows-1)
	if s.saved.valid {
		s.saved.y = min(max(s.saved.y+n, 0), rows-1)
	}
}

// crop cuts or pads every row of a screen.
func (t *Terminal) crop(s *screen, cols int) {
	for i, r := range s.rows {
		r.unfill()
		n := &row{cells: make([]cell, cols)}
		n.used = copy(n.cells, r.cells[:min(r.used, cols)])
		if n.used == cols && n.cells[cols-1]&wideBit != 0 {
			n.cells[cols-1] &^= contentMask
		}
		s.rows[i] = n
	}
	s.x, s.pend = min(s.x, cols-1), s.pend && s.x == cols-1
	s.saved.x, s.saved.pend = min(s.saved.x, cols-1), s.saved.pend && s.saved.x == cols-1
}

// A spot is a position that keeps its character while lines are wrapped anew: a line by its absolute number, and a column, which
// is the width where a wrap is pending.
type spot struct {
	line int64
	x    int
	done bool
}

// maxJoin bounds the rows that are joined into one line. A longer one is cut there.
const maxJoin = 4096

// maxScreenBytes is room in the history for all that a screen can hold.
const maxScreenBytes = 1 << 30

// rewrap wraps history and main screen to a new width. All rows go into the history first and then, wrapped, into a new one; the
// screen is taken off its end.
func (t *Terminal) rewrap(cols int) {
	old, main := &t.hist, &t.main
	last := main.y
	for y := last + 1; y < t.rows; y++ {
		if main.rows[y].trimmed() > 0 {
			last = y
		}
	}
	old.limit, old.maxBytes = old.limit+t.rows, old.maxBytes+maxScreenBytes
	for _, r := range main.rows[:last+1] {
		old.push(&t.interner, r)
	}
	first := old.end() - int64(last+1)
	full := last == t.rows-1
	cursor := spot{line: first + int64(main.y), x: main.x}
	saved := spot{line: first + int64(min(main.saved.y, last)), x: main.saved.x}
	if main.pend {
		cursor.x++
	}
	if main.saved.pend {
		saved.x++
	}
	top := spot{line: first}
	main.rows = nil
	w := wrapper{t: t, old: old, cols: cols, spots: []*spot{&cursor, &saved, &top}}
	w.new.maxLines, w.new.limit, w.new.maxBytes = old.maxLines, math.MaxInt, old.maxBytes
	w.run()

	at := w.screenTop(cursor, top, full)
	main.rows = newRows(cols, t.rows)
	from := int(at - w.new.first())
	for y := 0; y < t.rows && from+y < w.new.len(); y++ {
		main.rows[y] = w.new.row(&t.interner, from+y, cols)
	}
	w.new.truncate(from)
	w.new.maxBytes -= maxScreenBytes
	w.new.limit = w.new.maxLines
	if w.new.maxLines > 0 {
		w.new.limit = max(w.new.maxLines, w.new.len())
	}
	w.new.trim()
	main.x, main.y, main.pend = cursor.within(at, cols, t.rows)
	if main.saved.valid {
		main.saved.x, main.saved.y, main.saved.pend = saved.within(at, cols, t.rows)
	}
	t.hist = w.new
}

// within is the spot on a screen whose first row is line top.
func (s spot) within(top int64, cols, rows int) (x, y int, pend bool) {
	y = min(max(int(s.line-top), 0), rows-1)
	return min(s.x, cols-1), y, s.x >= cols
}

type wrapper struct {
	t     *Terminal
	old   *history
	new   history
	cols  int
	spots []*spot
	line  []cell
}

// run wraps every line.
func (w *wrapper) run() {
	for i := 0; i < w.old.len(); {
		if w.t.full() {
			w.t.sweep()
		}
		n := 1
		for i+n < w.old.len() && n < maxJoin && w.old.cont(i+n) {
			n++
		}
		if n > 1 || !w.copy(i) {
			w.join(i, n)
			w.split(w.old.cont(i))
		}
		i += n
	}
	for _, s := range w.spots {
		s.done = false
	}
}

// copy takes line i over as it is, if it fits and no spot is in it.
func (w *wrapper) copy(i int) bool {
	flags, data, all := w.old.record(i)
	if flags&linePlain == 0 || len(data) > w.cols {
		return false
	}
	for _, s := range w.spots {
		if !s.done && s.line == w.old.first()+int64(i) {
			return false
		}
	}
	w.new.pushRecord(all)
	return true
}

// join makes one line of n rows from i on. A spot in it gets its column in the whole line, and its number below 0.
func (w *wrapper) join(i, n int) {
	w.line = w.line[:0]
	width := w.t.cols
	for k := i; k < i+n; k++ {
		start := len(w.line)
		w.line = w.old.decode(&w.t.interner, k, w.line)
		more := k+1 < i+n
		if end := len(w.line); more && end == start+width && w.line[end-1]&fillerBit != 0 {
			w.line = w.line[:end-1]
		} else if more {
			w.pad(start + width)
		} else if end > start && w.line[end-1]&fillerBit != 0 {
			w.line[end-1] &^= contentMask
		}
		for _, s := range w.spots {
			if s.done || s.line != w.old.first()+int64(k) {
				continue
			}
			s.x += start
			s.line = -1
			if more {
				s.x = min(s.x, len(w.line))
			} else {
				w.pad(s.x)
			}
		}
	}
}

func (w *wrapper) pad(n int) {
	for len(w.line) < n {
		w.line = append(w.line, 0)
	}
}

// split pushes the joined line in rows of the new width.
func (w *wrapper) split(cont bool) {
	line := w.line
	for start := 0; ; {
		end := min(start+w.cols, len(line))
		next := end
		var held cell
		cut := end < len(line) && line[end-1]&wideBit != 0
		switch {
		case cut && w.cols > 1:
			next--
			held = line[end-1]
			line[end-1] = held&^contentMask | fillerBit
		case cut:
			line[end-1] &^= contentMask
			next++
		}
		number := w.new.end()
		rest := next >= len(line)
		for _, s := range w.spots {
			if s.line < 0 && !s.done && (s.x < next || rest) {
				s.done = true
				s.line = number
				s.x = min(s.x-start, w.cols)
			}
		}
		w.new.pushCells(&w.t.interner, trimCells(line[start:end]), cont)
		if held != 0 {
			line[end-1] = held
		}
		if rest {
			return
		}
		start, cont = next, true
	}
}

// trimCells leaves off blanks at the end.
func trimCells(c []cell) []cell {
	n := len(c)
	for n > 0 && c[n-1].isBlank() {
		n--
	}
	return c[:n]
}

// screenTop is the line that the screen begins with. A screen that was full to its last row stays full if there are lines enough;
// another keeps its top, unless text would fall off below. In any case the cursor stays on it.
func (w *wrapper) screenTop(cursor, top spot, full bool) int64 {
	at := w.new.end() - int64(w.t.rows)
	if !full {
		at = max(at, top.line)
	}
	return max(min(at, cursor.line), w.new.first())
}
