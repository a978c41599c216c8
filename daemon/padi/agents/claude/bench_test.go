package claude_test

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

// BenchmarkHundredIdle is what a hundred agents cost that do nothing, each with a process and a transcript of its own: the share of a core, in percent.
// It takes twenty seconds, whatever b.N.
func BenchmarkHundredIdle(b *testing.B) {
	f := newFixture(b)
	tracker := agents.New(agents.Options{
		Detectors: []agents.Detector{f.d}, Changed: func(padi.TerminalID) {}, Log: slog.New(slog.DiscardHandler),
		Screen: func(context.Context, padi.TerminalID) (kaval.Screen, error) { return kaval.Screen{}, nil },
	})
	for i := range 100 {
		process := exec.CommandContext(b.Context(), "sleep", "100")
		if err := process.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { process.Process.Kill(); process.Wait() })
		pid, id := process.Process.Pid, fmt.Sprintf("11111111-2222-4333-8444-%012d", i)
		f.write(fmt.Sprintf("sessions/%d.json", pid), fmt.Sprintf(`{"pid":%d,"sessionId":%q,"cwd":"/w%d","startedAt":1,"status":"idle","statusUpdatedAt":5}`, pid, id, i))
		f.write(fmt.Sprintf("projects/-w%d/%s.jsonl", i, id), strings.Repeat(user(`"x"`)+"\n"+answer("end_turn", "")+"\n", 500))
		tracker.See(kaval.Terminal{ID: padi.TerminalID(id), PID: 1, ForegroundPID: pid, ForegroundProcess: "claude", LastCommand: "claude"})
	}
	go tracker.Run(b.Context()) // ends with the benchmark
	time.Sleep(10 * time.Second)
	before := cpu(b)
	time.Sleep(10 * time.Second)
	b.ReportMetric(float64(cpu(b)-before)/float64(10*time.Second)*100, "%core")
	if a, _ := tracker.Agent("11111111-2222-4333-8444-000000000042"); a == nil || a.State != padi.Waiting {
		b.Errorf("agent %+v", a)
	}
}

// cpu is the time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
