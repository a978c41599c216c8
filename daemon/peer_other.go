//go:build !linux && !darwin

package daemon

import "errors"

// peerUID is the user at the other end of a connected unix socket.
func peerUID(int) (int, error) { return -1, errors.ErrUnsupported }
