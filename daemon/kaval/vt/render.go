package vt

import "slices"

const (
	// maxSnap bounds how far a rendering goes back to the start of a wrapped line.
	maxSnap = 1000
	// maxLinksOut bounds the bytes of links in one rendering. They stand for nothing on the screen and could be thousands for
	// each cell of it.
	maxLinksOut = 1 << 20
)

// Render gives bytes that draw the same screen on a cleared terminal of the same size with its modes at their defaults: up to
// historyLines of the history above it, the cells with their attributes and links, both screens if the alternate one is shown, and
// then the modes, saved cursors, tab stops, character sets, keyboard flags and the cursor. The title is not among them, nor
// synchronized output, and of links no more than a megabyte. The history starts with the start of a line: if the cut would fall within a wrapped one, it begins further up.
func (t *Terminal) Render(historyLines int) []byte {
	p := painter{t: t, b: make([]byte, 0, 4096)}
	p.lines(t.snap(historyLines))
	if t.cur == &t.alt {
		p.leaveMain()
	}
	p.state()
	return p.b
}

// snap is the first line of history that a rendering with n lines of it takes.
func (t *Terminal) snap(n int) int {
	start := max(t.hist.len()-max(n, 0), 0)
	if n <= 0 {
		return start
	}
	cont := t.main.rows[0].cont
	if start < t.hist.len() {
		cont = t.hist.cont(start)
	}
	for i := start; cont && i > 0 && start-i < maxSnap; {
		i--
		if cont = t.hist.cont(i); !cont {
			return i
		}
	}
	return start
}

// History gives up to max lines above line before, which is the top of the main screen where before is nil: bytes with
// colours, oldest line first, without a newline at the end. Rows that were wrapped follow each other without a newline, so a chunk may have
// fewer newlines than lines; blank rows are newlines only. Top is the absolute number of the first line, to be passed for
// the page before; exhausted reports that nothing is kept above it.
func (t *Terminal) History(before *int64, max int) (chunk []byte, lines int, top int64, exhausted bool) {
	end := t.hist.end()
	if before != nil {
		end = min(end, *before)
	}
	first := t.hist.first()
	if end <= first || max <= 0 {
		return nil, 0, end, end <= first
	}
	top = first
	if end-first > int64(max) {
		top = end - int64(max)
	}
	p := painter{t: t}
	for n := top; n < end; n++ {
		i := int(n - first)
		p.historyLine(i, n > top, n+1 < end && t.hist.cont(i+1))
	}
	p.setStyle(style{})
	return p.b, int(end - top), top, top == first
}

// A painter appends bytes that draw.
type painter struct {
	t    *Terminal
	b    []byte
	pen  style
	row  row // decoded history
	prev cell
	// links is how many bytes of links were painted.
	links int
	// filler says that the row before ended in an empty column, which a wide character after it leaves by itself.
	filler bool
}

// lines paints the history from line start on and the main screen.
func (p *painter) lines(start int) {
	t := p.t
	above := t.hist.len()
	for i := start; i < above; i++ {
		next := i+1 == above && t.main.rows[0].cont || i+1 < above && t.hist.cont(i+1)
		p.historyLine(i, i > start, next)
	}
	p.screen(t.main.rows, above > start)
	p.setStyle(style{})
}

func (p *painter) historyLine(i int, newline, next bool) {
	if p.t.full() { // which gives links other numbers
		p.setStyle(style{})
		p.t.sweep()
	}
	p.row.cells = p.t.hist.decode(&p.t.interner, i, p.row.cells[:0])
	p.row.used = len(p.row.cells)
	p.row.cont = p.t.hist.cont(i)
	p.line(&p.row, newline, next)
}

func (p *painter) screen(rows []*row, newline bool) {
	last := len(rows) - 1
	if !newline {
		for last > 0 && rows[last].used == 0 && !rows[last].cont {
			last--
		}
	}
	for y, r := range rows[:last+1] {
		p.line(r, newline || y > 0, y < last && rows[y+1].cont)
	}
}

// line paints one row below what was painted before; next says that the row after it goes on from it.
func (p *painter) line(r *row, newline, next bool) {
	at := 0
	switch {
	case !newline:
	case r.cont:
		// The first character wraps. If that scrolls, the new row takes the background, so it has to be the default then.
		at = 1
		p.wrap(p.at(r, 0))
	default:
		if p.pen.bg != 0 {
			p.setStyle(style{})
		}
		p.b = append(p.b, "\r\n"...)
		p.prev = 0
	}
	p.cells(r, at, next)
}

