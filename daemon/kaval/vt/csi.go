package vt

// param is the i-th parameter, or def where it is missing or 0.
func (t *Terminal) param(i, def int) int {
	if i < t.nparams && t.params[i] != 0 {
		return t.params[i]
	}
	return def
}

func (t *Terminal) csiDispatch(final byte) {
	if t.ninter > 0 {
		t.csiIntermediate(final)
		t.last = 0
		return
	}
	switch t.marker {
	case 0:
		if final == 'b' {
			t.repeat(t.param(0, 1))
			return
		}
		t.last = 0
		if !t.csiCursor(final) && !t.csiEdit(final) {
			t.csiOther(final)
		}
	case '?':
		t.last = 0
		t.csiPrivate(final)
	default:
		t.last = 0
		t.csiMarked(final)
	}
}

// csiCursor does what moves the cursor.
func (t *Terminal) csiCursor(final byte) bool {
	n := t.param(0, 1)
	switch final {
	case 'A':
		t.up(n)
	case 'B':
		t.down(n)
	case 'C', 'a':
		t.moveTo(t.x+n, t.y)
	case 'D':
		t.moveTo(t.x-n, t.y)
	case 'E':
		t.down(n)
		t.x = 0
	case 'F':
		t.up(n)
		t.x = 0
	case 'G', '`':
		t.moveTo(n-1, t.y)
	case 'H', 'f':
		t.position(t.param(1, 1)-1, n-1)
	case 'd':
		t.position(t.x, n-1)
	case 'e': // unlike CUD it passes the region, but not in origin mode
		if t.modes.Origin {
			t.down(n)
		} else {
			t.moveTo(t.x, t.y+n)
		}
	case 'I':
		t.tab(min(n, t.cols))
	case 'Z':
		t.tab(-min(n, t.cols))
	case 's':
		t.saveCursor()
	case 'u':
		t.restoreCursor()
	default:
		return false
	}
	return true
}

// csiEdit does what changes cells.
func (t *Terminal) csiEdit(final byte) bool {
	n := t.param(0, 1)
	r := t.cur.rows[t.y]
	switch final {
	case '@':
		t.pend = false
		t.insertCells(r, t.x, n)
	case 'P':
		t.pend = false
		t.deleteCells(r, t.x, n)
	case 'X':
		t.pend = false
		cont := r.cont
		t.erase(t.y, t.x, min(t.x+n, t.cols), false)
		r.cont = cont
	case 'J':
		t.eraseDisplay(t.param(0, 0), false)
	case 'K':
		t.eraseLine(t.param(0, 0), false)
	case 'L':
		t.insertLines(n)
	case 'M':
		t.deleteLines(n)
	case 'S':
		t.scrollUp(t.top, t.bottom, n, true)
	case 'T', '^':
		if t.nparams < 2 {
			t.scrollDown(t.top, t.bottom, n)
		}
	default:
		return false
	}
	return true
}

func (t *Terminal) csiOther(final byte) {
	switch final {
	case 'c':
		if t.param(0, 0) == 0 {
			t.reply(deviceAttributes)
		}
	case 'g':
		switch t.param(0, 0) {
		case 0:
			t.tabs[t.x] = false
		case 3:
			clear(t.tabs)
		}
	case 'h', 'l':
		for _, m := range t.params[:t.nparams] {
			t.setANSIMode(m, final == 'h')
		}
	case 'm':
		t.sgr()
	case 'n':
		t.statusReport()
	case 'r':
		t.setRegion()
	case 't':
		t.windowOp()
	}
}

func (t *Terminal) csiPrivate(final byte) {
	switch final {
	case 'h', 'l':
		for _, m := range t.params[:t.nparams] {
			t.setMode(m, final == 'h')
		}
	case 'J':
		if n := t.param(0, 0); n < 3 {
			t.eraseDisplay(n, true)
		}
	case 'K':
		t.eraseLine(t.param(0, 0), true)
	case 'n':
		if t.param(0, 0) == 6 {
			t.cursorReport("\x1b[?")
		}
	case 'r', 's':
		for _, m := range t.params[:t.nparams] {
			if final == 's' {
				t.saveMode(m)
			} else {
				t.restoreMode(m)
			}
		}
	case 'u':
		t.reply("\x1b[?" + itoa(t.cur.kitty.flags) + "u")
	}
}

