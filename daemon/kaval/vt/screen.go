package vt

import "slices"

// A screen is one of the two grids of a terminal with what each keeps for itself.
type screen struct {
	rows  []*row
	saved savedCursor
	// Where the cursor was when the screen was left.
	x, y  int
	pend  bool
	kitty kittyStack
	gen   uint64 // of the write that last changed all rows
}

type savedCursor struct {
	valid    bool
	x, y     int
	pend     bool
	pen      style
	charsets [4]byte
	gl       int
	origin   bool
}

var defaultCharsets = [4]byte{'B', 'B', 'B', 'B'}

func newRows(cols, rows int) []*row {
	out := make([]*row, rows)
	cells := make([]cell, cols*rows)
	for i := range out {
		out[i] = &row{cells: cells[i*cols : (i+1)*cols : (i+1)*cols]}
	}
	return out
}

// touch notes a change of rows from a up to b.
func (t *Terminal) touch(a, b int) {
	if a == 0 && b == t.rows {
		t.cur.gen = t.gen
		return
	}
	for _, r := range t.cur.rows[a:b] {
		r.gen = t.gen
	}
}

// moveTo sets the cursor, in the coordinates of the screen, clamped to it.
func (t *Terminal) moveTo(x, y int) {
	t.x = min(max(x, 0), t.cols-1)
	t.y = min(max(y, 0), t.rows-1)
	t.pend = false
}

// position sets the cursor as CUP does: relative to the region in origin mode.
func (t *Terminal) position(x, y int) {
	if t.modes.Origin {
		y = min(max(y+t.top, t.top), t.bottom)
	}
	t.moveTo(x, y)
}

func (t *Terminal) up(n int) {
	limit := 0
	if t.y >= t.top {
		limit = t.top
	}
	t.moveTo(t.x, max(t.y-n, limit))
}

func (t *Terminal) down(n int) {
	limit := t.rows - 1
	if t.y <= t.bottom {
		limit = t.bottom
	}
	t.moveTo(t.x, min(t.y+n, limit))
}

// tab moves n stops on, or back where n is negative. A pending wrap stays when moving on.
func (t *Terminal) tab(n int) {
	for ; n > 0 && t.x < t.cols-1; n-- {
		for t.x++; t.x < t.cols-1 && !t.tabs[t.x]; t.x++ {
		}
	}
	for ; n < 0 && t.x > 0; n++ {
		t.pend = false
		for t.x--; t.x > 0 && !t.tabs[t.x]; t.x-- {
		}
	}
}

func (t *Terminal) backspace() {
	back := t.modes.ReverseWrap && t.modes.Autowrap
	switch r := t.cur.rows[t.y]; {
	case t.pend && back: // from beyond the last column to it
	case t.x > 0:
		t.x--
	case back && r.cont && t.y > t.top && t.y <= t.bottom:
		r.cont = false
		t.y--
		t.x = t.cols - 1
		if t.x > 0 && t.cur.rows[t.y].cells[t.x]&fillerBit != 0 {
			t.x--
		}
	}
	t.pend = false
}

func (t *Terminal) lineFeed() {
	t.pend = false
	switch {
	case t.y == t.bottom:
		t.scrollUp(t.top, t.bottom, 1, true)
	case t.y < t.rows-1:
		t.y++
		t.cur.rows[t.y].cont = false
	}
}

func (t *Terminal) reverseIndex() {
	t.pend = false
	if t.y == t.top {
		t.scrollDown(t.top, t.bottom, 1)
	} else if t.y > 0 {
		t.y--
	}
}

// scrollUp moves the rows from top to bottom up by n. With keep, those that leave the top of the main screen go to the history.
func (t *Terminal) scrollUp(top, bottom, n int, keep bool) {
	n = min(n, bottom-top+1)
	if n <= 0 {
		return
	}
	blank := t.blank()
	rows := t.cur.rows[top : bottom+1]
	keep = keep && top == 0 && t.cur == &t.main
	for _, r := range rows[:n] {
		if keep {
			t.hist.push(&t.interner, r)
		}
		t.clearRow(r, blank)
	}
	rotate(rows, n)
	if !keep {
		rows[0].cont = false
	}
	t.scrolled(top, bottom)
}

func (t *Terminal) scrollDown(top, bottom, n int) {
	n = min(n, bottom-top+1)
	if n <= 0 {
		return
	}
	blank := t.blank()
	rows := t.cur.rows[top : bottom+1]
	rotate(rows, len(rows)-n)
	for _, r := range rows[:n] {
		t.clearRow(r, blank)
	}
	if n < len(rows) {
		rows[n].cont = false
	}
	t.scrolled(top, bottom)
}

// rotate moves the first n rows to the end.
func rotate(rows []*row, n int) {
	if n == 1 { // by far the most frequent
		first := rows[0]
		rows[copy(rows, rows[1:])] = first
		return
	}
	slices.Reverse(rows[:n])
	slices.Reverse(rows[n:])
	slices.Reverse(rows)
}

// scrolled notes the damage of a scroll: the rows below no longer go on from the ones above them.
func (t *Terminal) scrolled(top, bottom int) {
	t.touch(top, bottom+1)
	if bottom+1 < t.rows {
		t.cur.rows[bottom+1].cont = false
	}
}

func (t *Terminal) clearRow(r *row, blank cell) {
	r.fill(0, t.cols, blank)
	r.cont = false
	r.gen = t.gen
}

