package pty

import (
	"os"

	creack "github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const getTermios = unix.TIOCGETA

// MaxLine is the longest line, in bytes, of a terminal that collects lines for its program.
const MaxLine = 1024

// open gives the two sides of a new terminal, both closed on exec; the master never blocks a thread.
func open() (master, tty *os.File, err error) {
	blocking, tty, err := creack.Open()
	if err != nil {
		return nil, nil, err
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil && crowded(fd) {
		unix.Close(fd)
		err = unix.EMFILE
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		tty.Close()
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), tty, nil
}
