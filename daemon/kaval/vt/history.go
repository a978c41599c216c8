package vt

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// A history holds the lines above the screen as bytes: the text in UTF-8, with marks between where the style changes. A line
// stands for itself; it refers to no table of the terminal's. Lines lie one after another in pages, and a ring of references
// finds them, so that dropping the oldest and adding one costs no allocation.
type history struct {
	refs     []lineRef // a ring
	head, n  int
	pages    []page
	firstSeq uint32 // number of pages[0]
	spare    []byte // the buffer of a page that was dropped
	base     int64  // absolute number of the oldest line
	bytes    int
	maxLines int
	// limit is maxLines, or more after a change to a smaller size: what the lines became and what left the screen is kept, for
	// when it is undone.
	limit    int
	maxBytes int
	scratch  []byte
}

type page struct{ buf []byte }

type lineRef struct{ page, off uint32 }

const (
	minPage = 1 << 10
	maxPage = 64 << 10

	lineCont  = 1 // the first byte of a line: it continues the one above
	linePlain = 2 // ASCII in the default style: no marks

	// Marks between the characters. Characters of cells are never controls.
	markStyle  = 0
	markFiller = 1
	markNarrow = 2 // a cluster of one column: length, bytes
	markWide   = 3 // a cluster of two
	markBlanks = 4 // count
	markRGB    = 5 // a style that is two colours of 24 bits: six bytes
)

// What follows a markStyle.
const (
	styleFG = 1 << iota
	styleBG
	styleUL
	styleAttrs
	styleLink     // address and id
	styleSameLink // as the last one of the line
)

func (h *history) len() int     { return h.n }
func (h *history) first() int64 { return h.base }
func (h *history) end() int64   { return h.base + int64(h.n) }

// clear drops all lines; the numbering goes on.
func (h *history) clear() {
	*h = history{base: h.end(), maxLines: h.maxLines, limit: h.maxLines, maxBytes: h.maxBytes}
}

// restart drops all lines and numbers from 0 again.
func (h *history) restart() {
	*h = history{maxLines: h.maxLines, limit: h.maxLines, maxBytes: h.maxBytes}
}

// push adds a row as the newest line.
func (h *history) push(in *interner, r *row) {
	h.pushCells(in, r.cells[:r.trimmed()], r.cont)
}

func (h *history) pushCells(in *interner, cells []cell, cont bool) {
	if h.limit == 0 {
		h.base++
		return
	}
	var all cell
	for _, c := range cells {
		all |= c
	}
	flags := byte(0)
	if cont {
		flags = lineCont
	}
	if all < utf8.RuneSelf {
		b := h.room(len(cells) + 4)
		b = append(b, flags|linePlain)
		b = binary.AppendUvarint(b, uint64(len(cells)))
		n := len(b)
		b = b[:n+len(cells)]
		text := b[n:]
		for i, c := range cells {
			if c == 0 {
				c = ' '
			}
			text[i] = byte(c)
		}
		h.add(b)
		return
	}
	h.scratch = in.encode(h.scratch[:0], cells)
	b := h.room(len(h.scratch) + 6)
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(len(h.scratch)))
	h.add(append(b, h.scratch...))
	if cap(h.scratch) > maxPage {
		h.scratch = nil
	}
}

// pushRecord adds a line as another history has it.
func (h *history) pushRecord(record []byte) {
	h.add(append(h.room(len(record)), record...))
}

// room gives the last page's buffer with room for n bytes more, in a new page if need be.
func (h *history) room(n int) []byte {
	if last := len(h.pages) - 1; last >= 0 {
		if b := h.pages[last].buf; cap(b)-len(b) >= n {
			return b
		}
	}
	buf := h.spare[:0]
	h.spare = nil
	if cap(buf) < n {
		size := min(max(h.bytes/8, minPage), maxPage)
		buf = make([]byte, 0, max(n, size))
	}
	h.pages = append(h.pages, page{buf})
	h.bytes += cap(buf)
	return buf
}

// add takes the last page's buffer with one more line at its end, and drops the oldest lines as the bounds ask.
func (h *history) add(buf []byte) {
	last := len(h.pages) - 1
	off := len(h.pages[last].buf)
	h.pages[last].buf = buf
	if h.n == len(h.refs) {
		h.growRefs()
	}
	h.refs[h.index(h.n)] = lineRef{h.firstSeq + uint32(last), uint32(off)}
	h.n++
	h.trim()
}

