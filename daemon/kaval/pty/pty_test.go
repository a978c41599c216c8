package pty

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func start(t *testing.T, env []string, argv ...string) *Process {
	t.Helper()
	env = append(env, "PATH="+os.Getenv("PATH"), "TERM=xterm-256color")
	p, err := Start(Command{Argv: argv, Env: env, Dir: t.TempDir(), Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		KillNow(ctx, map[int]string{p.PID: ""})
		p.Master.Close()
	})
	return p
}

// readAll reads until the far side is closed, which the system reports as EIO.
func readAll(t *testing.T, p *Process) string {
	t.Helper()
	p.Master.SetReadDeadline(time.Now().Add(20 * time.Second))
	data, err := io.ReadAll(p.Master)
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	return string(data)
}

// readUntil reads until the output holds want.
func readUntil(t *testing.T, p *Process, want string) string {
	t.Helper()
	p.Master.SetReadDeadline(time.Now().Add(20 * time.Second))
	var out bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(out.String(), want) {
		n, err := p.Master.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v after %q", err, out.String())
		}
	}
	return out.String()
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		script string
		want   int
	}{
		{"exit 0", 0}, {"exit 7", 7}, {"exit 255", 255}, {"kill -KILL $$", 137}, {"kill -TERM $$", 143},
	} {
		p := start(t, nil, "sh", "-c", "printf last; "+c.script)
		if got := readAll(t, p); got != "last" {
			t.Errorf("%s: output %q", c.script, got)
		}
		if got, err := p.Wait(); got != c.want || err != nil {
			t.Errorf("%s: exit code %d, %v, want %d", c.script, got, err, c.want)
		}
	}
}

// A program inherits its terminal and nothing else: an inherited master would keep another terminal from ever seeing its hang-up.
func TestNoDescriptorLeaksIntoPrograms(t *testing.T) {
	start(t, nil, "cat")
	p := start(t, nil, "sh", "-c", "ls -l /proc/self/fd 2>/dev/null || ls -l /dev/fd")
	out := readAll(t, p)
	p.Wait()
	if strings.Contains(out, "ptmx") {
		t.Errorf("the program inherited descriptors:\n%s", out)
	}
}

