// Package vt is a terminal without a window: bytes of programs in, a screen out. It is made for a daemon that keeps
// terminals alive while nobody looks, so it answers device queries by itself, never blocks, never fails, and holds its memory
// within bounds whatever the bytes are. It draws nothing, opens nothing and starts no goroutine.
//
// # Use
//
//	t := vt.New(vt.Options{Cols: 80, Rows: 24, Scrollback: 10_000, Name: "kolu(1.0)"})
//	t.Write(output)          // what the program wrote, cut anywhere
//	reply := t.Drain()       // goes to the program's input, at once and always
//	events := t.Events()     // title, directory, command, bell …
//	snap := t.Render(1_000)  // draws the same screen on a cleared terminal of the same size
//	state := t.Save()        // all of it, for the process that takes this one's place: vt.Load(state)
//
// A Terminal is not safe for concurrent use: its caller holds one lock around every method. No method keeps a slice that it was
// given or hands out memory that it later changes.
//
// # Lines
//
// The history is what scrolled off the top of the main screen, oldest line first, bounded in lines and in bytes. Every row of
// the history and of the main screen has an absolute number that stays when older lines are dropped. A change of width wraps
// all lines anew and renumbers them; it starts a new epoch ([Terminal.Epoch]), as does a full reset.
//
// # Reading the code
//
// parser.go cuts the bytes into characters, controls and sequences; print.go puts characters into cells; csi.go, osc.go and
// dcs.go act on sequences; screen.go moves, erases and scrolls; history.go stores lines compactly; resize.go wraps lines anew; text.go
// and render.go read the screen; save.go carries all of it to another process. Why it is our own is told in docs/adr/0001-screen.md.
package vt

// The bounds of a terminal's size. [Terminal.Resize] and [New] clamp to them.
const (
	MaxCols = 1000
	MaxRows = 500
)

// DefaultScrollbackBytes bounds the history where [Options.ScrollbackBytes] is 0.
const DefaultScrollbackBytes = 16 << 20

// Options say what terminal is wanted. The zero value of a field takes its default, except for Scrollback.
type Options struct {
	Cols, Rows int // 80 and 24 where 0
	// Scrollback is the most lines of history; 0 keeps none.
	Scrollback int
	// ScrollbackBytes is the most memory for the history's lines, whatever their number.
	ScrollbackBytes int
	// Name is the answer to XTVERSION, such as "kolu(1.0)".
	Name string
}

// Snapshot is a terminal's state apart from its cells.
type Snapshot struct {
	Cols, Rows       int
	CursorX, CursorY int // from 0
	CursorVisible    bool
	CursorStyle      int // as in DECSCUSR, 0 for the default
	// PendingWrap reports that the cursor is in the last column and the next character goes to the next row.
	PendingWrap bool
	Alt         bool // the alternate screen is shown
	Title       string
	Modes       Modes
	// HistoryLines is how many lines are above the main screen.
	HistoryLines int
	// Top is the absolute number of the main screen's first row; FirstLine that of the oldest line kept.
	Top, FirstLine int64
	Epoch          int64
	Generation     uint64
}

// Mouse says which mouse events a program asked for.
type Mouse string

// The kinds of mouse tracking.
const (
	MouseNone   Mouse = "none"
	MouseX10    Mouse = "x10"
	MouseNormal Mouse = "vt200"
	MouseDrag   Mouse = "drag"
	MouseAny    Mouse = "any"
)

// Modes are the modes a program set that change what must be sent to it or how it is drawn.
type Modes struct {
	ApplicationCursor bool
	ApplicationKeypad bool
	BracketedPaste    bool
	Insert            bool
	Origin            bool
	Autowrap          bool
	ReverseWrap       bool // mode 45: a backspace goes back over a soft wrap
	Newline           bool // LNM: line feed also returns, Enter sends both
	ReverseScreen     bool
	FocusReports      bool
	AlternateScroll   bool
	Synchronized      bool // mode 2026: the program is in the middle of a frame
	ColourReports     bool // mode 2031
	CursorBlink       bool
	Mouse             Mouse
	MouseEncoding     int // 0, 1005, 1006, 1015 or 1016
	ModifyOtherKeys   int // 0, 1 or 2
	KittyFlags        int // kitty keyboard flags in force
}

// EventKind tells what a program said besides drawing.
type EventKind string

// The events of a program.
const (
	EventTitle         EventKind = "title"          // OSC 0 and 2: Text
	EventCWD           EventKind = "cwd"            // OSC 7: Text is the absolute path, Host the URL's host
	EventCommand       EventKind = "command"        // OSC 633;E: Text is the command line
	EventPrompt        EventKind = "prompt"         // OSC 133;A and 633;A: the shell shows its prompt
	EventCommandStart  EventKind = "command-start"  // OSC 133;C and 633;C: output of a command begins
	EventCommandEnd    EventKind = "command-end"    // OSC 133;D and 633;D: Exit, if the shell said it
	EventBell          EventKind = "bell"           // BEL
	EventClipboard     EventKind = "clipboard"      // OSC 52: Text is the decoded content, Target as given
	EventNotify        EventKind = "notify"         // OSC 9 and 777: Text, with 777 also Title
	EventProgress      EventKind = "progress"       // OSC 9;4: Text is "state;percent" as given
	EventProgramStatus EventKind = "program-status" // OSC 7501: Status
)

// Event is one thing that a program said besides drawing. Text and Title are valid UTF-8 without control characters, except for
// the Text of a clipboard, which is as the program gave it.
type Event struct {
	Kind   EventKind
	Text   string
	Title  string
	Host   string
	Target string
	Exit   *int
	Status *ProgramStatus
}

// ProgramStatus is one OSC 7501 report: what the program says of itself. State "clear" takes the report with this ID back.
type ProgramStatus struct {
	State   string // idle, working, blocked, done, error, clear
	App     string
	Kind    string // of blocked: permission, question
	Message string // decoded
	ID      string // of a child record; empty is the program itself
}

// ExtentKind says which rows a text read takes.
type ExtentKind int

// The extents. All of them read the active buffer: the alternate screen while it is shown, else history and main screen.
const (
	ExtentViewport ExtentKind = iota // the screen
	ExtentTail                       // the last Lines rows of the buffer
	ExtentFull                       // the whole buffer
	ExtentRange                      // absolute rows Start up to, not including, End; clamped to what is kept
)

// Extent is a part of the text.
type Extent struct {
	Kind       ExtentKind
	Lines      int
	Start, End int64
	// Trim drops blank rows at the end of the buffer before anything is counted.
	Trim bool
}
