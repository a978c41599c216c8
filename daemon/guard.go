package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kolu/internal/version"
)

// guardGrace is how long a daemon may take to follow the process that it is bound to: it looks itself, and has things to save.
const guardGrace = 5 * time.Second

// startGuard starts a process beside this daemon that ends it when the bound process has ended and the daemon does not follow:
// one that hangs, or was stopped, can't end itself. dismiss ends the guard and waits for it.
func startGuard(command []string, bound string) (pid int, dismiss func(), err error) {
	exe, err := version.Executable()
	if err != nil {
		return 0, nil, err
	}
	lifeline, ours, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer lifeline.Close()
	cmd := &exec.Cmd{
		Path: exe, Args: append(command[:len(command):len(command)], fmt.Sprintf("%d:%s", os.Getpid(), bound)),
		Env: os.Environ(), Dir: "/", Stdin: lifeline, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return 0, nil, err
	}
	return cmd.Process.Pid, func() {
		ours.Close()
		cmd.Wait() // how a guard ends is no concern of the daemon
	}, nil
}

// Guard watches over one daemon, as the last argument of its command line says. lifeline is the guard's standard input, which
// ends with the daemon: so a process that has taken over the daemon's pid is never the one that is killed.
func Guard(ctx context.Context, who string, lifeline io.Reader) error {
	daemon, bound, _ := strings.Cut(who, ":")
	pid, err := strconv.Atoi(daemon)
	if err != nil || pid < 1 {
		return fmt.Errorf("guard: %q names no daemon", who)
	}
	alive, err := boundProcess(func(string) (string, bool) { return bound, true })
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	ctx, ended := context.WithCancel(ctx)
	defer ended()
	go func() { // it ends with the process that it is the whole of
		io.Copy(io.Discard, lifeline)
		ended()
	}()
	if err := watchBound(ctx, alive); !errors.Is(err, errBoundGone) {
		return nil
	}
	if !sleep(ctx, guardGrace) {
		return nil
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}