// wrap paints what has to come before the first cell of a row that the row above wraps to.
func (p *painter) wrap(first cell) {
	wide := first&wideBit != 0
	if p.filler && !wide {
		p.setStyle(style{})
		p.str(" ")
	}
	if p.t.styles[first.style()].bg != 0 {
		p.setStyle(style{})
		if p.filler && wide {
			p.str("\u3000\r")
		} else {
			p.str(" \r")
		}
	}
	p.filler = false
}

func (p *painter) at(r *row, x int) cell {
	if x < r.used {
		return r.cells[x]
	}
	return 0
}

// cells paints the cells of a row: at least atLeast of them, all if the next row is to go on from it.
func (p *painter) cells(r *row, atLeast int, all bool) {
	n := r.trimmed()
	rest := cell(0) // fills the row after n, by erasing
	if !all && n == p.t.cols {
		if c := r.cells[n-1]; c.isEmpty() && p.t.styles[c.style()] == p.t.styles[c.style()].background() {
			rest = c &^ contentMask
			for n > 0 && r.cells[n-1].isEmpty() && r.cells[n-1]&^contentMask == rest {
				n--
			}
		}
	}
	n = max(n, atLeast)
	if all {
		n = p.t.cols
	}
	id := ^uint32(0)
	for x := range n {
		c := p.at(r, x)
		v := uint32(c)
		if v&tailBit != 0 {
			continue
		}
		if v == fillerBit && c.style() == 0 && all && x == n-1 {
			p.filler = true
			continue
		}
		if s := c.style(); s != id {
			id = s
			p.setStyle(p.t.styles[s])
		}
		switch {
		case v == 0:
			p.b = append(p.b, ' ')
		case v < 0x80:
			p.b = append(p.b, byte(v))
		default:
			p.beyondASCII(c)
		}
		p.prev = c
	}
	if rest != 0 && n < p.t.cols {
		p.setStyle(p.t.styles[rest.style()])
		p.b = append(p.b, "\x1b[K"...)
	}
}

// beyondASCII paints a cell so that it does not join the one before it.
func (p *painter) beyondASCII(c cell) {
	if p.prev&contentMask >= 0x80 && c&fillerBit == 0 {
		if propsOf(p.t.firstRune(c))&(propRegional|propModifier|propPictographic) != 0 {
			p.sgr()
		}
	}
	p.b = p.t.appendText(p.b, c)
}

func (p *painter) setStyle(s style) {
	if p.links > maxLinksOut {
		s.link = 0
	}
	if s == p.pen {
		return
	}
	if s.link != p.pen.link {
		p.link(p.t.links[s.link])
	}
	p.pen.link = s.link
	if (s.attrs^p.pen.attrs)&attrProtected != 0 {
		p.pen.attrs ^= attrProtected
		if s.attrs&attrProtected != 0 {
			p.str("\x1b[1\"q")
		} else {
			p.str("\x1b[\"q")
		}
	}
	if s != p.pen {
		p.pen = s
		p.sgr()
	}
}

func (p *painter) sgr() {
	p.b = append(p.b, "\x1b["...)
	if p.pen != (style{}) {
		p.b = append(p.b, '0')
	}
	p.b = append(p.pen.appendSGR(p.b), 'm')
}

func (p *painter) link(l link) {
	p.links += len(l.uri) + len(l.id)
	p.b = append(p.b, "\x1b]8;"...)
	if l.id != "" {
		p.b = append(append(p.b, "id="...), l.id...)
	}
	p.b = append(p.b, ';')
	p.b = append(p.b, l.uri...)
	p.b = append(p.b, "\x1b\\"...)
}

func (p *painter) str(s string) { p.b = append(p.b, s...) }

// csi appends a sequence with one or two numbers.
func (p *painter) csi(final string, n ...int) {
	p.str("\x1b[")
	for i, v := range n {
		if i > 0 {
			p.str(";")
		}
		p.b = appendInt(p.b, v)
	}
	p.str(final)
}

// leaveMain finishes the main screen and paints the alternate one.
func (p *painter) leaveMain() {
	t := p.t
	p.keyboard(&t.main.kitty)
	if s := t.main.saved; s.valid {
		p.cursorOf(t.main.rows, s, 0)
		p.str("\x1b[?1049h")
		p.plainState(s)
	} else {
		p.csi("H", t.main.y+1, t.main.x+1)
		p.str("\x1b[?1047h")
	}
	p.str("\x1b[H\x1b[2J")
	p.prev = 0
	p.screen(t.alt.rows, false)
	p.setStyle(style{})
}

