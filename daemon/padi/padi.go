// Package padi is the word of the workspace daemon: what a padi offers, and nothing of how.
//
// A padi knows what the terminals of one machine are doing: where each belongs, its repository, its agent. It
// supervises its own kaval, which owns the programs. Package workspace does the work, padirpc carries it over HTTP,
// paditest proves any [Workspace]. Start reading at [Workspace].
package padi

import (
	"context"
	"iter"

	"kolu/daemon/kaval"
)

// Contract is the version of this contract, "major.minor"; kaval.Compatible says who may speak to whom.
const Contract = "1.0"

// TerminalID names a terminal of a workspace. Padi mints it; it stays the same over restarts of kaval and restores.
type TerminalID = kaval.TerminalID

// State says whether a terminal runs.
type State string

// The states of a record. Active has a live program; Sleeping was put away by the user; Parked waits to be restored.
const (
	Active   State = "active"
	Sleeping State = "sleeping"
	Parked   State = "parked"
)

// Record is everything padi knows of one terminal. Absent means unknown or none.
type Record struct {
	ID    TerminalID `json:"id"`
	State State      `json:"state"`
	// ParentID is the terminal this one is a split of; empty for a tile of its own.
	ParentID TerminalID `json:"parentId,omitempty"`
	// Intent is the user's label, maybe of several lines; the first is the tag.
	Intent string `json:"intent,omitempty"`
	CWD    string `json:"cwd"`
	PID    int    `json:"pid,omitempty"`
	Git    *Git   `json:"git"`
	PR     PR     `json:"pr"`
	Agent  *Agent `json:"agent"`
	// Urgency sorts the terminals whose agents want something from those that do not.
	Urgency Urgency `json:"urgency,omitempty"`
	// Foreground is the program that has the terminal; null unless Active.
	Foreground *Foreground `json:"foreground"`
	// Ports are those that the terminal's programs listen on; null unless Active.
	Ports *Ports `json:"ports"`
	// LastCommand is the command line the shell ran last.
	LastCommand string `json:"lastCommand,omitempty"`
	// Resume brings the agent's conversation back in a fresh shell. It outlives the agent's terminal, and goes when the agent ended by
	// itself.
	Resume *Resume `json:"resume,omitempty"`
	// LastActivityAt is when the last output byte came, in milliseconds since 1970 by the host's clock; IdleMS is how long
	// ago that was when the record was made.
	LastActivityAt int64 `json:"lastActivityAt,omitempty"`
	IdleMS         int64 `json:"idleMs"`
	CreatedAt      int64 `json:"createdAt,omitempty"`
	// SleptAt and ParkedAt are since when the terminal sleeps or is parked.
	SleptAt  int64 `json:"sleptAt,omitempty"`
	ParkedAt int64 `json:"parkedAt,omitempty"`
}

// Git is the repository a terminal is in.
type Git struct {
	RepoRoot     string `json:"repoRoot"`
	RepoName     string `json:"repoName"`
	WorktreePath string `json:"worktreePath"`
	Branch       string `json:"branch"` // "HEAD" when detached
	IsWorktree   bool   `json:"isWorktree"`
	MainRepoRoot string `json:"mainRepoRoot"`
	RemoteURL    string `json:"remoteUrl,omitempty"` // of origin, without credentials
}

// PR is the pull request of a terminal's branch. Kind is pending, absent, unsupported, unavailable or ok.
type PR struct {
	Kind string `json:"kind"`
	// Code says why it is unavailable: not-installed, not-authenticated, forbidden, rate-limited, timed-out, unreachable, unknown.
	Code   string `json:"code,omitempty"`
	Number int    `json:"number,omitempty"`
	Title  string `json:"title,omitempty"`
	URL    string `json:"url,omitempty"`
	State  string `json:"state,omitempty"`  // open, closed, merged
	Checks string `json:"checks,omitempty"` // pass, fail, pending
	// CheckRuns are the checks by themselves.
	CheckRuns []CheckRun `json:"checkRuns,omitempty"`
}

// CheckRun is one check of a pull request. Outcome is pass, fail or pending.
type CheckRun struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
}

// Foreground is the program in front.
type Foreground struct {
	Name  string `json:"name"`
	PID   int    `json:"pid,omitempty"`
	Title string `json:"title,omitempty"`
}

// Ports says on which TCP ports of its machine the programs of a terminal listen. Status is unknown before the first look, known, or
// unsupported where the system does not tell.
type Ports struct {
	Status string `json:"status"`
	List   []Port `json:"list,omitempty"`
}

