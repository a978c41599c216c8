package ssh

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"kolu/internal/fault"
)

// failure is how an attempt to start a master ended, for those who waited for it: with a host that does not answer, forty
// verbs that each made an attempt of their own after the other would be done in minutes.
type failure struct {
	At      int64 // nanoseconds since 1970
	Dropped bool
	Fault   *fault.Error
}

// leaveFailure writes into the lock's file, which the caller holds, why no master could be started. What only the caller
// met, as an interruption, is not left.
func leaveFailure(lock string, err error) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || errors.Is(err, errLocal) || f.Code == fault.Interrupted || f.Code == fault.ConfigError {
		return
	}
	text, err := json.Marshal(failure{At: time.Now().UnixNano(), Dropped: errors.Is(err, ErrDropped), Fault: f})
	if err == nil {
		_ = os.WriteFile(lock, text, 0o600) // without it they try themselves
	}
}

// failedSince gives the failure that was left after a time, or nil.
func failedSince(lock string, since time.Time) error {
	text, err := os.ReadFile(lock)
	var f failure
	if err != nil || json.Unmarshal(text, &f) != nil || f.Fault == nil {
		return nil
	}
	if at := time.Unix(0, f.At); at.Before(since.Round(0)) || at.After(time.Now().Round(0)) {
		return nil
	}
	if f.Dropped {
		f.Fault.Err = ErrDropped
	}
	return f.Fault
}
