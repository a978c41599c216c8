package vt

import (
	"strings"
	"unicode/utf8"
)

// graphics is what 0x5f to 0x7e show in the DEC special graphics set.
var graphics = [...]rune{
	' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼',
	'⎺', '⎻', '─', '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
}

// translate maps an ASCII character through the character set in use.
func (t *Terminal) translate(b byte) rune {
	set := t.charsets[t.gl]
	if t.shift != 0 {
		set = t.charsets[t.shift]
		t.shift = 0
	}
	switch {
	case set == '0' && b >= 0x5f:
		return graphics[b-0x5f]
	case set == 'A' && b == '#':
		return '£'
	}
	return rune(b)
}

// usePen brings the numbers of the pen's styles up to date.
func (t *Terminal) usePen() {
	if t.full() {
		t.sweep()
	}
	t.penBits = cell(t.styleID(t.pen)) << styleShift
	t.blankBits = cell(t.styleID(t.pen.background())) << styleShift
	t.penStale = false
}

// blank is the cell that erasing leaves.
func (t *Terminal) blank() cell {
	if t.penStale {
		t.usePen()
	}
	return t.blankBits
}

// printASCII puts printable ASCII characters, a row's worth at a time.
func (t *Terminal) printASCII(p []byte) {
	if t.shift != 0 || t.charsets[t.gl] != 'B' {
		for _, b := range p {
			if r := t.translate(b); r < utf8.RuneSelf {
				t.put(r, 1)
			} else {
				t.printRune(r)
			}
		}
		return
	}
	if t.penStale {
		t.usePen()
	}
	t.last = rune(p[len(p)-1])
	for len(p) > 0 {
		if t.pend {
			t.wrap()
		}
		n := min(len(p), t.cols-t.x)
		r := t.cur.rows[t.y]
		r.gen = t.gen
		if t.modes.Insert {
			t.insertCells(r, t.x, n)
		}
		end := t.x + n
		t.splitEdges(r, t.x, end)
		dst := r.cells[t.x:end]
		bits := t.penBits
		for i, b := range p[:len(dst)] {
			dst[i] = bits | cell(b)
		}
		r.used = max(r.used, end)
		t.lastX = end - 1
		t.x = end
		p = p[n:]
		if end == t.cols {
			t.x--
			t.pend = t.modes.Autowrap
			if !t.pend && len(p) > 1 {
				p = p[len(p)-1:]
			}
		}
	}
}

// splitEdges blanks the halves that writing from a up to b would leave of wide characters.
func (t *Terminal) splitEdges(r *row, a, b int) {
	if a < r.used && a > 0 && r.cells[a]&tailBit != 0 {
		r.cells[a-1] &^= contentMask
	}
	if b < r.used && r.cells[b]&tailBit != 0 {
		r.cells[b] &^= contentMask
	}
}

// printRune puts one character beyond ASCII: into a cell of its own, or onto the one before it.
func (t *Terminal) printRune(r rune) {
	p := propsOf(r)
	t.shift = 0
	if (p&widthMask == 0 || p&(propModifier|propRegional|propPictographic) != 0) && t.join(r, p) {
		return
	}
	if w := int(p & widthMask); w > 0 {
		t.put(r, w)
	}
}

// put writes a character of width w at the cursor and moves on.
func (t *Terminal) put(r rune, w int) {
	if t.penStale {
		t.usePen()
	}
	if t.pend {
		t.wrap()
	}
	row := t.cur.rows[t.y]
	if w == 2 && t.x == t.cols-1 {
		if !t.modes.Autowrap || t.cols == 1 {
			t.last = 0
			return
		}
		t.splitEdges(row, t.x, t.cols)
		row.fill(t.x, t.cols, t.blankBits|fillerBit)
		row.gen = t.gen
		t.wrap()
		row = t.cur.rows[t.y]
	}
	row.gen = t.gen
	if t.modes.Insert {
		t.insertCells(row, t.x, w)
	}
	end := t.x + w
	t.splitEdges(row, t.x, end)
	c := t.penBits | cell(r)
	if w == 2 {
		row.cells[t.x+1] = t.penBits | tailBit
		c |= wideBit
	}
	row.cells[t.x] = c
	row.used = max(row.used, end)
	t.last, t.lastX = r, t.x
	t.advance(end)
}