// allow makes room for n rows that leave a screen which becomes smaller.
func (h *history) allow(n int) {
	if h.maxLines > 0 {
		h.limit = max(h.limit, min(h.n+n, h.maxLines+MaxRows))
	}
}

func (h *history) trim() {
	for h.n > 0 && (h.n > h.limit || h.bytes+8*len(h.refs) > h.maxBytes) {
		h.dropOldest()
	}
}

func (h *history) growRefs() {
	size := max(min(2*len(h.refs), h.limit), len(h.refs), 63) + 1 // one line more than the limit, until the oldest is dropped
	refs := make([]lineRef, size)
	for i := range h.n {
		refs[i] = h.refs[h.index(i)]
	}
	h.refs, h.head = refs, 0
}

func (h *history) index(i int) int {
	if i += h.head; i >= len(h.refs) {
		i -= len(h.refs)
	}
	return i
}

func (h *history) dropOldest() {
	h.head = h.index(1)
	h.n--
	h.base++
	keep := h.firstSeq + uint32(len(h.pages)) // no line left: no page
	if h.n > 0 {
		keep = h.refs[h.head].page
	}
	for h.firstSeq != keep {
		p := h.pages[0].buf
		h.bytes -= cap(p)
		if cap(p) <= maxPage {
			h.spare = p
		}
		h.pages[0].buf = nil
		h.pages = h.pages[1:]
		h.firstSeq++
	}
}

// truncate drops the newest lines until n are left.
func (h *history) truncate(n int) {
	for h.n > n {
		ref := h.refs[h.index(h.n-1)]
		h.n--
		for int(ref.page-h.firstSeq) < len(h.pages)-1 {
			last := len(h.pages) - 1
			h.bytes -= cap(h.pages[last].buf)
			h.pages = h.pages[:last]
		}
		p := &h.pages[len(h.pages)-1]
		p.buf = p.buf[:ref.off]
	}
}

// record is line i as it is stored: its first byte, its text and marks, and all of it.
func (h *history) record(i int) (flags byte, data, all []byte) {
	ref := h.refs[h.index(i)]
	b := h.pages[ref.page-h.firstSeq].buf[ref.off:]
	n, size := binary.Uvarint(b[1:])
	end := 1 + size + int(n)
	return b[0], b[1+size : end], b[:end]
}

func (h *history) cont(i int) bool {
	flags, _, _ := h.record(i)
	return flags&lineCont != 0
}

// decode appends the cells of line i.
func (h *history) decode(in *interner, i int, cells []cell) []cell {
	flags, data, _ := h.record(i)
	if flags&linePlain != 0 {
		for _, b := range data {
			cells = append(cells, cell(b))
		}
		return cells
	}
	return in.decode(cells, data)
}

// row makes a row of the given width out of line i. What does not fit is cut: a build with other widths may have written it.
func (h *history) row(in *interner, i, cols int) *row {
	r := &row{cells: make([]cell, cols), cont: h.cont(i)}
	r.used = min(len(h.decode(in, i, r.cells[:0])), cols)
	if r.used == cols && r.cells[cols-1]&wideBit != 0 {
		r.cells[cols-1] &^= contentMask
	}
	return r
}

// text appends the characters of line i.
func (h *history) text(b []byte, i int) []byte {
	flags, data, _ := h.record(i)
	if flags&linePlain != 0 {
		return append(b, data...)
	}
	for len(data) > 0 {
		switch c := data[0]; c {
		case markStyle:
			_, _, data = decodeStyle(data[1:], link{})
		case markRGB:
			data = data[7:]
		case markFiller:
			data = data[1:]
			b = append(b, ' ')
		case markBlanks:
			var n uint64
			n, data = uvarint(data[1:])
			b = append(b, bytes.Repeat([]byte{' '}, int(n))...)
		case markNarrow, markWide:
			var s []byte
			s, data = lengthed(data[1:])
			b = append(b, s...)
		default:
			b = append(b, c)
			data = data[1:]
		}
	}
	return b
}