// csiMarked does the sequences with < = or > in front.
func (t *Terminal) csiMarked(final byte) {
	k := &t.cur.kitty
	switch {
	case t.marker == '>' && final == 'c':
		if t.param(0, 0) == 0 {
			t.reply("\x1b[>0;276;0c")
		}
	case t.marker == '>' && final == 'q':
		if t.param(0, 0) == 0 {
			t.reply("\x1bP>|" + t.name + "\x1b\\")
		}
	case t.marker == '>' && final == 'm':
		if t.param(0, 0) == 4 {
			t.modes.ModifyOtherKeys = min(t.param(1, 0), 2)
		}
	case t.marker == '>' && final == 'n':
		if t.param(0, 0) == 4 {
			t.modes.ModifyOtherKeys = 0
		}
	case t.marker == '>' && final == 'u':
		k.push(t.param(0, 0))
	case t.marker == '<' && final == 'u':
		k.pop(t.param(0, 1))
	case t.marker == '=' && final == 'u':
		k.set(t.param(0, 0), t.param(1, 1))
	}
}

func (t *Terminal) csiIntermediate(final byte) {
	if t.ninter != 1 {
		return
	}
	switch inter := t.inter[0]; {
	case inter == '$' && final == 'p':
		t.modeReport()
	case t.marker != 0:
	case inter == '!' && final == 'p':
		t.softReset()
	case inter == ' ' && final == 'q':
		if n := t.param(0, 0); n <= 6 {
			t.cursorStyle = n
		}
	case inter == '"' && final == 'q':
		t.pen.attrs &^= attrProtected
		if t.param(0, 0) == 1 {
			t.pen.attrs |= attrProtected
		}
		t.penStale = true
	case inter == '\'' && (final == '}' || final == '~'):
		t.columns(t.x, t.param(0, 1), final == '}')
	case inter == ' ' && (final == '@' || final == 'A'):
		t.columns(0, t.param(0, 1), final == 'A')
	}
}

// columns inserts or deletes columns at x in every row of the region (DECIC, DECDC, and SR, SL at the left edge).
func (t *Terminal) columns(x, n int, insert bool) {
	if t.y < t.top || t.y > t.bottom {
		return
	}
	t.pend = false
	for _, r := range t.cur.rows[t.top : t.bottom+1] {
		if insert {
			t.insertCells(r, x, n)
		} else {
			t.deleteCells(r, x, n)
		}
	}
}

// repeat prints the last character, with what joined it, n times more (REP). More than fill the screen change nothing.
func (t *Terminal) repeat(n int) {
	if t.last == 0 {
		return
	}
	text := string(t.appendText(nil, t.cur.rows[t.y].cells[t.lastX]))
	for range min(n, t.cols*t.rows) {
		t.last = 0 // each is a character of its own
		for _, r := range text {
			t.printRune(r)
		}
	}
	t.last = 0
}

func (t *Terminal) setRegion() {
	top := t.param(0, 1) - 1
	bottom := min(t.param(1, t.rows), t.rows) - 1
	if top < bottom {
		t.top, t.bottom = top, bottom
		t.position(0, 0)
	}
}

func (t *Terminal) windowOp() {
	what := t.param(1, 0)
	if what != 0 && what != 2 {
		return
	}
	switch t.param(0, 0) {
	case 22:
		if len(t.titles) < maxTitles {
			t.titles = append(t.titles, t.title)
		}
	case 23:
		if n := len(t.titles); n > 0 {
			t.setTitle(t.titles[n-1])
			t.titles = t.titles[:n-1]
		}
	}
}
