package daemon

import (
	"time"

	"golang.org/x/sys/unix"
)

// processStart is when a process began.
func processStart(pid int) (time.Time, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return time.Time{}, err
	}
	start := info.Proc.P_starttime
	return time.Unix(start.Sec, int64(start.Usec)*int64(time.Microsecond)), nil
}

// processMark is empty: here the start of a process stays as it was when the clock is set.
func processMark(int) string { return "" }

// machineName names this boot of this machine.
func machineName() string {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return boot
}

// stateZombie is SZOMB of <sys/proc.h>.
const stateZombie = 5

func zombie(pid int) bool {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && info.Proc.P_stat == stateZombie
}
