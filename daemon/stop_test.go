package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// holding is a process that does not end when it is asked to, and the home whose gate says that it is the daemon.
func holding(t *testing.T, content func(pid int) string) (*exec.Cmd, Home) {
	t.Helper()
	h := HomeAt(Kaval, t.TempDir()+"/pty-host.sock", "")
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait() })
	if _, err := out.Read(make([]byte, 6)); err != nil { // now it ignores SIGTERM
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Gate(), []byte(content(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	return cmd, h
}

func TestStopInsists(t *testing.T) {
	cmd, h := holding(t, func(pid int) string {
		started, err := processStart(pid)
		if err != nil {
			t.Fatal(err)
		}
		return gateContent(pid, started)
	})
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := Stop(t.Context(), h, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if processAlive(cmd.Process.Pid) {
		t.Error("it lives")
	}
	if err := Stop(t.Context(), h, time.Second); err != nil { // nobody is there
		t.Error(err)
	}
}

// A process that has the pid of a daemon which is gone is not the one that is meant.
func TestStopOfAnotherProcess(t *testing.T) {
	for name, tt := range map[string]struct {
		content func(pid int) string
		refused bool
	}{
		"with another start": {func(pid int) string {
			return strings.Replace(gateContent(pid, time.Now().Add(-time.Hour)), "@", "@not-", 1)
		}, false},
		"in the old form": {func(pid int) string { return fmt.Sprintln(pid) }, true},
	} {
		cmd, h := holding(t, tt.content)
		err := Stop(t.Context(), h, 100*time.Millisecond)
		if alive := processAlive(cmd.Process.Pid); !alive || tt.refused != (err != nil) {
			t.Errorf("%s: stop gave %v and the process lives: %v", name, err, alive)
		}
	}
}
