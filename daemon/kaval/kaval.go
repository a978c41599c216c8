// Package kaval is the word of the PTY daemon: what a kaval offers, and nothing of how.
//
// A kaval owns the terminals of one machine: it starts their programs, mirrors their screens, and outlives
// every client. Package ptyhost does the work, kavalrpc carries it over HTTP, kavaltest proves any [Host].
// Start reading at [Host].
//
// # Offsets
//
// Every output byte of a terminal has an offset: the count of bytes that its program wrote before it since it
// was spawned. Attach, Wait and Screen name offsets, so a client that lost its line says what it has and gets the
// rest, or a fresh snapshot when the rest is gone.
package kaval

import (
	"context"
	"iter"
	"time"
)

// Contract is the version of this contract, "major.minor". A reader takes the same major and any minor that is not
// older than its own; see [Compatible].
const Contract = "1.0"

// Limits of the contract, the same on every way of reaching a Host.
const (
	DefaultCols = 80
	DefaultRows = 24
	MaxCols     = 1000
	MaxRows     = 500
	// MinCols and MinRows are the floor of a grid: a smaller size is raised to them, so that a stray client with a
	// window of two cells cannot ruin what runs in a terminal. Snapshot and Resized say the size that was set.
	MinCols         = 10
	MinRows         = 2
	DefaultTerm     = "xterm-256color"
	ScrollbackLines = 10_000
	// SnapshotLines is how much history, in lines, an attach snapshot carries above the screen.
	SnapshotLines = 1_000
	// MaxInput is the most bytes one Write takes.
	MaxInput = 8 << 20
	// MaxWaitMS bounds every duration of a wait (the field's tools share this bound of a 32 bit timer).
	MaxWaitMS = 1<<31 - 1
	// MatchWindow is how much trailing output, in bytes, a match may span.
	MatchWindow = 64 << 10
	// KillDeadline is how long Kill waits for the processes of a terminal to end.
	KillDeadline = 8 * time.Second
	// WriteDeadline is how long a Write may wait for a program that does not read.
	WriteDeadline = 8 * time.Second
	// Tombstones is how many ended terminals a Host remembers, so that a late reader still learns the exit code.
	Tombstones = 1024
)

// TerminalID names a terminal for its whole life. It is opaque; hosts mint UUIDs.
type TerminalID string

// Short is the first eight characters, as people type it.
func (id TerminalID) Short() string {
	if len(id) <= 8 {
		return string(id)
	}
	return string(id[:8])
}