// Port is one of them.
type Port struct {
	Port   int    `json:"port"`
	Family string `json:"family"` // ipv4, ipv6
	// Scope says who can reach it: any for every interface, loopback for this machine alone, interface for those that reach Address.
	Scope   string `json:"scope"`
	Address string `json:"address"`
	PID     int    `json:"pid,omitempty"` // of a process that listens there
	Process string `json:"process,omitempty"`
}

// Agent is the coding agent in a terminal. What nothing tells is left out.
type Agent struct {
	Kind  string     `json:"kind"`  // claude-code, codex, opencode, grok, or what the agent calls itself
	State AgentState `json:"state"` // Unknown where nothing tells
	// Source is what the state was read from: status (the agent's own word, OSC 7501), file (its own files), screen, or empty with Unknown.
	Source  string `json:"source,omitempty"`
	Message string `json:"message,omitempty"`
	// Asks is with AwaitingUser what for: permission or question.
	Asks string `json:"asks,omitempty"`
	// Reason says why the state is Unknown, as far as that is known.
	Reason string `json:"reason,omitempty"`
	// SessionID names the conversation, as the agent does.
	SessionID string `json:"sessionId,omitempty"`
	Model     string `json:"model,omitempty"`
	Summary   string `json:"summary,omitempty"`
	// ContextTokens is how full the conversation's context was at the last answer.
	ContextTokens int64 `json:"contextTokens,omitempty"`
	// StartedAt is when the conversation began, over all its resumes, in milliseconds since 1970.
	StartedAt int64     `json:"startedAt,omitempty"`
	Tasks     *Progress `json:"taskProgress,omitempty"`
	Version   string    `json:"version,omitempty"`
}

// Progress is how far a list of tasks is done.
type Progress struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
}

// Resume says how to go on with one conversation.
type Resume struct {
	Kind      string `json:"kind"`
	SessionID string `json:"sessionId"`
	// Command is a line for a shell, with the flags that the agent was started with.
	Command string `json:"command"`
}

// Evidence is what one source says of a terminal's agent.
type Evidence struct {
	Source string     `json:"source"`          // terminal, status, file, screen, or what made the state
	Path   string     `json:"path,omitempty"`  // of a file
	State  AgentState `json:"state,omitempty"` // what it says by itself
	Detail string     `json:"detail,omitempty"`
	AgeMS  int64      `json:"ageMs,omitempty"` // since the source last changed
	Used   bool       `json:"used,omitempty"`  // the state comes from it
}

// Explanation is why a record says what it says of its agent.
type Explanation struct {
	ID       TerminalID `json:"id"`
	Agent    *Agent     `json:"agent"`
	Resume   *Resume    `json:"resume,omitempty"`
	Evidence []Evidence `json:"evidence"`
}

// AgentState is what an agent is doing.
type AgentState string

// The states of an agent.
const (
	Thinking          AgentState = "thinking"
	ToolUse           AgentState = "tool_use"
	RunningBackground AgentState = "running_background"
	AwaitingUser      AgentState = "awaiting_user"
	Waiting           AgentState = "waiting"
	Unknown           AgentState = "unknown"
)

// Bucket is a coarse state that a driver waits for.
type Bucket string

// The buckets: busy; asking a question; the turn has ended.
const (
	BucketWorking  Bucket = "working"
	BucketAwaiting Bucket = "awaiting"
	BucketWaiting  Bucket = "waiting"
)

// Bucket is the bucket of a state; a state outside every bucket is given as it is and matches no wait.
func (s AgentState) Bucket() Bucket {
	switch s {
	case Thinking, ToolUse, RunningBackground:
		return BucketWorking
	case AwaitingUser:
		return BucketAwaiting
	case Waiting:
		return BucketWaiting
	}
	return Bucket(s)
}

// Placement says where a new terminal belongs: exactly one of Toplevel and Parent.
type Placement struct {
	Toplevel bool       `json:"toplevel,omitempty"`
	Parent   TerminalID `json:"parent,omitempty"`
}

// CreateRequest asks for a terminal with a shell.
type CreateRequest struct {
	Placement Placement `json:"placement"`
	// CWD must exist on the host; empty means the home directory. Not together with Worktree.
	CWD string `json:"cwd,omitempty"`
	// Worktree names a branch for a fresh worktree of Repo, cut from the checkout as it stands; the terminal starts there.
	Worktree string `json:"worktree,omitempty"`
	Repo     string `json:"repo,omitempty"`
	Intent   string `json:"intent,omitempty"`
	// Run is a command, typed at the shell's first prompt and quoted so that the shell reads exactly these words.
	Run  []string   `json:"run,omitempty"`
	Size kaval.Size `json:"size,omitzero"`
}

