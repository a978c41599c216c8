package vt

func (t *Terminal) setANSIMode(m int, on bool) {
	switch m {
	case 4:
		t.modes.Insert = on
	case 20:
		t.modes.Newline = on
	}
}

// flag is the field of a private mode that is no more than one; nil for others.
func (t *Terminal) flag(m int) *bool {
	switch m {
	case 1:
		return &t.modes.ApplicationCursor
	case 5:
		return &t.modes.ReverseScreen
	case 6:
		return &t.modes.Origin
	case 7:
		return &t.modes.Autowrap
	case 12:
		return &t.modes.CursorBlink
	case 45:
		return &t.modes.ReverseWrap
	case 66:
		return &t.modes.ApplicationKeypad
	case 1004:
		return &t.modes.FocusReports
	case 1007:
		return &t.modes.AlternateScroll
	case 2004:
		return &t.modes.BracketedPaste
	case 2026:
		return &t.modes.Synchronized
	case 2031:
		return &t.modes.ColourReports
	}
	return nil
}

func mouseOf(m int) Mouse {
	switch m {
	case 9:
		return MouseX10
	case 1000:
		return MouseNormal
	case 1002:
		return MouseDrag
	case 1003:
		return MouseAny
	}
	return ""
}

func (t *Terminal) setMode(m int, on bool) {
	if f := t.flag(m); f != nil {
		*f = on
		switch {
		case m == 6:
			t.position(0, 0)
		case m == 7 && !on:
			t.pend = false
		}
		return
	}
	if mouse := mouseOf(m); mouse != "" {
		if !on {
			mouse = MouseNone
		}
		t.modes.Mouse = mouse
		return
	}
	switch m {
	case 25:
		t.hidden = !on
	case 1005, 1006, 1015, 1016:
		if on {
			t.modes.MouseEncoding = m
		} else if t.modes.MouseEncoding == m {
			t.modes.MouseEncoding = 0
		}
	case 47, 1047:
		t.setAlt(on)
	case 1048:
		if on {
			t.saveCursor()
		} else {
			t.restoreCursor()
		}
	case 1049:
		if on && t.cur == &t.main {
			t.saveCursor()
			t.showAlt()
		} else if !on {
			t.showMain()
			t.restoreCursor()
		}
	}
}

func (t *Terminal) setAlt(on bool) {
	if on {
		t.showAlt()
	} else {
		t.showMain()
	}
}

// mode reports whether a private mode is set, and whether it is known at all.
func (t *Terminal) mode(m int) (on, known bool) {
	if f := t.flag(m); f != nil {
		return *f, true
	}
	if mouse := mouseOf(m); mouse != "" {
		return t.modes.Mouse == mouse, true
	}
	switch m {
	case 25:
		return !t.hidden, true
	case 1005, 1006, 1015, 1016:
		return t.modes.MouseEncoding == m, true
	case 47, 1047, 1049:
		return t.cur == &t.alt, true
	case 1048:
		return t.cur.saved.valid, true
	}
	return false, false
}

// modeReport answers DECRQM.
func (t *Terminal) modeReport() {
	m := t.param(0, 0)
	on, known := t.mode(m)
	prefix := "\x1b[?"
	switch t.marker {
	case 0:
		prefix = "\x1b["
		known = m == 4 || m == 20
		on = m == 4 && t.modes.Insert || m == 20 && t.modes.Newline
	case '?':
	default:
		return
	}
	state := 0
	switch {
	case t.marker == '?' && m == 2027: // clusters are always one
		state = 3
	case known && on:
		state = 1
	case known:
		state = 2
	}
	t.reply(prefix + itoa(m) + ";" + itoa(state) + "$y")
}

// A kittyStack is the kitty keyboard protocol's state of one screen.
type kittyStack struct {
	flags int
	saved []int
}

const (
	maxKitty   = 16
	kittyFlags = 31
)

func (k *kittyStack) push(flags int) {
	if len(k.saved) == maxKitty {
		k.saved = k.saved[:copy(k.saved, k.saved[1:])]
	}
	k.saved = append(k.saved, k.flags)
	k.flags = flags & kittyFlags
}

func (k *kittyStack) pop(n int) {
	for ; n > 0; n-- {
		if len(k.saved) == 0 {
			k.flags = 0
			return
		}
		k.flags = k.saved[len(k.saved)-1]
		k.saved = k.saved[:len(k.saved)-1]
	}
}

func (k *kittyStack) set(flags, how int) {
	flags &= kittyFlags
	switch how {
	case 1:
		k.flags = flags
	case 2:
		k.flags |= flags
	case 3:
		k.flags &^= flags
	}
}

// saveMode and restoreMode are XTSAVE and XTRESTORE, of known modes only.
func (t *Terminal) saveMode(m int) {
	if on, known := t.mode(m); known {
		if t.savedModes == nil {
			t.savedModes = map[int]bool{}
		}
		t.savedModes[m] = on
	}
}

func (t *Terminal) restoreMode(m int) {
	if on, ok := t.savedModes[m]; ok {
		t.setMode(m, on)
	}
}
