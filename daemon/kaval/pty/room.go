package pty

import (
	"golang.org/x/sys/unix"
)

// mostSpare is how many descriptors are kept for what is not a terminal: connections, and the look at the processes that a kill
// needs. A host full of terminals must still be able to list and kill them.
const mostSpare = 32

// crowded reports that a descriptor was one of the last there are. The system gives the lowest that is free, so all below it are
// in use.
func crowded(fd int) bool {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return false
	}
	return beyond(fd, uint64(limit.Cur))
}

func beyond(fd int, limit uint64) bool { return uint64(fd) >= limit-min(mostSpare, limit/4) }