// advance moves the cursor to column x, or to the last one with a wrap pending.
func (t *Terminal) advance(x int) {
	t.x = x
	if x == t.cols {
		t.x--
		t.pend = t.modes.Autowrap
	}
}

// wrap ends the row softly.
func (t *Terminal) wrap() {
	t.x, t.pend = 0, false
	if t.y == t.rows-1 && t.y != t.bottom {
		return
	}
	t.lineFeed()
	t.cur.rows[t.y].cont = true
}

// join adds a character to the cell before the cursor if that is where it belongs, and reports whether it is dealt with.
func (t *Terminal) join(r rune, p props) bool {
	if t.penStale || t.full() {
		t.usePen()
	}
	x, row := t.joinTarget()
	if x < 0 {
		return p&widthMask == 0
	}
	c := row.cells[x]
	grow, ok := t.joins(c, r, p)
	if !ok {
		return p&widthMask == 0
	}
	if grow && x+1 >= t.cols {
		if !t.pend || t.cols == 1 {
			return p&widthMask == 0
		}
		x, row = 0, t.carryOver(row, x)
	}
	if c&clusterBit != 0 && len(t.clusters[c&runeMask])+utf8.RuneLen(r) > maxCluster {
		return true
	}
	var buf [maxCluster + utf8.UTFMax]byte
	text := utf8.AppendRune(t.appendText(buf[:0], c), r)
	row.cells[x] = c&^contentMask | c&wideBit | cell(t.clusterFor(c, text))
	row.used = max(row.used, x+1)
	row.gen = t.gen
	if grow {
		t.widen(row, x)
	}
	t.last, t.lastX = r, x
	return true
}

// carryOver moves the cell at the end of a row, which is about to grow wide, to the start of the next row.
func (t *Terminal) carryOver(row *row, x int) *row {
	c := row.cells[x]
	row.fill(x, t.cols, t.blank()|fillerBit)
	row.gen = t.gen
	t.wrap()
	next := t.cur.rows[t.y]
	if t.modes.Insert {
		t.insertCells(next, 0, 1)
	}
	t.splitEdges(next, 0, 1)
	next.cells[0] = c
	next.used = max(next.used, 1)
	t.x = 1
	return next
}

// clusterFor gives the number of a cluster with text, the one that c has already if it has one.
func (t *Terminal) clusterFor(c cell, text []byte) uint32 {
	if c&clusterBit != 0 {
		t.clusters[c&runeMask] = string(text)
		return uint32(c) & (clusterBit | runeMask)
	}
	return t.newCluster(string(text))
}

// joinTarget is the cell that a combining character goes to; x is -1 if there is none.
func (t *Terminal) joinTarget() (int, *row) {
	row := t.cur.rows[t.y]
	x := t.x - 1
	if t.last != 0 {
		x = t.lastX
	} else if t.pend {
		x = t.x
	}
	if x > 0 && row.cells[x]&tailBit != 0 {
		x--
	}
	return x, row
}

// joins reports whether a character makes one cluster with the cell c before it, and whether c grows wide by it. A character with a
// width of its own only does right after c was printed.
func (t *Terminal) joins(c cell, r rune, p props) (grow, ok bool) {
	first := propsOf(t.firstRune(c))
	narrow := c&wideBit == 0
	switch {
	case r == 0xfe0f:
		grow = narrow && t.last != 0 && c&clusterBit == 0 && first&propVariation != 0
		return grow, grow || !narrow
	case p&widthMask == 0:
		return false, true
	case t.last == 0:
		return false, false
	case p&propRegional != 0:
		return true, first&propRegional != 0 && c&clusterBit == 0
	case p&propModifier != 0:
		return narrow, first&propPictographic != 0
	case c&clusterBit != 0:
		return narrow, first&propPictographic != 0 && strings.HasSuffix(t.clusters[c&runeMask], "\u200d")
	}
	return false, false
}

// widen makes the cell at x wide. There is room for it.
func (t *Terminal) widen(row *row, x int) {
	if t.modes.Insert {
		t.insertCells(row, x+1, 1)
	}
	t.splitEdges(row, x+1, x+2)
	row.cells[x] |= wideBit
	row.cells[x+1] = row.cells[x]&^contentMask | tailBit
	row.used = max(row.used, x+2)
	if t.x == x+1 {
		t.advance(x + 2)
	}
}
