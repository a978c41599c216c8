package peer

import "golang.org/x/sys/unix"

// uid is the user at the other end of a connected unix socket.
func uid(fd int) (int, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}
