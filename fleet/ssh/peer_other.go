//go:build !linux && !darwin

package ssh

import (
	"errors"
	"net"
)

func sameUser(*net.UnixConn) error { return errors.ErrUnsupported }
