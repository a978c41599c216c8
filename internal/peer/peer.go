// Package peer tells whose process is at the other end of a unix socket, so that a socket in a place that others may write to is
// neither spoken to nor answered blindly. The daemons ask it of clients, fleet/ssh of a master. Start at [UID].
package peer

import (
	"fmt"
	"net"
)

// UID is the user at the other end of a connected unix socket. Its error wraps errors.ErrUnsupported where the system does not tell.
func UID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("read the peer's user: %w", err)
	}
	who, whoErr := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { who, whoErr = uid(int(fd)) }); err != nil {
		return -1, fmt.Errorf("read the peer's user: %w", err)
	}
	if whoErr != nil {
		return -1, fmt.Errorf("read the peer's user: %w", whoErr)
	}
	return who, nil
}
