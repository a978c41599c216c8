package daemon

import (
	"os"

	"golang.org/x/sys/unix"
)

// memfile gives a file that has no name and is gone with its last descriptor.
func memfile(string) (*os.File, error) {
	fd, err := unix.MemfdCreate("kolu-handoff", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "kolu-handoff"), nil
}
