package vt

import "unicode/utf8"

// A cell is what one column of a row holds: content in the low half, the number of its style in the high half. The zero cell
// is a blank in the default style. Content is a rune, or with clusterBit the number of a cluster.
type cell uint64

const (
	runeMask    = 1<<21 - 1
	clusterBit  = 1 << 31
	wideBit     = 1 << 30 // takes this column and the next
	tailBit     = 1 << 29 // the right half of the wide cell before it
	fillerBit   = 1 << 28 // left empty in the last column, because a wide character went to the next row
	contentMask = 1<<32 - 1
	styleShift  = 32
)

// A row is one line of cells of the terminal's width. From used on all cells are zero.
type row struct {
	cells []cell
	used  int
	cont  bool   // continues the row above it: a soft wrap
	gen   uint64 // of the write that last changed it
}

// fill sets the cells from a up to b.
func (r *row) fill(a, b int, c cell) {
	if c == 0 {
		end := min(b, r.used)
		if a < end {
			clear(r.cells[a:end])
		}
		if b >= r.used && a < r.used {
			r.used = a
		}
		return
	}
	for i := a; i < b; i++ {
		r.cells[i] = c
	}
	r.used = max(r.used, b)
}

// unfill makes an empty last column an ordinary blank, before it goes elsewhere.
func (r *row) unfill() {
	if last := len(r.cells) - 1; r.cells[last]&fillerBit != 0 {
		r.cells[last] &^= contentMask
	}
}

// isBlank reports that a cell shows nothing in the default style.
func (c cell) isBlank() bool { return c == 0 || c == ' ' }

// isEmpty reports that a cell shows no character, whatever its style.
func (c cell) isEmpty() bool {
	v := c & contentMask
	return v == 0 || v == ' ' || v&fillerBit != 0
}

func (c cell) style() uint32 { return uint32(c >> styleShift) }

// trimmed is how many of the row's cells are left without blanks of the default style at the end.
func (r *row) trimmed() int {
	n := r.used
	for n > 0 && r.cells[n-1].isBlank() {
		n--
	}
	return n
}

// A colour is 0 for the default, else a palette number or red, green and blue under a tag.
type colour uint32

const (
	paletteColour = 1 << 24
	rgbColour     = 2 << 24
)

type attrs uint16

const (
	attrBold attrs = 1 << iota
	attrDim
	attrItalic
	attrBlink
	attrInverse
	attrInvisible
	attrStrike
	attrOverline
	attrProtected // DECSCA: kept by selective erase

	underlineShift       = 9
	attrUnderline  attrs = 7 << underlineShift // 0 to 5 as in SGR 4:n
)

// A style is everything about a cell but its character. Link is the number of a hyperlink, 0 for none.
type style struct {
	fg, bg, ul colour
	link       uint32
	attrs      attrs
}

// background is the style of what is erased under s.
func (s style) background() style { return style{bg: s.bg} }

type link struct{ uri, id string }

const (
	maxCluster   = 128 // bytes of one cell's characters
	minInterned  = 4096
	maxLinkURI   = 4096
	maxLinkBytes = 8 << 20 // of all links that are on the screens
)

// An interner gives numbers to styles, clusters and links, so that a cell fits in eight bytes. Numbers are not counted; what no
// cell uses any more is swept when the table has doubled (see Terminal.sweep). A limit that does not grow with what is in use
// would sweep on every new style of a screen that has as many.
type interner struct {
	styles     []style
	styleIDs   map[style]uint32
	styleLimit int
	recent     [64]struct { // by hash: what a map costs is a third of a colourful stream
		style
		id uint32
	}
	clusters   []string // each is of one cell only
	clustLimit int
	links      []link
	linkIDs    map[link]uint32
	linkBytes  int
	linkLimit  int // in bytes
}

func (in *interner) reset() {
	*in = interner{
		styles: []style{{}}, styleIDs: map[style]uint32{{}: 0}, styleLimit: minInterned,
		clustLimit: minInterned,
		links:      []link{{}}, linkIDs: map[link]uint32{{}: 0}, linkLimit: maxLinkBytes / 8,
	}
}