// Created is what a create made.
type Created struct {
	ID       TerminalID `json:"id"`
	PID      int        `json:"pid"`
	Worktree *Worktree  `json:"worktree,omitempty"`
	Ran      string     `json:"ran,omitempty"` // the line that was typed
}

// Worktree is a checkout made for a terminal.
type Worktree struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
}

// WaitRequest asks to be told of an agent's state, or of a terminal's output. Exactly one of Until, IdleMS and Match is
// set; the latter two mean what they mean for a kaval.
type WaitRequest struct {
	Until     []Bucket `json:"until,omitempty"`
	IdleMS    int64    `json:"idleMs,omitempty"`
	Match     string   `json:"match,omitempty"`
	After     *int64   `json:"after,omitempty"`
	TimeoutMS int64    `json:"timeoutMs,omitempty"`
	// SettledMS, which goes with Until, also wants the terminal to print nothing for so long in that state: a main loop can end its turn while something it
	// started still prints.
	SettledMS int64 `json:"settledMs,omitempty"`
	// Tail asks for the last so many lines of content as they are when the wait is met.
	Tail int `json:"tail,omitempty"`
}

// WaitResult is the one answer of a wait.
type WaitResult struct {
	kaval.WaitResult
	Agent *Agent `json:"agent,omitempty"` // with Met, when Until was asked
	// Settled says with Met that SettledMS was kept to; a padi that is older than it knows nothing of it.
	Settled bool    `json:"settled,omitempty"`
	Screen  *string `json:"screen,omitempty"` // with Met, when Tail was asked
}

// EventKind tells what happened in the roster.
type EventKind string

// The events: Snapshot first, always; then Changed with a whole record (new or changed), Removed, and Activity when a
// terminal's output starts (Live) and stops for a second.
const (
	EventSnapshot EventKind = "snapshot"
	EventChanged  EventKind = "changed"
	EventRemoved  EventKind = "removed"
	EventActivity EventKind = "activity"
)

// Event is one step of the roster stream.
type Event struct {
	Kind EventKind  `json:"kind"`
	ID   TerminalID `json:"id,omitempty"`
	// Seq grows by one with each event of a padi's life.
	Seq     int64    `json:"seq"`
	Records []Record `json:"records,omitempty"` // with Snapshot, in registry order
	Record  *Record  `json:"record,omitempty"`  // with Changed
	Live    bool     `json:"live,omitempty"`    // with Activity
	At      int64    `json:"at,omitempty"`      // milliseconds since 1970 by the host's clock
}

// KavalStatus is how padi's kaval is.
type KavalStatus struct {
	State     string `json:"state"` // connecting, connected, degraded, restarting, dead, incompatible
	Socket    string `json:"socket"`
	PID       int    `json:"pid,omitempty"`
	Build     string `json:"build,omitempty"`
	StartedAt int64  `json:"startedAt,omitempty"`
	Detail    string `json:"detail,omitempty"`
	// LineRestoredAt is when a lost line to a kaval that had been well was last made again; nothing ended. RestartedAt is when a
	// kaval was last found well that had been put in the place of one that was not; what ran in that one is parked. Both are
	// milliseconds since 1970 by the host's clock, and At is that clock now.
	LineRestoredAt int64 `json:"lineRestoredAt,omitempty"`
	RestartedAt    int64 `json:"restartedAt,omitempty"`
	At             int64 `json:"at,omitempty"`
	Parked         int   `json:"parked,omitempty"` // terminals that wait to be restored
}

// Workspace is what a padi offers. Every method may be called concurrently; ctx bounds the call. A TerminalID unknown to it
// gives an error that wraps kaval.ErrNoTerminal.
type Workspace interface {
	// Terminals gives every record, in registry order.
	Terminals(ctx context.Context) ([]Record, error)
	Terminal(ctx context.Context, id TerminalID) (Record, error)
	// Create makes a terminal. An error after something was made is a *PartialError that names it.
	Create(ctx context.Context, req CreateRequest) (Created, error)
	// Kill ends a terminal and everything in it, and forgets it.
	Kill(ctx context.Context, id TerminalID) (Record, error)
	Write(ctx context.Context, id TerminalID, in kaval.Input) error
	Resize(ctx context.Context, id TerminalID, size kaval.Size) error
	Screen(ctx context.Context, id TerminalID, req kaval.ScreenRequest) (kaval.Screen, error)
	History(ctx context.Context, id TerminalID, req kaval.HistoryRequest) (kaval.HistoryPage, error)
	Wait(ctx context.Context, id TerminalID, req WaitRequest) (WaitResult, error)
	// Watch yields a Snapshot and then events until ctx ends or the line breaks (then with an error, once, last).
	Watch(ctx context.Context) iter.Seq2[Event, error]
	Kaval(ctx context.Context) (KavalStatus, error)
}
