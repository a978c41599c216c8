package pty

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processes lists every process that this user can see.
func processes() map[int]Proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(map[int]Proc, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := stat(pid); ok {
			all[pid] = p
		}
	}
	return all
}

// stat reads one process. The name stands in brackets and may hold anything, so the fields are counted from the last one.
func stat(pid int) (Proc, bool) {
	var buf [1024]byte
	data, err := slurp(procFile(pid, "stat"), buf[:])
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if err != nil || open < 0 || end < open {
		return Proc{}, false
	}
	f := strings.Fields(string(data[end+1:]))
	if len(f) < 20 {
		return Proc{}, false
	}
	p := Proc{PID: pid, Name: string(data[open+1 : end]), dead: f[0] == "Z" || f[0] == "X"}
	p.Parent, _ = strconv.Atoi(f[1])
	p.Group, _ = strconv.Atoi(f[2])
	p.Session, _ = strconv.Atoi(f[3])
	p.Start, _ = strconv.ParseUint(f[19], 10, 64)
	return p, true
}

func alive(q Proc) bool {
	now, ok := stat(q.PID)
	if !ok { // it has ended, or we can't look
		return !errors.Is(unix.Kill(q.PID, 0), unix.ESRCH)
	}
	return !now.dead && (now.Start == q.Start || q.Start == 0)
}

// awaitExit waits until a child has ended without keeping a thread for it. Where that cannot be done it returns at once.
func awaitExit(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		err := unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOWAIT, nil)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
}

// marked reports whether the environment that the process was started with has one of the entries.
func marked(pid int, marks map[string]bool) bool {
	if len(marks) == 0 {
		return false
	}
	env, err := slurp(procFile(pid, "environ"), make([]byte, 8<<10))
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if marks[string(entry)] {
			return true
		}
	}
	return false
}

// Name is the name of a program as people know it: that of its file, or for an interpreter's script the name the process gave itself.
// It is empty when the process has ended.
func Name(pid int) string {
	comm, err := os.ReadFile(procFile(pid, "comm"))
	if err != nil {
		return ""
	}
	name := strings.TrimSuffix(string(comm), "\n")
	exe, err := os.Readlink(procFile(pid, "exe"))
	if err != nil {
		return name
	}
	// The kernel cuts a name at 15 bytes; the file has the whole of it.
	base := filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
	if len(name) == 15 && strings.HasPrefix(base, name) {
		return base
	}
	return name
}

// Dir is the current directory of a process, or empty when the system does not say.
func Dir(pid int) string {
	dir, err := os.Readlink(procFile(pid, "cwd"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(dir, " (deleted)")
}

// slurp reads a small file of the kernel's with as few calls as can be, since a kill reads one of each process. buf is used if it
// is large enough.
func slurp(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for n := 0; ; {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		m, err := unix.Read(fd, buf[n:])
		n += max(m, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m == 0 {
			return buf[:n], err
		}
	}
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
