package ptyhost_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kolu/daemon/kaval"
)

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// terminals is how many pseudo-terminals this machine has, 0 where it does not say.
func terminals(t *testing.T) (n int) {
	t.Helper()
	if data, err := os.ReadFile("/proc/sys/kernel/pty/nr"); err == nil {
		if _, err := fmt.Sscan(string(data), &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// A terminal costs the same to make beside many as beside few. KOLU_LONG=1 makes 2,000 of them.
func TestCreateStaysFlat(t *testing.T) {
	many, step := 200, 50
	if os.Getenv("KOLU_LONG") != "" {
		many, step = 2000, 100
	}
	h, ctx := open(t), within(t)
	var best []time.Duration // of each step: the quickest, which is what it costs when nothing else runs
	for range many / step {
		quickest := time.Hour
		for range step {
			began := time.Now()
			if _, err := h.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"/bin/cat"}}); err != nil {
				t.Fatal(err)
			}
			quickest = min(quickest, time.Since(began))
		}
		best = append(best, quickest)
	}
	t.Logf("%d terminals; the quickest of each %d: %v", many, step, best)
	if first, last := best[0], best[len(best)-1]; last > 4*first+2*time.Millisecond {
		t.Errorf("a terminal took %s beside none and %s beside %d", first, last, many)
	}
	list, err := h.List(ctx)
	if err != nil || len(list) != many {
		t.Fatalf("%d terminals, %v", len(list), err)
	}
	h.(interface{ Close() }).Close()
	for _, term := range list {
		if err := syscall.Kill(term.PID, 0); !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("process %d of %d terminals lives after the end of the host: %v", term.PID, many, err)
		}
	}
}

// Neither descriptors nor goroutines nor files are left by terminals that came and went, or never came.
func TestNothingLeaks(t *testing.T) {
	created, failed := 150, 300
	switch {
	case testing.Short():
		created, failed = 40, 40
	case os.Getenv("KOLU_LONG") != "":
		created, failed = 2000, 500
	}
	h, ctx := open(t), within(t)
	cycle := func() {
		term, err := h.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sleep", "1000"}, InitFiles: []kaval.InitFile{{Name: "x"}}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := h.Attach(ctx, term.ID, kaval.AttachRequest{})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if err := h.Kill(ctx, term.ID); err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	fds, routines, ttys := descriptors(t), runtime.NumGoroutine(), terminals(t)
	for range created {
		cycle()
	}
	for range failed {
		if _, err := h.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"/nonexistent"}}); !errors.Is(err, kaval.ErrSpawn) {
			t.Fatal(err)
		}
	}
	if got := descriptors(t); got > fds+2 {
		t.Errorf("%d descriptors, %d before", got, fds)
	}
	if got := terminals(t); got > ttys+20 { // other programs of this machine have some too
		t.Errorf("%d pseudo-terminals, %d before", got, ttys)
	}
	if got := runtime.NumGoroutine(); got > routines+4 { // a goroutine or two may be about to end
		t.Errorf("%d goroutines, %d before", got, routines)
	}
	if list, err := h.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("%d terminals are left, %v", len(list), err)
	}
}

