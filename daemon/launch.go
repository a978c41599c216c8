package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A launcher makes the command whose process becomes the daemon. What it runs first, if anything, execs the daemon in the same
// process: with this environment, this standard error and this session.
type launcher struct {
	name    string
	command func(exe string, args []string) *exec.Cmd
	// detour reports that another program runs first, so that its failure is not the daemon's.
	detour bool
}

// launchers are the ways to start the daemon, best first. The last runs it directly.
func (c StartConfig) launchers() []launcher {
	direct := launcher{name: "session", command: func(exe string, args []string) *exec.Cmd {
		return &exec.Cmd{Path: exe, Args: append([]string{c.Name}, args...)}
	}}
	run, found := lookPath("systemd-run", c.getenv("PATH"))
	if !found || filepath.Base(c.Exe) != c.Name || !c.machine.ownScope(c.getenv) {
		return []launcher{direct}
	}
	scope := launcher{name: "scope", detour: true, command: func(exe string, args []string) *exec.Cmd {
		return exec.Command(run, append(c.scopeArgs(exe), args...)...)
	}}
	return []launcher{scope, direct}
}

// scopeArgs ask for a scope with a name of its own each time, since one that failed may still be known by the last. It is
// delegated, which also keeps the end of one process by the memory limit from ending all of them.
func (c StartConfig) scopeArgs(exe string) []string {
	return []string{
		"--user", "--scope", "--quiet", "--collect",
		fmt.Sprintf("--unit=kolu-%s-%s-%s", c.Home.Kind.Name, Digest(c.Home.Dir), strings.ToLower(rand.Text()[:8])),
		"--description=" + c.Name + " of kolu", "--property=Delegate=yes",
		"--", exe,
	}
}

// launched is a process that is the daemon or is becoming it.
type launched struct {
	cmd   *exec.Cmd
	ended chan error // its end, should it come while we look
}

// launch starts the daemon in a session of its own, with nothing of ours but a log for what it prints.
func (c StartConfig) launch(l launcher, log *os.File) (*launched, error) {
	exe, err := filepath.Abs(c.Exe)
	if err != nil {
		return nil, err
	}
	cmd := l.command(exe, c.Args)
	cmd.Env, cmd.Dir, cmd.Stderr = DetachedEnv(c.Environ), "/", log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.Log.Info("started", "daemon", c.Name, "pid", cmd.Process.Pid, "in", l.name)
	p := &launched{cmd: cmd, ended: make(chan error, 1)}
	go func() { p.ended <- cmd.Wait() }() // it ends with the daemon, which may be after us
	return p, nil
}

// became reports whether a process has turned into the program; only then is it the daemon.
func (p *launched) became(exe string) bool {
	now, err := os.Stat(fmt.Sprintf("/proc/%d/exe", p.cmd.Process.Pid))
	if err != nil {
		return true // can't be told: then it is left alone
	}
	want, err := os.Stat(exe)
	return err != nil || os.SameFile(now, want)
}

// diedError is a daemon that ended instead of answering.
type diedError struct{ err error }

func (e *diedError) Error() string { return e.err.Error() }

func isDead(err error) bool {
	_, ok := errors.AsType[*diedError](err)
	return ok
}
