package pty

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB

// processes lists every process that this user can see.
func processes() map[int]Proc {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	all := make(map[int]Proc, len(list))
	for i := range list {
		p := fromKinfo(&list[i])
		all[p.PID] = p
	}
	return all
}

func fromKinfo(k *unix.KinfoProc) Proc {
	p := Proc{
		PID: int(k.Proc.P_pid), Parent: int(k.Eproc.Ppid), Group: int(k.Eproc.Pgid),
		Start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
		Name:  string(bytes.TrimRight(k.Proc.P_comm[:], "\x00")),
		dead:  k.Proc.P_stat == zombie,
	}
	p.Session, _ = unix.Getsid(p.PID)
	return p
}

func alive(q Proc) bool {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", q.PID)
	if err != nil {
		return false
	}
	now := fromKinfo(k)
	return now.PID == q.PID && !now.dead && now.Start == q.Start
}

// awaitExit waits until a child has ended. Where that cannot be done it returns at once.
func awaitExit(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	var end unix.Kevent_t
	unix.SetKevent(&end, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	end.Fflags = unix.NOTE_EXIT
	if _, err := unix.Kevent(queue, []unix.Kevent_t{end}, nil, nil); err != nil {
		return // it has ended already
	}
	var events [1]unix.Kevent_t
	for {
		if n, err := unix.Kevent(queue, nil, events[:], nil); n > 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
			return
		}
	}
}

// marked reports nothing: the environment of another process is not shown here.
func marked(int, map[string]bool) bool { return false }

// Name is the name of a program as the system has it. It is empty when the process has ended.
func Name(pid int) string {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return ""
	}
	return fromKinfo(k).Name
}

// Dir is the current directory of a process, or empty when the system does not say.
func Dir(int) string { return "" }
