package ssh

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sameUser refuses a socket behind which another user's process listens; root's are taken.
func sameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("check control socket: %w", err)
	}
	var cred *unix.Xucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return fmt.Errorf("check control socket: %w", err)
	}
	if credErr != nil {
		return fmt.Errorf("check control socket: %w", credErr)
	}
	if uid := os.Getuid(); int(cred.Uid) != uid && cred.Uid != 0 {
		return fmt.Errorf("check control socket: it belongs to uid %d, not %d", cred.Uid, uid)
	}
	return nil
}