// plainState undoes what cursorOf set.
func (p *painter) plainState(s savedCursor) {
	p.setStyle(style{})
	for i, c := range s.charsets {
		if c != 'B' {
			p.str("\x1b" + string("()*+"[i]) + "B")
		}
	}
	if s.gl != 0 {
		p.str("\x0f")
	}
	if s.origin {
		p.str("\x1b[?6l")
	}
}

// cursorOf moves to a cursor, with its wrap pending if it is, and takes on its pen and character sets. Top is where the region begins
// that is set in what was painted.
func (p *painter) cursorOf(rows []*row, s savedCursor, top int) {
	y := s.y
	if s.origin {
		p.str("\x1b[?6h")
		y -= top
	}
	x := s.x
	if s.pend {
		r := rows[s.y]
		if p.at(r, x)&tailBit != 0 {
			x--
		}
		p.csi("H", y+1, x+1)
		p.prev = 0
		c := p.at(r, x)
		if c&fillerBit != 0 {
			c &^= contentMask
		}
		one := row{cells: []cell{c}, used: 1}
		p.cells(&one, 1, false)
	} else {
		p.csi("H", y+1, x+1)
	}
	for i, c := range s.charsets {
		if c != 'B' {
			p.str("\x1b" + string("()*+"[i]) + string(rune(c)))
		}
	}
	if s.gl != 0 {
		p.str([]string{1: "\x0e", 2: "\x1bn", 3: "\x1bo"}[s.gl])
	}
	p.setStyle(s.pen)
}

// keyboard sets the kitty keyboard stack of the screen that is shown.
func (p *painter) keyboard(k *kittyStack) {
	all := append(slices.Clone(k.saved), k.flags)
	if all[0] != 0 {
		p.str("\x1b[=" + itoa(all[0]) + ";1u")
	}
	for _, flags := range all[1:] {
		p.str("\x1b[>" + itoa(flags) + "u")
	}
}

// state sets everything that is not cells.
func (p *painter) state() {
	t := p.t
	p.tabs()
	p.keyboard(&t.cur.kitty)
	if s := t.cur.saved; s.valid { // before the region is set, so that its row is what it says
		p.cursorOf(t.cur.rows, s, 0)
		p.str("\x1b7")
		p.plainState(s)
	}
	if t.top != 0 || t.bottom != t.rows-1 {
		p.csi("r", t.top+1, t.bottom+1)
	}
	p.modes()
	p.cursorOf(t.cur.rows, savedCursor{
		x: t.x, y: t.y, pend: t.pend, pen: t.pen, charsets: t.charsets, gl: t.gl, origin: t.modes.Origin,
	}, t.top)
	if t.modes.Insert {
		p.str("\x1b[4h")
	}
	if !t.modes.Autowrap {
		p.str("\x1b[?7l")
	}
}

func (p *painter) tabs() {
	t := p.t
	same := true
	for x, on := range t.tabs {
		same = same && on == (x > 0 && x%8 == 0)
	}
	if same {
		return
	}
	p.str("\x1b[3g")
	for x, on := range t.tabs {
		if on {
			p.csi("G", x+1)
			p.str("\x1bH")
		}
	}
}

func (p *painter) modes() {
	m := p.t.modes
	for _, f := range [...]struct {
		set bool
		seq string
	}{
		{m.ApplicationCursor, "\x1b[?1h"},
		{m.ApplicationKeypad, "\x1b="},
		{m.ReverseWrap, "\x1b[?45h"},
		{m.BracketedPaste, "\x1b[?2004h"},
		{m.Newline, "\x1b[20h"},
		{m.ReverseScreen, "\x1b[?5h"},
		{m.FocusReports, "\x1b[?1004h"},
		{!m.AlternateScroll, "\x1b[?1007l"},
		{m.ColourReports, "\x1b[?2031h"},
		{m.CursorBlink, "\x1b[?12h"},
		{m.Mouse == MouseX10, "\x1b[?9h"},
		{m.Mouse == MouseNormal, "\x1b[?1000h"},
		{m.Mouse == MouseDrag, "\x1b[?1002h"},
		{m.Mouse == MouseAny, "\x1b[?1003h"},
		{m.MouseEncoding != 0, "\x1b[?" + itoa(m.MouseEncoding) + "h"},
		{m.ModifyOtherKeys != 0, "\x1b[>4;" + itoa(m.ModifyOtherKeys) + "m"},
		{p.t.cursorStyle != 0, "\x1b[" + itoa(p.t.cursorStyle) + " q"},
		{p.t.hidden, "\x1b[?25l"},
	} {
		if f.set {
			p.str(f.seq)
		}
	}
}
