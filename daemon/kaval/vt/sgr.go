package vt

// sgr sets the pen by the parameters.
func (t *Terminal) sgr() {
	t.penStale = true
	if t.nparams == 0 {
		t.pen = style{link: t.pen.link, attrs: t.pen.attrs & attrProtected}
		return
	}
	for i := 0; i < t.nparams; {
		subs := 1 // parameters after colons
		for i+subs < t.nparams && t.colons>>(i+subs)&1 != 0 {
			subs++
		}
		switch p := t.params[i]; p {
		case 38, 48, 58:
			c, n, ok := t.sgrColour(i, subs)
			if ok {
				t.setColour(p, c)
			}
			i += n
			continue
		case 4:
			n := 1
			if subs > 1 {
				n = t.params[i+1]
			}
			if n <= 5 {
				t.setUnderline(n)
			}
		default:
			if subs == 1 {
				t.sgrSimple(p)
			}
		}
		i += subs
	}
}

func (t *Terminal) setUnderline(n int) {
	t.pen.attrs = t.pen.attrs&^attrUnderline | attrs(n)<<underlineShift
}

func (t *Terminal) setColour(p int, c colour) {
	switch p {
	case 38:
		t.pen.fg = c
	case 48:
		t.pen.bg = c
	case 58:
		t.pen.ul = c
	}
}

// sgrColour reads the colour after parameter i, which is followed by subs-1 parameters after colons, and says how many
// parameters it took.
func (t *Terminal) sgrColour(i, subs int) (c colour, n int, ok bool) {
	if subs > 1 {
		c, _, ok = parseColour(t.params[i+1:i+subs], true)
		return c, subs, ok
	}
	c, n, ok = parseColour(t.params[i+1:t.nparams], false)
	return c, n + 1, ok
}

// parseColour reads "5 n" or "2 r g b"; after colons a colour space may stand before r.
func parseColour(p []int, colons bool) (c colour, n int, ok bool) {
	if len(p) == 0 {
		return 0, 0, false
	}
	switch p[0] {
	case 5:
		if len(p) < 2 {
			return 0, len(p), false
		}
		return paletteColour | colour(p[1]&0xff), 2, p[1] <= 255
	case 2:
		rgb := p[1:]
		if colons && len(rgb) > 3 {
			rgb = rgb[1:]
		}
		if len(rgb) < 3 {
			return 0, len(p), false
		}
		r, g, b := rgb[0], rgb[1], rgb[2]
		return rgbColour | colour(r&0xff)<<16 | colour(g&0xff)<<8 | colour(b&0xff), 4, r <= 255 && g <= 255 && b <= 255
	}
	return 0, 1, false
}

// sgrSimple does the parameters that stand alone.
func (t *Terminal) sgrSimple(p int) {
	s := &t.pen
	switch {
	case p == 0:
		*s = style{link: s.link, attrs: s.attrs & attrProtected}
	case p >= 30 && p <= 37:
		s.fg = paletteColour | colour(p-30)
	case p >= 40 && p <= 47:
		s.bg = paletteColour | colour(p-40)
	case p >= 90 && p <= 97:
		s.fg = paletteColour | colour(p-82)
	case p >= 100 && p <= 107:
		s.bg = paletteColour | colour(p-92)
	case p == 39:
		s.fg = 0
	case p == 49:
		s.bg = 0
	case p == 59:
		s.ul = 0
	case p == 21:
		t.setUnderline(2)
	case p == 24:
		t.setUnderline(0)
	case p == 22:
		s.attrs &^= attrBold | attrDim
	default:
		if on := sgrOn(p); on != 0 {
			s.attrs |= on
		} else {
			s.attrs &^= sgrOff(p)
		}
	}
}

func sgrOn(p int) attrs {
	switch p {
	case 1:
		return attrBold
	case 2:
		return attrDim
	case 3:
		return attrItalic
	case 5, 6:
		return attrBlink
	case 7:
		return attrInverse
	case 8:
		return attrInvisible
	case 9:
		return attrStrike
	case 53:
		return attrOverline
	}
	return 0
}

func sgrOff(p int) attrs {
	switch p {
	case 23:
		return attrItalic
	case 25:
		return attrBlink
	case 27:
		return attrInverse
	case 28:
		return attrInvisible
	case 29:
		return attrStrike
	case 55:
		return attrOverline
	}
	return 0
}

// appendSGR appends the parameters that make s out of the default, each with a semicolon in front.
func (s style) appendSGR(b []byte) []byte {
	if s == (style{}) {
		return b
	}
	for p, bit := range [...]attrs{1: attrBold, 2: attrDim, 3: attrItalic, 5: attrBlink, 7: attrInverse, 8: attrInvisible, 9: attrStrike} {
		if s.attrs&bit != 0 {
			b = append(b, ';', byte('0'+p))
		}
	}
	switch u := s.attrs & attrUnderline >> underlineShift; u {
	case 0:
	case 1:
		b = append(b, ";4"...)
	default:
		b = append(b, ";4:"...)
		b = append(b, byte('0'+u))
	}
	if s.attrs&attrOverline != 0 {
		b = append(b, ";53"...)
	}
	b = appendColour(b, s.fg, 30)
	b = appendColour(b, s.bg, 40)
	return appendColour(b, s.ul, 50)
}

// appendColour appends the parameters of a colour; base is 30, 40 or 50.
func appendColour(b []byte, c colour, base int) []byte {
	n := int(c & 0xff)
	switch {
	case c == 0:
		return b
	case c&rgbColour != 0:
		b = appendInt(append(b, ';'), base+8)
		b = append(b, ";2;"...)
		b = appendInt(b, int(c>>16&0xff))
		b = appendInt(append(b, ';'), int(c>>8&0xff))
		return appendInt(append(b, ';'), n)
	case base == 50 || n > 15:
		b = appendInt(append(b, ';'), base+8)
		b = append(b, ";5;"...)
		return appendInt(b, n)
	case n < 8:
		return appendInt(append(b, ';'), base+n)
	}
	return appendInt(append(b, ';'), base+52+n)
}