// Size is a grid in cells. The zero Size means "as it is" or "the default".
type Size struct {
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// Terminal is one live terminal as the inventory shows it.
type Terminal struct {
	ID  TerminalID `json:"id"`
	PID int        `json:"pid"` // of the program at the terminal's root
	CWD string     `json:"cwd"` // the shell's last word (OSC 7), else where the program runs
	// LastActivity is when the last output byte came, or the spawn: milliseconds since 1970 by the host's clock.
	LastActivity int64 `json:"lastActivity"`
	// IdleMS is how long ago that was when this record was made, so that no two clocks are compared.
	IdleMS            int64  `json:"idleMs"`
	Title             string `json:"title,omitempty"`
	ForegroundProcess string `json:"foregroundProcess,omitempty"`
	ForegroundPID     int    `json:"foregroundPid,omitempty"`
	// CommandRooted reports that the program at the root is a command rather than a shell.
	CommandRooted bool `json:"commandRooted,omitempty"`
	// LastCommand is the command line the shell ran last (OSC 633;E), or the spawn's argv, shell-quoted.
	LastCommand string         `json:"lastCommand,omitempty"`
	Status      *ProgramStatus `json:"programStatus,omitempty"`
	Cols        int            `json:"cols"`
	Rows        int            `json:"rows"`
	StartedAt   int64          `json:"startedAt"` // milliseconds since 1970 by the host's clock
	// Output is the offset after the last output byte.
	Output int64 `json:"output"`
}

// ProgramStatus is what the program in the foreground says of itself (OSC 7501, the program status protocol):
// its own word, kept until it says something else, ends, or the shell shows its prompt again.
type ProgramStatus struct {
	State   string `json:"state"` // idle, working, blocked, done, error
	App     string `json:"app,omitempty"`
	Kind    string `json:"kind,omitempty"` // of blocked: permission, question
	Message string `json:"message,omitempty"`
	At      int64  `json:"at"` // milliseconds since 1970 by the host's clock
}

// Info is what a spawner must know of the host.
type Info struct {
	Shell    string `json:"shell"` // the user's login shell
	Home     string `json:"home"`
	User     string `json:"user"`
	Path     string `json:"path"` // the daemon's PATH; never empty
	OS       string `json:"os"`   // as GOOS
	Arch     string `json:"arch"` // as GOARCH
	Socket   string `json:"socket"`
	ToolsDir string `json:"toolsDir"` // the directory that the PATH of every terminal begins with
}

// SpawnRequest asks for a terminal.
type SpawnRequest struct {
	// ID is the id to use; empty lets the host mint one. A live id is refused with ErrExists.
	ID TerminalID `json:"id,omitempty"`
	// Argv is the program and its arguments; empty means the user's shell.
	Argv          []string `json:"argv,omitempty"`
	CommandRooted bool     `json:"commandRooted,omitempty"`
	// CWD must exist on the host; empty means the home directory.
	CWD string `json:"cwd,omitempty"`
	// Env is the whole environment, not an addition. Nil means that the host composes one from its own by
	// [CleanEnv]. In every case the host then stamps KAVAL_SOCKET, KAVAL_TERMINAL_ID, PADI_SOCKET (when it
	// belongs to a padi) and puts its tools directory in front of PATH.
	Env map[string]string `json:"env,omitempty"`
	// InitFiles are written 0600 into a private directory before the program starts and removed when it ends;
	// "{dir}" in Argv and in Env values stands for that directory.
	InitFiles []InitFile `json:"initFiles,omitempty"`
	Size      Size       `json:"size,omitzero"`
}

// InitFile is one file of a spawn. Name is relative and stays inside the private directory.
type InitFile struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Input is bytes for the program, exactly as they are.
type Input struct {
	Data []byte `json:"data"`
}

// Extent says which part of a terminal's text is asked for.
type Extent string

// The extents. Tail takes the last Lines lines of the buffer, blank rows included.
const (
	Full     Extent = "full"
	Viewport Extent = "viewport"
	Tail     Extent = "tail"
)

// ScreenRequest asks for text or for bytes that draw it.
type ScreenRequest struct {
	Extent Extent `json:"extent,omitempty"` // empty means Viewport
	Lines  int    `json:"lines,omitempty"`  // for Tail, at least 0
	// Trim drops blank rows at the end before anything is counted.
	Trim bool `json:"trim,omitempty"`
	// ANSI asks for a rendering with colours that replays to the same screen, rather than plain text.
	ANSI bool `json:"ansi,omitempty"`
}

// Screen is what a terminal shows. Text has one line a row, joined by newlines, without one at the end.
type Screen struct {
	Text          string `json:"text"`
	Cols          int    `json:"cols"`
	Rows          int    `json:"rows"`
	CursorX       int    `json:"cursorX"`
	CursorY       int    `json:"cursorY"`
	CursorVisible bool   `json:"cursorVisible"`
	AltScreen     bool   `json:"altScreen,omitempty"`
	// BracketedPaste reports that the program asked for pastes to be marked.
	BracketedPaste bool   `json:"bracketedPaste,omitempty"`
	Title          string `json:"title,omitempty"`
	Offset         int64  `json:"offset"` // the offset this shows the state after
}

// HistoryRequest asks for one page of the lines above the screen, newest page first.
type HistoryRequest struct {
	// Before is the absolute number of the line that the page ends above; nil starts at the screen's top.
	Before *int64 `json:"before,omitempty"`
	Max    int    `json:"max"` // lines, at least 1
	// Epoch is that of the page before; a page from another epoch answers Stale.
	Epoch *int64 `json:"epoch,omitempty"`
}

// HistoryPage is lines as bytes with colours. Lines keep their absolute number when older ones are dropped; a change of width
// renumbers them and starts a new epoch.
type HistoryPage struct {
	Stale     bool   `json:"stale,omitempty"`
	Chunk     string `json:"chunk"`
	Lines     int    `json:"lines"`
	TopLine   int64  `json:"topLine"` // number of the page's first line; Before of the next page
	Epoch     int64  `json:"epoch"`
	Exhausted bool   `json:"exhausted"` // nothing is above TopLine
}

// WaitRequest asks to be told when a terminal goes quiet or says something. Exactly one of IdleMS and Match is set.
type WaitRequest struct {
	// IdleMS is met when no output byte came for so many milliseconds, counted from the call: 1..MaxWaitMS.
	IdleMS int64 `json:"idleMs,omitempty"`
	// Match is an RE2 expression, met when output after After matches; it sees raw bytes, escapes included.
	// One that matches the empty string is refused.
	Match string `json:"match,omitempty"`
	// After is the offset from which output counts for Match; nil means from the call on.
	After *int64 `json:"after,omitempty"`
	// TimeoutMS ends the wait with Timeout; 0 means no limit.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
}

// Outcome is how a wait ended.
type Outcome string

// The outcomes. Gone alone means that the terminal is dead; Closed that the daemon is going away under a live one.
const (
	Met     Outcome = "met"
	Timeout Outcome = "timeout"
	Gone    Outcome = "gone"
	Closed  Outcome = "closed"
)

// WaitResult is the one answer of a wait.
type WaitResult struct {
	ID          TerminalID `json:"id"`
	Result      Outcome    `json:"result"`
	Fired       string     `json:"fired,omitempty"` // with Met: idle or match
	ElapsedMS   int64      `json:"elapsedMs"`
	MatchedLine string     `json:"matchedLine,omitempty"` // without escapes
	ExitCode    *int       `json:"exitCode,omitempty"`    // with Gone, when it is known
	// Moved is with Closed: another build takes the daemon over, and the same wait can be asked for again at once.
	Moved bool `json:"moved,omitempty"`
	// Offset is the cursor to go on from: the end of output when the wait ended.
	Offset int64 `json:"offset"`
}

// AttachRequest asks for a terminal's screen and what follows.
type AttachRequest struct {
	// Size resizes the terminal before the snapshot is taken; the zero Size watches it as it is.
	Size Size `json:"size,omitzero"`
	// From resumes at an offset: Data follows from there and no Snapshot comes, if the host still has it.
	From *int64 `json:"from,omitempty"`
}

// FrameKind tells the frames of an attachment apart.
type FrameKind string

// The frames: one Snapshot (unless resumed), then Data; Overflow when this reader was too slow and a Snapshot follows;
// Resized when the grid changed; Exit last.
const (
	FrameSnapshot FrameKind = "snapshot"
	FrameData     FrameKind = "data"
	FrameOverflow FrameKind = "overflow"
	FrameResized  FrameKind = "resized"
	FrameExit     FrameKind = "exit"
)

// Frame is one step of an attachment.
type Frame struct {
	Kind FrameKind `json:"kind"`
	// Data is bytes to draw: for Snapshot, on a cleared terminal of Size.
	Data []byte `json:"-"`
	// Offset is the offset after this frame's bytes.
	Offset   int64 `json:"offset"`
	Size     Size  `json:"size,omitzero"`
	ExitCode int   `json:"exitCode,omitempty"`
	// Lost is with Overflow how many bytes this reader did not get.
	Lost int64 `json:"lost,omitempty"`
}

// Attachment is one reader of a terminal. It never slows the terminal or another reader.
type Attachment interface {
	// Next blocks for the next frame. After Exit it gives io.EOF; after Close or the end of ctx, that error.
	Next(ctx context.Context) (Frame, error)
	// Write sends input; it may be called while Next blocks. A program that does not read holds it up as long as it likes: what is
	// typed waits, as at any terminal.
	Write(ctx context.Context, data []byte) error
	Resize(ctx context.Context, size Size) error
	Close() error
}

// EventKind tells what happened in a host's inventory.
type EventKind string

// The events: Snapshot first, always. Changed carries the whole record anew. Activity is output (at most one in
// 200 ms a terminal, muted around a resize). Exited comes after the terminal left the inventory.
const (
	EventSnapshot EventKind = "snapshot"
	EventCreated  EventKind = "created"
	EventChanged  EventKind = "changed"
	EventActivity EventKind = "activity"
	EventExited   EventKind = "exited"
)

// Event is one change of a host's inventory.
type Event struct {
	Kind      EventKind  `json:"kind"`
	ID        TerminalID `json:"id,omitempty"`
	Terminals []Terminal `json:"terminals,omitempty"` // with Snapshot
	Terminal  *Terminal  `json:"terminal,omitempty"`  // with Created and Changed
	ExitCode  *int       `json:"exitCode,omitempty"`  // with Exited
	At        int64      `json:"at,omitempty"`        // milliseconds since 1970 by the host's clock
}

// Host owns terminals. Every method may be called concurrently; ctx bounds the call. A TerminalID unknown to the host
// gives an error that wraps ErrNoTerminal, whichever method was asked; one that ended gives ErrGone where the method needs
// a live terminal.
type Host interface {
	Info(ctx context.Context) (Info, error)
	// List gives the live terminals in the order of their spawns.
	List(ctx context.Context) ([]Terminal, error)
	// Spawn starts a program on a new terminal. ErrSpawn says that the program could not be started, ErrExists that
	// the id is live, ErrLimit that the host has no room; in each case nothing is left behind.
	Spawn(ctx context.Context, req SpawnRequest) (Terminal, error)
	// Kill ends every process of the terminal and returns when the terminal has left the inventory. A terminal that
	// has ended already is no error.
	Kill(ctx context.Context, id TerminalID) error
	// Write hands bytes to the program, whole and in order among the writers. It returns when the program's side took
	// all of them; ErrStalled says how many it took when it took none for WriteDeadline. A line that the terminal would cut
	// because its program reads by lines is refused with ErrInvalid before a byte is written.
	Write(ctx context.Context, id TerminalID, in Input) error
	// Resize sets the grid; the last caller wins.
	Resize(ctx context.Context, id TerminalID, size Size) error
	Screen(ctx context.Context, id TerminalID, req ScreenRequest) (Screen, error)
	History(ctx context.Context, id TerminalID, req HistoryRequest) (HistoryPage, error)
	// Wait blocks in the host until the condition, the timeout or the terminal's end.
	Wait(ctx context.Context, id TerminalID, req WaitRequest) (WaitResult, error)
	// Attach gives the screen and what follows. The attachment lives until Close, not until the end of ctx.
	Attach(ctx context.Context, id TerminalID, req AttachRequest) (Attachment, error)
	// Watch yields a Snapshot and then events until ctx ends or the line breaks (then with an error, once, last).
	Watch(ctx context.Context) iter.Seq2[Event, error]
}
