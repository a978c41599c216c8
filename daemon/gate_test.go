package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseGate(t *testing.T) {
	tests := []struct {
		content string
		pid     int
		started time.Time
		bad     bool
	}{
		{"12\t1700000000000000\n", 12, time.UnixMicro(1700000000000000), false},
		{"12\t1700000000000000\tmore\n", 12, time.UnixMicro(1700000000000000), false},
		{"12\n", 12, time.Time{}, false},
		{"12", 12, time.Time{}, false},
		{"12 and so on", 12, time.Time{}, false},
		{"", 0, time.Time{}, true},
		{"x12\t5\n", 0, time.Time{}, true},
		{"0\t5\n", 0, time.Time{}, true},
		{"-4\t5\n", 0, time.Time{}, true},
		{"99999999999\t5\n", 0, time.Time{}, true},
		{"12\tsoon\n", 0, time.Time{}, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%q", tt.content), func(t *testing.T) {
			got, err := parseGate(tt.content)
			if (err != nil) != tt.bad {
				t.Fatalf("error %v", err)
			}
			if err == nil && (got.pid != tt.pid || !got.started.Equal(tt.started)) {
				t.Errorf("got %d, %v", got.pid, got.started)
			}
		})
	}
}

func TestClaimGate(t *testing.T) {
	mine := ownGate(t)
	now := time.Now().UnixMicro()
	tests := []struct {
		name   string
		gate   string
		socket string // "", serving, dead
		taken  bool   // whether the claim takes the gate over
	}{
		{"process has ended", "999999\t5\n", "dead", true},
		{"pid was given to another", fmt.Sprintf("%d\t%d\n", os.Getpid(), now-int64(time.Hour/time.Microsecond)), "dead", true},
		{"clock was set while it serves", fmt.Sprintf("%d\t%d\n", os.Getpid(), now-int64(time.Hour/time.Microsecond)), "serving", false},
		{"clock was set before it serves", markOf(t, mine, now-int64(time.Hour/time.Microsecond)), "", false},
		{"of another boot", fmt.Sprintf("%d\t%d\t5@another\n", os.Getpid(), now), "dead", true},
		{"lives, no socket yet", mine, "", false},
		{"lives, socket dead", mine, "dead", false},
		{"a little off", shift(t, mine, -1500*time.Millisecond), "", false},
		{"older form, no socket", fmt.Sprintf("%d\n", os.Getpid()), "", false},
		{"older form, serving", fmt.Sprintf("%d\n", os.Getpid()), "serving", false},
		{"older form, dead socket", fmt.Sprintf("%d\n", os.Getpid()), "dead", true},
		{"older form, process has ended", "999999\n", "", true},
		{"half a line", "", "", true},
		{"nonsense", "hello\n", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newWorld(t).home()
			if err := OpenHome(h); err != nil {
				t.Fatal(err)
			}
			write(t, h.Gate(), tt.gate)
			makeSocket(t, h.Socket(), tt.socket)
			c, err := claimGate(h)
			if !tt.taken {
				if !errors.Is(err, ErrRunning) {
					t.Errorf("got %v, want ErrRunning", err)
				}
				if b, _ := os.ReadFile(h.Gate()); string(b) != tt.gate {
					t.Errorf("gate is now %q", b)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := os.ReadFile(h.Gate()); string(b) != mine {
				t.Errorf("gate is %q, want %q", b, mine)
			}
			if err := c.release(); err != nil || exists(h.Gate()) {
				t.Errorf("release: %v, still there: %v", err, exists(h.Gate()))
			}
		})
	}
}

// markOf is a gate with another start by the wall clock.
func markOf(t *testing.T, gate string, micros int64) string {
	t.Helper()
	h, err := parseGate(gate)
	if err != nil {
		t.Fatal(err)
	}
	if h.mark == "" {
		return gate // here the start of a process doesn't move with the clock
	}
	return fmt.Sprintf("%d\t%d\t%s\n", h.pid, micros, h.mark)
}

func shift(t *testing.T, gate string, d time.Duration) string {
	t.Helper()
	h, err := parseGate(gate)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d\t%d\n", h.pid, h.started.Add(d).UnixMicro())
}

func makeSocket(t *testing.T, path, kind string) {
	t.Helper()
	if kind == "" {
		return
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	if kind == "dead" {
		ln.Close()
		return
	}
	t.Cleanup(func() { ln.Close() })
}

func TestUnreadableGateIsLeftAlone(t *testing.T) {
	h := newWorld(t).home()
	if err := OpenHome(h); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.Gate(), 0o700); err != nil { // reading it fails for root too
		t.Fatal(err)
	}
	if _, err := claimGate(h); err == nil || errors.Is(err, ErrRunning) {
		t.Errorf("got %v, want the error of reading", err)
	}
	if !exists(h.Gate()) {
		t.Error("it was removed")
	}
}

func TestReleaseLeavesTheSuccessorsGate(t *testing.T) {
	h := newWorld(t).home()
	if err := OpenHome(h); err != nil {
		t.Fatal(err)
	}
	c, err := claimGate(h)
	if err != nil {
		t.Fatal(err)
	}
	write(t, h.Gate(), "1\t7\n")
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(h.Gate()); string(b) != "1\t7\n" {
		t.Errorf("gate is %q", b)
	}
}

func TestTwentyStartsGiveOneDaemon(t *testing.T) {
	w := newWorld(t)
	h := w.home()
	if err := OpenHome(h); err != nil {
		t.Fatal(err)
	}
	write(t, h.Gate(), "999999\t5\n") // left over, so that all of them judge it at once
	makeSocket(t, h.Socket(), "dead")
	type run struct {
		wait func() error
		pid  int
		out  *strings.Builder
	}
	var runs []run
	for range 20 {
		cmd, out := w.spawn("serve")
		runs = append(runs, run{cmd.Wait, cmd.Process.Pid, out})
	}
	var hello Hello
	eventually(t, "a hello", func() bool {
		var err error
		hello, err = ReadHello(t.Context(), Unix(h.Socket()))
		return err == nil
	})
	var winner *run
	for i, r := range runs {
		if r.pid == hello.PID {
			winner = &runs[i]
			continue
		}
		if err := r.wait(); err != nil || r.out.String() != "yield\n" {
			t.Errorf("pid %d: %v, said %q", r.pid, err, r.out)
		}
	}
	if winner == nil {
		t.Fatalf("pid %d answers, which is none of those started", hello.PID)
	}
	if again, err := ReadHello(t.Context(), Unix(h.Socket())); err != nil || again != hello {
		t.Errorf("then %v, %v", again, err)
	}
	if err := syscall.Kill(winner.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := winner.wait(); err != nil || winner.out.String() != "ready\n" {
		t.Errorf("the daemon: %v, said %q", err, winner.out)
	}
	for _, path := range []string{h.Gate(), h.Socket()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}