// erase blanks cells of a row from a up to b. Selective erase spares protected ones.
func (t *Terminal) erase(y, a, b int, selective bool) {
	r := t.cur.rows[y]
	r.gen = t.gen
	blank := t.blank()
	if a == 0 {
		r.cont = false
	}
	if selective {
		t.eraseUnprotected(r, a, b, blank)
		return
	}
	t.splitEdges(r, a, b)
	r.fill(a, b, blank)
}

func (t *Terminal) eraseUnprotected(r *row, a, b int, blank cell) {
	for x := a; x < b; x++ {
		if t.styles[r.cells[x].style()].attrs&attrProtected == 0 {
			t.splitEdges(r, x, x+1)
			r.cells[x] = blank
			r.used = max(r.used, x+1)
		}
	}
}

func (t *Terminal) eraseLine(mode int, selective bool) {
	t.last = 0
	switch mode {
	case 0:
		if !t.pend {
			t.erase(t.y, t.x, t.cols, selective)
		}
	case 1:
		cont := t.cur.rows[t.y].cont
		t.erase(t.y, 0, t.x+1, selective)
		t.cur.rows[t.y].cont = cont
	case 2:
		t.erase(t.y, 0, t.cols, selective)
	}
}

func (t *Terminal) eraseDisplay(mode int, selective bool) {
	switch mode {
	case 0:
		t.eraseLine(0, selective)
		for y := t.y + 1; y < t.rows; y++ {
			t.erase(y, 0, t.cols, selective)
		}
	case 1:
		for y := range t.y {
			t.erase(y, 0, t.cols, selective)
		}
		t.eraseLine(1, selective)
		if t.x == t.cols-1 && t.y+1 < t.rows {
			t.cur.rows[t.y+1].cont = false
		}
	case 2:
		for y := range t.rows {
			t.erase(y, 0, t.cols, selective)
		}
	case 3:
		t.hist.clear()
	}
}

// insertCells shifts the cells from x on to the right by n, which makes blanks.
func (t *Terminal) insertCells(r *row, x, n int) {
	n = min(n, t.cols-x)
	if n <= 0 {
		return
	}
	blank := t.blank()
	r.gen = t.gen
	if x > 0 && r.cells[x]&tailBit != 0 {
		r.cells[x-1] &^= contentMask
		r.cells[x] &^= contentMask
	}
	r.unfill()
	copy(r.cells[x+n:], r.cells[x:])
	r.used = t.cols
	r.fill(x, x+n, 0)
	r.used = t.cols
	r.fill(x, x+n, blank)
	if c := &r.cells[t.cols-1]; *c&wideBit != 0 {
		*c &^= contentMask
	}
	r.used = r.trimmedZero()
}

// trimmedZero is the shortest used that is true.
func (r *row) trimmedZero() int {
	n := len(r.cells)
	for n > 0 && r.cells[n-1] == 0 {
		n--
	}
	return n
}

// deleteCells shifts the cells right of x+n to the left by n.
func (t *Terminal) deleteCells(r *row, x, n int) {
	n = min(n, t.cols-x)
	if n <= 0 {
		return
	}
	blank := t.blank()
	r.gen = t.gen
	t.splitEdges(r, x, x+n)
	r.unfill()
	copy(r.cells[x:], r.cells[x+n:])
	r.used = t.cols
	r.fill(t.cols-n, t.cols, blank)
	r.used = r.trimmedZero()
}

func (t *Terminal) insertLines(n int) {
	if t.y >= t.top && t.y <= t.bottom {
		t.scrollDown(t.y, t.bottom, n)
		t.x, t.pend = 0, false
	}
}

func (t *Terminal) deleteLines(n int) {
	if t.y >= t.top && t.y <= t.bottom {
		t.scrollUp(t.y, t.bottom, n, false)
		t.x, t.pend = 0, false
	}
}

// align fills the screen with E (DECALN).
func (t *Terminal) align() {
	t.top, t.bottom = 0, t.rows-1
	for y, r := range t.cur.rows {
		t.erase(y, 0, t.cols, false)
		r.fill(0, t.cols, 'E')
	}
	t.moveTo(0, 0)
}

func (t *Terminal) saveCursor() {
	t.cur.saved = savedCursor{
		valid: true, x: t.x, y: t.y, pend: t.pend, pen: t.pen,
		charsets: t.charsets, gl: t.gl, origin: t.modes.Origin,
	}
}

func (t *Terminal) restoreCursor() {
	s := t.cur.saved
	if !s.valid {
		s.charsets = defaultCharsets
	}
	t.pen, t.penStale = s.pen, true
	t.charsets, t.gl, t.modes.Origin = s.charsets, s.gl, s.origin
	t.moveTo(s.x, s.y)
	if s.origin {
		t.y = min(max(t.y, t.top), t.bottom)
	}
	t.pend = s.pend && t.x == t.cols-1 && t.modes.Autowrap
}

// showAlt shows the alternate screen, cleared.
func (t *Terminal) showAlt() {
	if t.cur == &t.alt {
		return
	}
	t.main.x, t.main.y, t.main.pend = t.x, t.y, t.pend
	t.alt = screen{rows: newRows(t.cols, t.rows)}
	t.cur = &t.alt
	if blank := t.blank(); blank != 0 {
		for _, r := range t.alt.rows {
			r.fill(0, t.cols, blank)
		}
	}
	t.touch(0, t.rows)
}

// showMain shows the main screen and forgets the alternate one.
func (t *Terminal) showMain() {
	if t.cur == &t.main {
		return
	}
	t.cur = &t.main
	t.alt = screen{}
	t.touch(0, t.rows)
}
