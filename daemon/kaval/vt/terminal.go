package vt

// Terminal is one emulated terminal. See the package comment.
type Terminal struct {
	parser
	interner
	cols, rows int
	main, alt  screen
	cur        *screen
	hist       history

	x, y        int
	pend        bool
	top, bottom int // of the scroll region, both included
	tabs        []bool

	pen       style
	penStale  bool // the two below are not of pen
	penBits   cell
	blankBits cell

	charsets [4]byte
	gl       int
	shift    int  // a single shift: the set of the next character, 0 for none
	last     rune // what was printed last, 0 when something else came since
	lastX    int  // the column it went to

	modes       Modes
	savedModes  map[int]bool
	hidden      bool // the cursor
	cursorStyle int
	title       string
	titles      []string

	out   output
	name  string
	epoch int64
	gen   uint64
}

// New makes a terminal with a blank screen.
func New(o Options) *Terminal {
	if o.Cols == 0 {
		o.Cols = 80
	}
	if o.Rows == 0 {
		o.Rows = 24
	}
	if o.ScrollbackBytes <= 0 {
		o.ScrollbackBytes = DefaultScrollbackBytes
	}
	t := &Terminal{
		cols: min(max(o.Cols, 1), MaxCols),
		rows: min(max(o.Rows, 1), MaxRows),
		name: plain(o.Name, maxTitle),
	}
	t.hist.maxLines = max(o.Scrollback, 0)
	t.hist.maxBytes = o.ScrollbackBytes
	t.hist.restart()
	t.clean()
	return t
}

// clean gives every part but the history and what has been said its first state.
func (t *Terminal) clean() {
	t.interner.reset()
	t.main = screen{rows: newRows(t.cols, t.rows)}
	t.alt = screen{}
	t.cur = &t.main
	t.x, t.y, t.pend = 0, 0, false
	t.top, t.bottom = 0, t.rows-1
	t.tabs = defaultTabs(t.cols)
	t.pen, t.penStale = style{}, true
	t.charsets, t.gl, t.shift, t.last = defaultCharsets, 0, 0, 0
	t.modes = Modes{Autowrap: true, Mouse: MouseNone, AlternateScroll: true}
	t.savedModes = nil
	t.hidden, t.cursorStyle = false, 0
	t.title, t.titles = "", nil
	t.touch(0, t.rows)
}

// reset is RIS: all but the size, and the lines are counted anew.
func (t *Terminal) reset() {
	t.hist.restart()
	t.epoch++
	t.clean()
}

// softReset is DECSTR.
func (t *Terminal) softReset() {
	t.hidden = false
	t.modes.Insert, t.modes.Origin, t.modes.Autowrap = false, false, true
	t.modes.ApplicationCursor, t.modes.ApplicationKeypad = false, false
	t.top, t.bottom = 0, t.rows-1
	t.pen, t.penStale = style{}, true
	t.charsets, t.gl, t.shift = defaultCharsets, 0, 0
	t.cur.saved = savedCursor{}
	t.pend = false
}

func defaultTabs(cols int) []bool {
	tabs := make([]bool, cols)
	for x := 8; x < cols; x += 8 {
		tabs[x] = true
	}
	return tabs
}

// Epoch counts how often the lines were numbered anew: by a change of width or a full reset.
func (t *Terminal) Epoch() int64 { return t.epoch }

// Generation changes with every write and every change of size.
func (t *Terminal) Generation() uint64 { return t.gen }

// RowGeneration is the Generation in which row y of the screen last changed; 0 outside the screen.
func (t *Terminal) RowGeneration(y int) uint64 {
	if y < 0 || y >= t.rows {
		return 0
	}
	return max(t.cur.gen, t.cur.rows[y].gen)
}

// Snapshot tells the state apart from the cells.
func (t *Terminal) Snapshot() Snapshot {
	m := t.modes
	m.KittyFlags = t.cur.kitty.flags
	return Snapshot{
		Cols: t.cols, Rows: t.rows,
		CursorX: t.x, CursorY: t.y, CursorVisible: !t.hidden, CursorStyle: t.cursorStyle, PendingWrap: t.pend,
		Alt: t.cur == &t.alt, Title: t.title, Modes: m,
		HistoryLines: t.hist.len(), Top: t.hist.end(), FirstLine: t.hist.first(),
		Epoch: t.epoch, Generation: t.gen,
	}
}