func (in *interner) styleID(s style) uint32 {
	hash := uint32(s.fg)*0x9e3779b1 ^ uint32(s.bg)*0x85ebca6b ^ uint32(s.attrs)*0xc2b2ae35 ^ s.link*0x27d4eb2f
	r := &in.recent[hash>>26]
	if r.style != s {
		r.style, r.id = s, in.findStyle(s)
	}
	return r.id
}

func (in *interner) findStyle(s style) uint32 {
	if id, ok := in.styleIDs[s]; ok {
		return id
	}
	id := uint32(len(in.styles))
	in.styles = append(in.styles, s)
	in.styleIDs[s] = id
	return id
}

// linkID gives 0, no link, for one that is too long, and when those in use are too many.
func (in *interner) linkID(l link) uint32 {
	if id, ok := in.linkIDs[l]; ok {
		return id
	}
	size := len(l.uri) + len(l.id) + 64
	if size > maxLinkURI || in.linkBytes+size > maxLinkBytes {
		return 0
	}
	in.linkBytes += size
	id := uint32(len(in.links))
	in.links = append(in.links, l)
	in.linkIDs[l] = id
	return id
}

func (in *interner) newCluster(s string) uint32 {
	in.clusters = append(in.clusters, s)
	return clusterBit | uint32(len(in.clusters)-1)
}

// appendText appends the characters of a cell; none for the right half of a wide one.
func (in *interner) appendText(b []byte, c cell) []byte {
	v := uint32(c)
	switch {
	case v == 0, v&fillerBit != 0:
		return append(b, ' ')
	case v < utf8.RuneSelf:
		return append(b, byte(v))
	case v&tailBit != 0:
		return b
	case v&clusterBit != 0:
		return append(b, in.clusters[v&runeMask]...)
	}
	return utf8.AppendRune(b, rune(v&runeMask))
}

// firstRune is the character that a cell begins with.
func (in *interner) firstRune(c cell) rune {
	if c&clusterBit != 0 {
		r, _ := utf8.DecodeRuneInString(in.clusters[c&runeMask])
		return r
	}
	return rune(c & runeMask)
}

// full reports that a sweep is due.
func (in *interner) full() bool {
	return len(in.styles) >= in.styleLimit || len(in.clusters) >= in.clustLimit || in.linkBytes >= in.linkLimit
}

// sweep drops every style, cluster and link that no cell of either screen uses. No other cells may be held.
func (t *Terminal) sweep() {
	old := t.interner
	t.interner.reset()
	if len(old.styles) <= 16*minInterned { // a map that has grown to what is needed is worth keeping
		clear(old.styleIDs)
		old.styleIDs[style{}] = 0
		t.styleIDs = old.styleIDs
	}
	move := func(s style) style {
		s.link = t.linkID(old.links[s.link])
		return s
	}
	moved := make([]uint32, len(old.styles)) // number + 1, 0 is not moved yet
	for _, sc := range []*screen{&t.main, &t.alt} {
		for _, r := range sc.rows {
			for i, c := range r.cells[:r.used] {
				if c < 1<<styleShift && c&clusterBit == 0 {
					continue
				}
				id := c.style()
				if moved[id] == 0 {
					moved[id] = t.styleID(move(old.styles[id])) + 1
				}
				v := uint32(c)
				if v&clusterBit != 0 {
					v = v&^(clusterBit|runeMask) | t.newCluster(old.clusters[v&runeMask])
				}
				r.cells[i] = cell(moved[id]-1)<<styleShift | cell(v)
			}
		}
		sc.saved.pen = move(sc.saved.pen)
	}
	t.pen = move(t.pen)
	t.penStale = true
	t.styleLimit = max(minInterned, 2*len(t.styles))
	t.clustLimit = max(minInterned, 2*len(t.clusters))
	t.linkLimit = max(maxLinkBytes/8, 2*t.linkBytes)
}