func TestSizeAndForeground(t *testing.T) {
	p := start(t, nil, "sh", "-c", "stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done")
	readUntil(t, p, "24 80\r\nready")
	if got := p.Foreground(); got != p.PID {
		t.Errorf("foreground group %d, want %d", got, p.PID)
	}
	if !p.Canonical() {
		t.Error("a fresh terminal collects lines")
	}
	if err := p.Resize(100, 30); err != nil {
		t.Fatal(err)
	}
	readUntil(t, p, "30 100")
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plain := dir + "/plain"
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		argv []string
		dir  string
		want string
	}{
		{"nothing", nil, dir, "no program"},
		{"unknown", []string{"no-such-program"}, dir, "not found in PATH"},
		{"missing", []string{dir + "/missing"}, dir, "no such file"},
		{"directory", []string{dir}, dir, "is a directory"},
		{"not executable", []string{"./plain"}, dir, "permission denied"},
		{"no directory", []string{"/bin/sh"}, dir + "/gone", "no such file"},
	} {
		_, err := Start(Command{Argv: c.argv, Env: []string{"PATH=/usr/bin:/bin"}, Dir: c.dir, Cols: 80, Rows: 24})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestNoRoomIsALimit(t *testing.T) {
	for _, no := range []error{unix.EMFILE, unix.EAGAIN, unix.ENOSPC, &os.PathError{Op: "fork/exec", Err: unix.EAGAIN}} {
		if err := limited(no); !errors.Is(err, ErrLimit) || !errors.Is(err, no) {
			t.Errorf("%v is not seen as a limit", no)
		}
	}
	if err := limited(unix.ENOENT); errors.Is(err, ErrLimit) {
		t.Errorf("%v is seen as a limit", err)
	}
}

func TestKillEndsTheWholeTree(t *testing.T) {
	const mark = "KAVAL_TERMINAL_ID=tree-of-the-test"
	script := `
sleep 1000 & echo "pid $!"
nohup sleep 1001 >/dev/null 2>&1 & echo "pid $!"
setsid sh -c 'echo "pid $$"; exec sleep 1002' &
sh -c 'trap "" HUP TERM; echo "pid $$"; while :; do sleep 1; done' &
sh -c 'kill -STOP $$' & echo "pid $!"
trap "" HUP
wait_all=1; while :; do sleep 0.2; echo up; done`
	p := start(t, []string{mark}, "sh", "-c", script)
	out := ""
	for strings.Count(out, "pid ") < 5 {
		out += readUntil(t, p, "up")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if left := p.Kill(ctx, mark); len(left) > 0 {
		t.Errorf("survivors: %v", left)
	}
	for _, line := range strings.Split(out, "\r\n") {
		pid, err := strconv.Atoi(strings.TrimPrefix(line, "pid "))
		if err != nil || !strings.HasPrefix(line, "pid ") {
			continue
		}
		if q, ok := processes()[pid]; ok && !q.dead {
			t.Errorf("%v is alive", q)
		}
	}
	if code, err := p.Wait(); err != nil || code < 128 {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// A host that has no descriptor left can't list the processes; it must still end a terminal.
func TestKillWithoutDescriptors(t *testing.T) {
	p := start(t, nil, "sh", "-c", "trap '' HUP TERM; echo up; while :; do sleep 0.1; done")
	readUntil(t, p, "up")
	exited := make(chan int, 1)
	go func() {
		code, _ := p.Wait()
		exited <- code
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	free := takeDescriptors(t)
	left := p.Kill(ctx, "")
	free()
	if len(left) > 0 {
		t.Errorf("survivors: %v", left)
	}
	if code := <-exited; code != 128+9 {
		t.Errorf("exit code %d", code)
	}
}

// takeDescriptors opens all descriptors that there are until free is called.
func takeDescriptors(t *testing.T) (free func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	var fds []int
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	return func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}
}

func TestTheLastDescriptorsAreNotForTerminals(t *testing.T) {
	for _, tc := range []struct {
		fd    int
		limit uint64
		want  bool
	}{{47, 64, false}, {48, 64, true}, {991, 1024, false}, {992, 1024, true}, {5, unix.RLIM_INFINITY, false}} {
		if got := beyond(tc.fd, tc.limit); got != tc.want {
			t.Errorf("descriptor %d of %d: %v", tc.fd, tc.limit, got)
		}
	}
	was := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 8, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	if _, err := Start(Command{Argv: []string{"/bin/true"}, Dir: "/", Cols: 80, Rows: 24}); !errors.Is(err, ErrLimit) {
		t.Errorf("a start with the last descriptors: %v", err)
	}
}

func TestKillSparesItself(t *testing.T) {
	// The mark of the test's own environment must not turn the hunt on the daemon or its ancestors.
	h := newHunt(map[int]string{-1: "PATH=" + os.Getenv("PATH")})
	for _, q := range h.tree() {
		if q.PID == os.Getpid() || q.PID == os.Getppid() {
			t.Errorf("the hunt found %v", q)
		}
	}
}

func TestNameAndDir(t *testing.T) {
	p := start(t, nil, "sleep", "1000")
	if got := Name(p.PID); got != "sleep" {
		t.Errorf("name %q", got)
	}
	if got := Name(1 << 30); got != "" {
		t.Errorf("name of nobody %q", got)
	}
}

func BenchmarkKill(b *testing.B) {
	for b.Loop() {
		p, err := Start(Command{Argv: []string{"/bin/sleep", "1000"}, Env: []string{"A=B"}, Dir: "/", Cols: 80, Rows: 24})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan struct{})
		go func() { p.Wait(); close(done) }()
		if left := p.Kill(b.Context(), "KAVAL_TERMINAL_ID=none"); len(left) > 0 {
			b.Fatal(left)
		}
		<-done
		p.Master.Close()
	}
}

// Many programs that run cost no thread each.
func TestWaitKeepsNoThread(t *testing.T) {
	const count = 40
	var waits sync.WaitGroup
	before := pprof.Lookup("threadcreate").Count()
	procs := make([]*Process, count)
	for i := range procs {
		p := start(t, nil, "sh", "-c", "echo up; read x; exit 3")
		procs[i] = p
		waits.Go(func() {
			if code, err := p.Wait(); code != 3 || err != nil {
				t.Errorf("exit code %d, %v", code, err)
			}
		})
		readUntil(t, p, "up")
	}
	made := pprof.Lookup("threadcreate").Count() - before
	for _, p := range procs {
		if _, err := p.Master.WriteString("\n"); err != nil {
			t.Error(err)
		}
	}
	waits.Wait()
	if runtime.GOOS == "linux" && made > count/2 {
		t.Errorf("%d threads for %d waits", made, count)
	}
}