// encode appends cells as text and marks.
func (in *interner) encode(b []byte, cells []cell) []byte {
	var id, lastLink uint32
	for i := 0; i < len(cells); {
		c := cells[i]
		if s := c.style(); s != id {
			id = s
			b = in.encodeStyle(b, in.styles[s], lastLink)
			if l := in.styles[s].link; l != 0 {
				lastLink = l
			}
		}
		v := uint32(c)
		switch {
		case v == 0 || v == ' ':
			n := 1
			for i+n < len(cells) && (cells[i+n] == c || cells[i+n] == c&^contentMask|' ' || cells[i+n] == c&^contentMask) {
				n++
			}
			if n > 3 {
				b = binary.AppendUvarint(append(b, markBlanks), uint64(n))
			} else {
				b = append(b, "   "[:n]...)
			}
			i += n
			continue
		case v&tailBit != 0:
		case v&fillerBit != 0:
			b = append(b, markFiller)
		case v&clusterBit != 0:
			mark := byte(markNarrow)
			if v&wideBit != 0 {
				mark = markWide
			}
			b = appendLengthed(append(b, mark), in.clusters[v&runeMask])
		default:
			b = utf8.AppendRune(b, rune(v&runeMask))
		}
		i++
	}
	return b
}

// decode appends the cells that encode made data of.
func (in *interner) decode(cells []cell, data []byte) []cell {
	var bits cell
	var last link
	for len(data) > 0 {
		switch c := data[0]; {
		case c == markStyle:
			var s style
			var l link
			s, l, data = decodeStyle(data[1:], last)
			if l != (link{}) {
				last = l
				s.link = in.linkID(l)
			}
			bits = cell(in.styleID(s)) << styleShift
		case c == markRGB:
			s := style{fg: rgb(data[1:]), bg: rgb(data[4:])}
			data = data[7:]
			bits = cell(in.styleID(s)) << styleShift
		case c == markFiller:
			data = data[1:]
			cells = append(cells, bits|fillerBit)
		case c == markBlanks:
			var n uint64
			n, data = uvarint(data[1:])
			for range n {
				cells = append(cells, bits)
			}
		case c == markNarrow || c == markWide:
			var s []byte
			s, data = lengthed(data[1:])
			v := cell(in.newCluster(string(s)))
			if c == markWide {
				cells = append(cells, bits|v|wideBit, bits|tailBit)
			} else {
				cells = append(cells, bits|v)
			}
		case c < utf8.RuneSelf:
			data = data[1:]
			cells = append(cells, bits|cell(c))
		default:
			r, n := utf8.DecodeRune(data)
			data = data[n:]
			if propsOf(r)&widthMask == 2 {
				cells = append(cells, bits|cell(r)|wideBit, bits|tailBit)
			} else {
				cells = append(cells, bits|cell(r))
			}
		}
	}
	return cells
}

func rgb(b []byte) colour { return rgbColour | colour(b[0])<<16 | colour(b[1])<<8 | colour(b[2]) }

// encodeStyle appends a mark with the style that begins there.
func (in *interner) encodeStyle(b []byte, s style, lastLink uint32) []byte {
	if s.fg&s.bg&rgbColour != 0 && s == (style{fg: s.fg, bg: s.bg}) {
		return append(b, markRGB, byte(s.fg>>16), byte(s.fg>>8), byte(s.fg), byte(s.bg>>16), byte(s.bg>>8), byte(s.bg))
	}
	at := len(b) + 1
	b = append(b, markStyle, 0)
	var mask byte
	put := func(bit byte, v uint32) {
		if v != 0 {
			mask |= bit
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	put(styleFG, uint32(s.fg))
	put(styleBG, uint32(s.bg))
	put(styleUL, uint32(s.ul))
	put(styleAttrs, uint32(s.attrs))
	switch {
	case s.link == 0:
	case s.link == lastLink:
		mask |= styleSameLink
	default:
		mask |= styleLink
		b = appendLengthed(b, in.links[s.link].uri)
		b = appendLengthed(b, in.links[s.link].id)
	}
	b[at] = mask
	return b
}

// decodeStyle reads what follows a markStyle: a style without its link, and the link.
func decodeStyle(b []byte, last link) (s style, l link, rest []byte) {
	mask := b[0]
	b = b[1:]
	get := func(bit byte) (v uint64) {
		if mask&bit != 0 {
			v, b = uvarint(b)
		}
		return v
	}
	s.fg = colour(get(styleFG))
	s.bg = colour(get(styleBG))
	s.ul = colour(get(styleUL))
	s.attrs = attrs(get(styleAttrs))
	switch {
	case mask&styleSameLink != 0:
		l = last
	case mask&styleLink != 0:
		var uri, id []byte
		uri, b = lengthed(b)
		id, b = lengthed(b)
		l = link{string(uri), string(id)}
	}
	return s, l, b
}

func uvarint(b []byte) (uint64, []byte) {
	v, n := binary.Uvarint(b)
	return v, b[n:]
}

func appendLengthed(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func lengthed(b []byte) (s, rest []byte) {
	n, b := uvarint(b)
	return b[:n], b[n:]
}
