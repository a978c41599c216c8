package kaval

import (
	"context"
	"errors"
)

// Upgrader is a Host whose daemon can become another build in place: the same process with the same terminals. It is beside
// [Host], since a host that is no daemon has nothing to become.
type Upgrader interface {
	// Upgrade makes the daemon the build at executable, an absolute path on its machine, and returns when that build serves. Attachments,
	// watches and waits end as they do when a daemon goes away; who asks again finds every terminal as it was. ErrUpgrade says that the
	// build cannot take over, ErrRefused that something else is under way: then nothing has changed and nobody noticed.
	Upgrade(ctx context.Context, executable string) (Upgraded, error)
}

// Upgraded says what a daemon is after an upgrade.
type Upgraded struct {
	PID        int    `json:"pid"`
	Build      string `json:"build"`
	Contract   string `json:"contract"`
	Executable string `json:"executable"`
}

// ErrUpgrade says that a build cannot take the place of the daemon; nothing has changed.
var ErrUpgrade = errors.New("the build cannot take over")
