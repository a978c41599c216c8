package pty

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const getTermios = unix.TCGETS

// MaxLine is the longest line, in bytes, of a terminal that collects lines for its program.
const MaxLine = 4095

// open gives the two sides of a new terminal, both closed on exec; the master never blocks a thread.
func open() (master, tty *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	if crowded(fd) {
		unix.Close(fd)
		return nil, nil, unix.EMFILE
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		unix.Close(fd)
		return nil, nil, err
	}
	name := "/dev/pts/" + strconv.Itoa(number)
	far, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return nil, nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), os.NewFile(uintptr(far), name), nil
}
