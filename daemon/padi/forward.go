package padi

import (
	"context"
	"errors"
	"net"
)

// Forwarder opens connections to programs on a padi's machine.
type Forwarder interface {
	// Forward connects to a TCP port on the loopback of padi's machine, 127.0.0.1 or ::1. The addresses of the connection are those of
	// its end over there. A port that nothing listens on gives ErrPortClosed; a padi that can't do it ErrNoForward.
	Forward(ctx context.Context, port int) (net.Conn, error)
}

// The errors of a Forwarder.
var (
	ErrPortClosed = errors.New("nothing listens on the port")
	ErrNoForward  = errors.New("this build of padi forwards no ports")
)