// The last byte is there and the exit code is true, however fast the program ends.
func TestLastByteAndExitCode(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	h, ctx := open(t), within(t)
	from := int64(0)
	for i := range rounds {
		term, err := h.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c", "printf X; exit 7"}})
		if err != nil {
			t.Fatal(err)
		}
		a, err := h.Attach(ctx, term.ID, kaval.AttachRequest{From: &from})
		if errors.Is(err, kaval.ErrGone) {
			r, err := h.Wait(ctx, term.ID, kaval.WaitRequest{IdleMS: 1})
			if err != nil || r.ExitCode == nil || *r.ExitCode != 7 || r.Offset != 1 {
				t.Fatalf("round %d: %+v, %v", i, r, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for frame, err := a.Next(ctx); ; frame, err = a.Next(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if out.Write(frame.Data); frame.Kind == kaval.FrameExit {
				if frame.ExitCode != 7 || out.String() != "X" {
					t.Fatalf("round %d: exit code %d after %q", i, frame.ExitCode, out.String())
				}
				break
			}
		}
		a.Close()
	}
}

// A program that does not read holds up its writer for a bounded time, and nobody else.
func TestStalledWriter(t *testing.T) {
	h, ctx := open(t), within(t)
	term, err := h.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c", "stty raw -echo; echo ready; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	from := int64(0)
	if _, err := h.Wait(ctx, term.ID, kaval.WaitRequest{Match: "ready", After: &from}); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 1<<20)
	began := time.Now()
	err = h.Write(ctx, term.ID, kaval.Input{Data: data})
	if !errors.Is(err, kaval.ErrStalled) || !strings.Contains(err.Error(), fmt.Sprintf("of %d bytes", len(data))) {
		t.Errorf("write to a program that does not read: %v", err)
	}
	if took := time.Since(began); took < kaval.WriteDeadline {
		t.Errorf("gave up after %v", took)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := h.Write(cancelled, term.ID, kaval.Input{Data: data}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled write: %v", err)
	}
	if err := h.Kill(ctx, term.ID); err != nil {
		t.Errorf("kill: %v", err)
	}
}

// Terminals that end with their host did not end by themselves: a watcher that took it for that would forget them.
func TestCloseTellsNoExits(t *testing.T) {
	h, ctx := open(t), within(t)
	for range 5 {
		if _, err := h.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sleep", "1000"}}); err != nil {
			t.Fatal(err)
		}
	}
	var watchers sync.WaitGroup
	var watching sync.WaitGroup
	closed := make(chan struct{})
	for range 20 {
		watching.Add(1)
		watchers.Go(func() {
			var last error
			for event, err := range h.Watch(ctx) {
				last = err
				switch event.Kind {
				case kaval.EventSnapshot:
					watching.Done()
					<-closed // so that all that was told in the meantime waits
				case kaval.EventExited:
					t.Errorf("told of the end of %s", event.ID)
				}
			}
			if !errors.Is(last, kaval.ErrClosing) {
				t.Errorf("the watch ended with %v", last)
			}
		})
	}
	watching.Wait()
	h.(interface{ Close() }).Close()
	close(closed)
	watchers.Wait()
}

// The end of the host is the end of every process of its terminals, also of those that do not want to hear of it.
func TestCloseKillsEverything(t *testing.T) {
	h, ctx := open(t), within(t)
	from := int64(0)
	var pids []string
	for range 5 {
		term, err := h.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c",
			`trap '' HUP TERM INT; setsid sh -c 'trap "" HUP TERM; echo "pid=$$="; while :; do sleep 1; done' & while :; do sleep 1; done`}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.Wait(ctx, term.ID, kaval.WaitRequest{Match: "pid=[0-9]+=", After: &from})
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, fmt.Sprint(term.PID), strings.Split(r.MatchedLine, "=")[1])
	}
	h.(interface{ Close() }).Close()
	for _, pid := range pids {
		if state, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
			t.Errorf("process %s lives: %s", pid, state)
		}
	}
	if _, err := h.Spawn(ctx, kaval.SpawnRequest{}); !errors.Is(err, kaval.ErrClosing) {
		t.Errorf("spawn after the end: %v", err)
	}
}

// What a terminal says is read on while nobody is attached, so its program never blocks.
func TestOutputWithoutReaders(t *testing.T) {
	h, ctx := open(t), within(t)
	term, err := h.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' 'y'; exit 4"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Wait(ctx, term.ID, kaval.WaitRequest{IdleMS: kaval.MaxWaitMS})
	if err != nil || r.Result != kaval.Gone || r.ExitCode == nil || *r.ExitCode != 4 || r.Offset != 20_000_000 {
		t.Errorf("%+v, %v", r, err)
	}
}
