package vt

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// saveMagic begins what Save gives; its last digit is the version of the format, line records included.
const saveMagic = "kolu-vt1"

// Save gives the whole state: screens, history with its numbering, modes, what was said and not yet taken, and the sequence or
// character that the output is in the middle of. It is for a process that takes this one's place; [Load] reads it.
func (t *Terminal) Save() []byte {
	head, err := json.Marshal(t.image())
	if err != nil {
		panic(fmt.Sprintf("vt: state does not encode: %v", err)) // it has plain fields only
	}
	b := []byte(saveMagic)
	b = binary.AppendUvarint(b, uint64(len(head)))
	b = append(b, head...)
	b = t.hist.appendRecords(b)
	for _, s := range []*screen{&t.main, &t.alt} {
		rows := history{limit: len(s.rows), maxBytes: maxScreenBytes}
		for _, r := range s.rows {
			rows.push(&t.interner, r)
		}
		b = rows.appendRecords(b)
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// Load makes the terminal that Save was called on. Data that is damaged, or that a later version wrote, gives an error.
func Load(data []byte) (*Terminal, error) {
	if len(data) < len(saveMagic)+4 || string(data[:len(saveMagic)]) != saveMagic {
		return nil, errors.New("load screen: not a screen, or one of another version")
	}
	body, sum := data[:len(data)-4], binary.BigEndian.Uint32(data[len(data)-4:])
	if crc32.ChecksumIEEE(body) != sum {
		return nil, errors.New("load screen: damaged")
	}
	n, rest := uvarint(body[len(saveMagic):])
	var im image
	if err := json.Unmarshal(rest[:n], &im); err != nil {
		return nil, fmt.Errorf("load screen: %w", err)
	}
	if err := im.check(); err != nil {
		return nil, fmt.Errorf("load screen: %w", err)
	}
	t := im.terminal()
	rest = t.hist.readRecords(rest[n:])
	for _, s := range []*screen{&t.main, &t.alt} {
		rows := history{limit: MaxRows, maxBytes: maxScreenBytes}
		rest = rows.readRecords(rest)
		for y := range min(rows.len(), len(s.rows)) {
			s.rows[y] = rows.row(&t.interner, y, t.cols)
		}
	}
	t.touch(0, t.rows)
	return t, nil
}

func (h *history) appendRecords(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(h.n))
	for i := range h.n {
		_, _, all := h.record(i)
		b = append(b, all...)
	}
	return b
}

// readRecords adds the lines that appendRecords wrote and gives what follows them.
func (h *history) readRecords(b []byte) []byte {
	n, b := uvarint(b)
	base := h.base
	for range n {
		size, digits := binary.Uvarint(b[1:])
		end := 1 + digits + int(size)
		h.pushRecord(b[:end])
		b = b[end:]
	}
	h.base = base
	return b
}

// An image is a terminal's state but for its cells.
type image struct {
	Cols, Rows  int
	Name        string
	MaxLines    int
	Limit       int
	MaxBytes    int
	Base, Epoch int64
	Generation  uint64
	X, Y        int
	Pend        bool
	Top, Bottom int
	Tabs        []bool
	Pen         penImage
	Charsets    [4]byte
	GL, Shift   int
	Last        rune
	LastX       int
	Modes       Modes
	SavedModes  map[int]bool `json:",omitempty"`
	Hidden      bool
	CursorStyle int
	Title       string
	Titles      []string `json:",omitempty"`
	Main        screenImage
	Alt         *screenImage `json:",omitempty"`
	Parser      parserImage
	Replies     []byte  `json:",omitempty"`
	Events      []Event `json:",omitempty"`
}

type penImage struct {
	FG, BG, UL uint32
	Attrs      uint16
	URI, ID    string
}

type screenImage struct {
	X, Y       int
	Pend       bool
	Kitty      int
	KittySaved []int `json:",omitempty"`
	Saved      bool
	SX, SY     int
	SPend      bool
	SPen       penImage
	SCharsets  [4]byte
	SGL        int
	SOrigin    bool
}

type parserImage struct {
	State    parseState
	Carry    []byte
	Params   []int
	Colons   uint64
	NParams  int
	Marker   byte
	Inter    [2]byte
	NInter   int
	Str      []byte
	Overflow bool
	LastC2   bool
}

func (t *Terminal) penImage(s style) penImage {
	l := t.links[s.link]
	return penImage{uint32(s.fg), uint32(s.bg), uint32(s.ul), uint16(s.attrs), l.uri, l.id}
}

func (t *Terminal) penOf(p penImage) style {
	return style{colour(p.FG), colour(p.BG), colour(p.UL), t.linkID(link{p.URI, p.ID}), attrs(p.Attrs)}
}

func (t *Terminal) screenImage(s *screen) screenImage {
	c := s.saved
	return screenImage{
		s.x, s.y, s.pend, s.kitty.flags, s.kitty.saved,
		c.valid, c.x, c.y, c.pend, t.penImage(c.pen), c.charsets, c.gl, c.origin,
	}
}

func (t *Terminal) screenOf(im screenImage) screen {
	return screen{
		rows: newRows(t.cols, t.rows), x: im.X, y: im.Y, pend: im.Pend, kitty: kittyStack{im.Kitty, im.KittySaved},
		saved: savedCursor{im.Saved, im.SX, im.SY, im.SPend, t.penOf(im.SPen), im.SCharsets, im.SGL, im.SOrigin},
	}
}

func (t *Terminal) image() image {
	im := image{
		Cols: t.cols, Rows: t.rows, Name: t.name,
		MaxLines: t.hist.maxLines, Limit: t.hist.limit, MaxBytes: t.hist.maxBytes, Base: t.hist.base,
		Epoch: t.epoch, Generation: t.gen,
		X: t.x, Y: t.y, Pend: t.pend, Top: t.top, Bottom: t.bottom, Tabs: t.tabs,
		Pen: t.penImage(t.pen), Charsets: t.charsets, GL: t.gl, Shift: t.shift, Last: t.last, LastX: t.lastX,
		Modes: t.modes, SavedModes: t.savedModes, Hidden: t.hidden, CursorStyle: t.cursorStyle, Title: t.title, Titles: t.titles,
		Main: t.screenImage(&t.main), Replies: t.out.replies, Events: t.out.events,
	}
	if t.cur == &t.alt {
		alt := t.screenImage(&t.alt)
		im.Alt = &alt
	}
	p := &t.parser
	im.Parser = parserImage{
		p.state, p.carry[:p.carried], p.params[:], p.colons, p.nparams, p.marker, p.inter, p.ninter, p.str, p.overflow, p.lastC2,
	}
	return im
}

// check refuses what no terminal can be.
func (im *image) check() error {
	within := func(n, limit int) bool { return n >= 0 && n < limit }
	ok := im.Cols <= MaxCols && im.Rows <= MaxRows &&
		within(im.X, im.Cols) && within(im.Y, im.Rows) && within(im.LastX, im.Cols) &&
		within(im.Top, im.Rows) && within(im.Bottom, im.Rows) && im.Top <= im.Bottom &&
		len(im.Tabs) == im.Cols && within(im.GL, 4) && within(im.Shift, 4) &&
		im.Main.check(im) && (im.Alt == nil || im.Alt.check(im)) &&
		im.Parser.State <= stString && len(im.Parser.Carry) < 4 && len(im.Parser.Params) == maxParams && im.Parser.NParams <= maxParams+1
	if !ok {
		return errors.New("values out of range")
	}
	return nil
}

func (s *screenImage) check(im *image) bool {
	return s.X >= 0 && s.X < im.Cols && s.Y >= 0 && s.Y < im.Rows && s.SX >= 0 && s.SY >= 0 && s.SGL >= 0 && s.SGL < 4
}

func (im *image) terminal() *Terminal {
	t := New(Options{Cols: im.Cols, Rows: im.Rows, Scrollback: im.MaxLines, ScrollbackBytes: im.MaxBytes, Name: im.Name})
	t.hist.limit, t.hist.base = im.Limit, im.Base
	t.epoch, t.gen = im.Epoch, im.Generation
	t.x, t.y, t.pend, t.top, t.bottom, t.tabs = im.X, im.Y, im.Pend, im.Top, im.Bottom, im.Tabs
	t.pen = t.penOf(im.Pen)
	t.charsets, t.gl, t.shift, t.last, t.lastX = im.Charsets, im.GL, im.Shift, im.Last, im.LastX
	t.modes, t.savedModes, t.hidden, t.cursorStyle = im.Modes, im.SavedModes, im.Hidden, im.CursorStyle
	t.title, t.titles = im.Title, im.Titles
	t.main = t.screenOf(im.Main)
	if im.Alt != nil {
		t.alt = t.screenOf(*im.Alt)
		t.cur = &t.alt
	}
	t.out.replies = im.Replies
	for _, e := range im.Events {
		t.emit(e)
	}
	p := im.Parser
	t.parser = parser{
		state: p.State, colons: p.Colons, nparams: p.NParams, marker: p.Marker, inter: p.Inter, ninter: p.NInter,
		str: p.Str, overflow: p.Overflow, lastC2: p.LastC2,
	}
	t.carried = copy(t.carry[:], p.Carry)
	copy(t.params[:], p.Params)
	return t
}
