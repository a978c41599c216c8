//go:build !linux && !darwin

package peer

import "errors"

// uid is the user at the other end of a connected unix socket.
func uid(int) (int, error) { return -1, errors.ErrUnsupported }
