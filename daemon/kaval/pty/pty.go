// Package pty is the system calls of a terminal: it opens a pseudo-terminal, starts a program on it in a session of its own, sets the
// size, says which program is in front, and ends every process that belongs to it. It is for package ptyhost. It keeps no state
// beyond one [Process], reads no bytes on its own and knows nothing of screens. Start reading at [Start].
//
// Files named for one system hold the few calls that differ there.
package pty

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrLimit reports that the system has no room for another terminal: descriptors, processes, memory or pseudo-terminals.
var ErrLimit = errors.New("system limit reached")

// Command is a program to start.
type Command struct {
	// Argv is the program and its arguments. A name without a slash is looked up in the PATH of Env.
	Argv []string
	Env  []string // "K=V", the whole environment
	Dir  string   // must exist
	Cols int
	Rows int
}

// Process is a program on a terminal of its own. Its methods may be called concurrently.
type Process struct {
	// Master is the near side of the terminal. It never blocks a thread, takes deadlines, and is closed on exec. The owner
	// closes it after the last read.
	Master *os.File
	PID    int
	proc   *os.Process
}

// Start opens a terminal and starts the program on it as the leader of a new session that the terminal controls. An error leaves
// nothing behind; it wraps ErrLimit when the system has no room, else says why the program cannot be started.
func Start(c Command) (*Process, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, errors.New("no program is named")
	}
	path, err := lookPath(c.Argv[0], c.Dir, c.Env)
	if err != nil {
		return nil, err
	}
	master, tty, err := open()
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", limited(err))
	}
	defer tty.Close()
	proc, err := startOn(master, tty, path, c)
	if err != nil {
		master.Close()
		return nil, limited(err)
	}
	return &Process{Master: master, PID: proc.Pid, proc: proc}, nil
}

func startOn(master, tty *os.File, path string, c Command) (*os.Process, error) {
	if err := setSize(master, c.Cols, c.Rows); err != nil {
		return nil, fmt.Errorf("size the terminal: %w", err)
	}
	return os.StartProcess(path, c.Argv, &os.ProcAttr{
		Dir:   c.Dir,
		Env:   c.Env,
		Files: []*os.File{tty, tty, tty},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	})
}

// limited marks the errors that mean "no room".
func limited(err error) error {
	for _, no := range []error{unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.ENOSPC, unix.ENOMEM} {
		if errors.Is(err, no) {
			return fmt.Errorf("%w: %w", ErrLimit, err)
		}
	}
	return err
}

// lookPath finds a program as the program's own environment and directory say, not those of the daemon.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, executable(path)
	}
	var denied error
	for _, d := range filepath.SplitList(getenv(env, "PATH")) {
		if d == "" {
			continue
		}
		path := filepath.Join(d, name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%s: not found in PATH", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s: is a directory", path)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &fs.PathError{Op: "exec", Path: path, Err: err}
	}
	return nil
}

func getenv(env []string, key string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// Adopt makes a Process of a terminal and a child that the program before this one in this very process has left: fd is the near
// side of the terminal.
func Adopt(fd, pid int) (*Process, error) {
	if _, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err != nil {
		return nil, fmt.Errorf("take over terminal of process %d: %w", pid, err)
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("take over terminal of process %d: %w", pid, err)
	}
	proc, err := os.FindProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("take over process %d: %w", pid, err)
	}
	return &Process{Master: os.NewFile(uintptr(fd), "/dev/ptmx"), PID: pid, proc: proc}, nil
}

// AwaitExit waits until the program has ended and leaves its exit code for [Process.Wait]. Where the system has no way to do that it
// returns at once.
func (p *Process) AwaitExit() { awaitExit(p.PID) }

// Wait waits for the program to end and gives its exit code; a program that a signal ended gives 128 and the signal's
// number, as shells do. It is called once.
func (p *Process) Wait() (int, error) {
	awaitExit(p.PID)
	state, err := p.proc.Wait()
	if err != nil {
		return 0, fmt.Errorf("wait for process %d: %w", p.PID, err)
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return state.ExitCode(), nil
}

// Resize sets the size of the terminal; the programs in front are told by the system.
func (p *Process) Resize(cols, rows int) error { return setSize(p.Master, cols, rows) }

func setSize(f *os.File, cols, rows int) error {
	return control(f, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
}

// Foreground gives the process group that has the terminal. It is 0 when the system does not say.
func (p *Process) Foreground() int {
	group := 0
	err := control(p.Master, func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err != nil || group < 0 {
		return 0
	}
	return group
}

// Canonical reports whether the terminal collects lines for its program (and so cuts a line that is too long).
func (p *Process) Canonical() bool {
	canonical := false
	err := control(p.Master, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, getTermios)
		if err == nil {
			canonical = t.Lflag&unix.ICANON != 0
		}
		return err
	})
	return err == nil && canonical
}

// control runs a call on a file's descriptor without taking the file out of non-blocking mode.
func control(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = call(int(fd)) }); err != nil {
		return err
	}
	return inner
}
