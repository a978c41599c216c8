package padi

import (
	"context"
	"errors"
	"slices"

	"kolu/daemon/kaval"
)

// SessionKeeper is a Workspace whose padi remembers its terminals beyond the end of the programs in them.
type SessionKeeper interface {
	// Session says what is remembered.
	Session(ctx context.Context) (Session, error)
	// Restore starts parked terminals again, each under its id and in its place. One that can't be started stays parked and is named
	// in the answer; that is no error of the call. What runs already is left alone, so that a second Restore does nothing.
	Restore(ctx context.Context, req RestoreRequest) (Restored, error)
	// Forget gives up the parked terminals. The session is put into the backups first; when that fails nothing is forgotten.
	Forget(ctx context.Context) (Forgotten, error)
	// Backups lists the sessions that are kept, the newest first.
	Backups(ctx context.Context) ([]Backup, error)
	// Recall adds the terminals of a backup that are not in the roster, parked. An unknown name gives ErrNoBackup.
	Recall(ctx context.Context, name string) (Recalled, error)
	// Sleep ends a terminal's programs and keeps its record; one that does not run stays as it is.
	Sleep(ctx context.Context, id TerminalID) (Record, error)
	// Wake starts a sleeping terminal again; one that runs stays as it is.
	Wake(ctx context.Context, id TerminalID, req WakeRequest) (Restart, error)
	// Rename sets a terminal's intent; an empty one takes it away.
	Rename(ctx context.Context, id TerminalID, req RenameRequest) (Record, error)
}

// KavalRestarter is a Workspace whose padi can put a fresh kaval in the place of the one that runs.
type KavalRestarter interface {
	// RestartKaval parks every terminal, ends kaval, and starts another. Nothing is restored by itself.
	RestartKaval(ctx context.Context) (KavalStatus, error)
}

// ErrNoBackup is the error of a name that no backup has.
var ErrNoBackup = errors.New("no such backup")

// MaxIntent is the most bytes of an intent.
const MaxIntent = 16 << 10

// Session is what padi remembers.
type Session struct {
	// Path is the file, on the host; empty where nothing is kept.
	Path string `json:"path,omitempty"`
	// SavedAt is when it was written last, in milliseconds since 1970 by the host's clock; 0 is never.
	SavedAt int64 `json:"savedAt,omitempty"`
	// Problem says why what is remembered now is not in the file.
	Problem  string `json:"problem,omitempty"`
	Active   int    `json:"active"`
	Sleeping int    `json:"sleeping"`
	// Parked are the records that a restore would start, in its order.
	Parked []Record `json:"parked"`
}

// RestoreRequest says what to restore.
type RestoreRequest struct {
	// IDs are the terminals; none means all that are parked.
	IDs []TerminalID `json:"ids,omitempty"`
	// NoResume starts every terminal with a bare shell: its agent's conversation is not gone on with, nor offered again.
	NoResume bool `json:"noResume,omitempty"`
	// OptOut are the terminals of which that is true alone.
	OptOut []TerminalID `json:"optOut,omitempty"`
}

// Declines reports whether a terminal's agent is not to go on.
func (r RestoreRequest) Declines(id TerminalID) bool {
	return r.NoResume || slices.Contains(r.OptOut, id)
}

// Restored is what a restore did.
type Restored struct {
	Terminals []Restart `json:"terminals"`
	// Failed are the terminals that stay parked.
	Failed []RestoreFailure `json:"failed"`
}

// Restart is a terminal that runs again.
type Restart struct {
	ID  TerminalID `json:"id"`
	PID int        `json:"pid"`
	// Resumed is the line that was typed to go on with an agent's conversation.
	Resumed string `json:"resumed,omitempty"`
	// Notes say what is not as it was.
	Notes []string `json:"notes,omitempty"`
}

// RestoreFailure is why a terminal could not be started.
type RestoreFailure struct {
	ID     TerminalID `json:"id"`
	Reason string     `json:"reason"`
}

// WakeRequest says how to wake a terminal.
type WakeRequest struct {
	NoResume bool `json:"noResume,omitempty"`
}

// RenameRequest is a new intent.
type RenameRequest struct {
	Intent string `json:"intent"`
}

// Check says what is wrong with it; the error is kaval.ErrInvalid.
func (r RenameRequest) Check() error {
	if len(r.Intent) > MaxIntent {
		return kaval.Invalidf("the intent is longer than %d KiB", MaxIntent>>10)
	}
	return nil
}

// Forgotten is what a Forget gave up.
type Forgotten struct {
	Count int `json:"count"`
	// Backup holds them; empty when there was nothing to forget.
	Backup string `json:"backup,omitempty"`
}

// Backup is one session that is kept.
type Backup struct {
	Name    string `json:"name"`
	SavedAt int64  `json:"savedAt"` // milliseconds since 1970 by the host's clock
	Size    int64  `json:"sizeBytes"`
	// Kind is session, empty or unreadable.
	Kind      string `json:"kind"`
	Terminals int    `json:"terminals,omitempty"`
}

// Recalled is what a recall brought back.
type Recalled struct {
	Parked []Record `json:"parked"`
	// Known are the terminals of the backup that were in the roster already.
	Known int `json:"known"`
}
