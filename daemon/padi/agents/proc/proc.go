// Package proc tells a few facts of processes that belong to an agent: who is in its group, what files it holds open, when it was started. For the
// detectors of agents. It reads neither arguments nor environments. Where a system does not tell, it says so by giving nothing.
package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Alive reports whether a process runs. One that may not be asked does.
func Alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}

// InGroup reports whether a process is in a process group.
func InGroup(pid, group int) bool {
	got, err := unix.Getpgid(pid)
	return err == nil && got == group
}
