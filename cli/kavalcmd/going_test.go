package kavalcmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kolu/daemon/kaval"
)

// asked is one kaval-tui that runs.
type asked struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

func (m *machine) ask(args ...string) *asked {
	m.t.Helper()
	a := &asked{cmd: m.command(filepath.Join(m.dir, "a", "kaval-tui"), args...)}
	a.cmd.Stdout, a.cmd.Stderr = &a.out, &a.err
	if err := a.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	return a
}

// code waits for the end and gives the exit code.
func (a *asked) code() int {
	_ = a.cmd.Wait() // the code says it
	return a.cmd.ProcessState.ExitCode()
}

// connections counts the connections that the daemon has accepted at its socket.
func (m *machine) connections() int {
	table, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		m.t.Skip("the connections of a socket are read from /proc")
	}
	n := 0
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) == 8 && fields[5] == "03" && fields[7] == filepath.Join(m.dir, "run", "kaval", "pty-host.sock") {
			n++
		}
	}
	return n
}

// A wait goes on while the daemon becomes another build: for a match with what it had seen, for a silence anew.
func TestWaitOverUpgrades(t *testing.T) {
	m := newMachine(t)
	term := m.spawn("sh", "-c", "stty -echo; echo ready; while read x; do printf '%s' \"$x\"; done")
	at := m.await(term.ID, "ready\r\n", 0).Offset
	idle := m.connections()
	match := make(chan kaval.WaitResult, 1)
	go func() {
		r, err := m.client.Wait(t.Context(), term.ID, kaval.WaitRequest{Match: "one,two,three", After: &at, TimeoutMS: 120_000})
		if err != nil {
			t.Error(err)
		}
		match <- r
	}()
	end := m.ask("wait", string(term.ID), "--until", "match:over", "--timeout", "120000", "--json")
	long := m.ask("wait", string(term.ID), "--until", "idle:600000", "--timeout", "120000")
	m.until("the waits are under way", func() bool { return m.connections() >= idle+2 })
	for i, exe := range []string{"b", "a", "b"} {
		m.send(term.ID, []string{"one,\n", "two,\n", "three\n"}[i])
		m.await(term.ID, []string{"one,", "two,", "three"}[i], 0)
		if _, code, detail := m.upgrade(m.exe(exe)); code != "" {
			t.Fatal(code, detail)
		}
	}
	if r := <-match; r.Result != kaval.Met || r.MatchedLine != "one,two,three" {
		t.Errorf("the wait for a match ended with %+v", r)
	}
	over := make(chan int, 1)
	go func() { over <- end.code() }()
	m.until("the client sees the end", func() bool {
		m.send(term.ID, "over\n") // more than once: it may only just have begun
		select {
		case code := <-over:
			if code != 0 {
				t.Errorf("the client's wait for a match ended with %d: %s%s", code, end.out.String(), end.err.String())
			}
			return true
		default:
			return false
		}
	})
	if err := m.client.Kill(t.Context(), term.ID); err != nil {
		t.Fatal(err)
	}
	if code := long.code(); code != 3 && code != 1 { // 1: it had only just begun
		t.Errorf("the wait for silence ended with %d: %s", code, long.err.String())
	}
}

// What is typed while the daemon becomes another build arrives once, whether it had read it or not.
func TestTypingOverUpgrades(t *testing.T) {
	m := newMachine(t)
	const lines = 3000
	term := m.spawn("sh", "-c", "stty -echo; echo ready; head -n 3000 | cksum; echo over; sleep 1000")
	m.await(term.ID, "ready", 0)
	a, err := m.client.Attach(t.Context(), term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	reading, stop := context.WithCancel(t.Context())
	read := make(chan struct{})
	go func() { // goes on from line to line
		defer close(read)
		for {
			if _, err := a.Next(reading); err != nil {
				return
			}
		}
	}()
	defer func() { stop(); <-read }()
	typing := make(chan error, 1)
	go func() {
		for i := range lines {
			if err := a.Write(t.Context(), []byte(line(i))); err != nil {
				typing <- err
				return
			}
		}
		typing <- nil
	}()
	for i := range 6 {
		if _, code, detail := m.upgrade(m.exe([]string{"b", "a"}[i%2])); code != "" {
			t.Fatal(code, detail)
		}
	}
	if err := <-typing; err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for i := range lines {
		all.WriteString(line(i))
	}
	cksum := exec.Command("cksum")
	cksum.Stdin = strings.NewReader(all.String())
	want, err := cksum.Output()
	if err != nil {
		t.Fatal(err)
	}
	m.await(term.ID, "over", 0)
	if screen, err := m.client.Screen(t.Context(), term.ID, kaval.ScreenRequest{}); err != nil || !strings.Contains(screen.Text, strings.TrimSpace(string(want))) {
		t.Errorf("%q, %v; want %s", screen.Text, err, want)
	}
}

func line(i int) string { return strings.Repeat("x", i%60) + "\n" }

// A wait that loses its daemon says so: it never says that the terminal ended.
func TestWaitLosesItsDaemon(t *testing.T) {
	m := newMachine(t)
	term := m.spawn("sleep", "1000")
	idle := m.connections()
	w := m.ask("wait", string(term.ID), "--until", "match:never", "--json")
	m.until("the wait is under way", func() bool { return m.connections() > idle })
	if err := m.daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := w.code(); code != 1 || strings.Contains(w.out.String(), "gone") {
		t.Errorf("it ended with %d: %s%s", code, w.out.String(), w.err.String())
	}
	_ = syscall.Kill(-term.PID, syscall.SIGKILL) // the daemon is gone; its terminal may be
	if err := m.daemon.Wait(); err == nil {
		t.Error("kaval ended well")
	}
	m.ended = true
}

// Told to end, kaval ends, whatever runs in its terminals.
func TestEndsOverLiveTerminals(t *testing.T) {
	m := newMachine(t)
	term := m.spawn("sh", "-c", "trap '' HUP TERM INT; echo ready; while :; do sleep 1; done")
	m.await(term.ID, "ready", 0)
	a, err := m.client.Attach(t.Context(), term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	w := m.ask("wait", string(term.ID), "--until", "match:never")
	began := time.Now()
	m.stop()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if code := w.code(); code != 1 {
		t.Errorf("the wait ended with %d: %s", code, w.err.String())
	}
	if err := syscall.Kill(term.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the terminal's program: %v", err)
	}
}

// A program that is busy for longer than anyone waits gets its Enter all the same, when it reads again.
func TestEnterForABusyProgram(t *testing.T) {
	m := newMachine(t)
	free := filepath.Join(m.dir, "free")
	term := m.spawn("sh", "-c", `stty -echo; echo ready; until [ -e `+free+` ]; do printf .; sleep 0.05; done; echo; read x; echo "got $x."`)
	m.await(term.ID, "ready", 0)
	if code := m.ask("send", string(term.ID), "the prompt").code(); code != 0 {
		t.Fatalf("send: %d", code)
	}
	if w := m.ask("wait", string(term.ID), "--until", "idle:20000", "--timeout", "300"); w.code() != 2 {
		t.Fatalf("a busy program went quiet: %s", w.err.String())
	}
	if code := m.ask("send", string(term.ID), "--key", "Enter").code(); code != 0 {
		t.Fatalf("send: %d", code)
	}
	if err := os.WriteFile(free, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.await(term.ID, `got the prompt\.`, 0)
}

// A paste of many KB arrives whole, between its two marks.
func TestLargePasteArrivesWhole(t *testing.T) {
	m := newMachine(t)
	text := strings.Repeat("a line of the prompt\n", 1500)
	file := filepath.Join(m.dir, "prompt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	pasted := "\x1b[200~" + text + "\x1b[201~"
	term := m.spawn("sh", "-c", `stty raw -echo; printf '\033[?2004hready'; head -c 31512 | cksum; sleep 1000`)
	m.await(term.ID, "ready", 0)
	if s := m.ask("send", string(term.ID), "--file", file); s.code() != 0 {
		t.Fatal(s.err.String())
	}
	cksum := exec.Command("cksum")
	cksum.Stdin = strings.NewReader(pasted)
	want, err := cksum.Output()
	if err != nil || len(pasted) != 31512 {
		t.Fatal(err, len(pasted))
	}
	m.await(term.ID, strings.TrimSpace(string(want)), 0)
}

// A terminal has its own environment whatever that of its maker: nothing of an agent's, the tools of the build in front of the user's
// own PATH, a TERM that this machine knows, and the socket of the daemon that serves it.
func TestEnvironmentOfATerminal(t *testing.T) {
	m := newMachine(t)
	create := m.command(filepath.Join(m.dir, "a", "kaval-tui"), "create", "--json", "--", "sh", "-c",
		`env; tput cols; kaval-tui list; echo over; cat`)
	create.Env = append(create.Env, "PATH=/opt/mine:"+os.Getenv("PATH"), "TERM=xterm-nonesuch", "COLORTERM=truecolor", "CLAUDECODE=1",
		"KAVAL_SOCKET="+filepath.Join(m.dir, "run", "kaval", "pty-host.sock"), "KAVAL_TERMINAL_ID=outer", "AWS_SECRET_ACCESS_KEY=s3cret")
	for i := range 20 {
		create.Env = append(create.Env, fmt.Sprintf("CLAUDE_CODE_%d=x", i), fmt.Sprintf("CODEX_%d=x", i))
	}
	out, err := create.Output()
	if err != nil {
		t.Fatal(err)
	}
	var made kaval.Terminal
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatal(err)
	}
	m.await(made.ID, "over", 0)
	screen, err := m.client.Screen(t.Context(), made.ID, kaval.ScreenRequest{Extent: kaval.Full, Trim: true})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(screen.Text, "\n", "")
	for _, none := range []string{"CLAUDE", "CODEX", "s3cret", "outer", "nonesuch", "tput: unknown"} {
		if strings.Contains(text, none) {
			t.Errorf("%s is in the terminal: %s", none, screen.Text)
		}
	}
	for _, some := range []string{
		"COLORTERM=truecolor", "TERM=xterm-256color", "/bin:/opt/mine:", "KAVAL_TERMINAL_ID=" + string(made.ID),
		"KAVAL_SOCKET=" + filepath.Join(m.dir, "run", "kaval", "pty-host.sock"), made.ID.Short() + "  ",
	} {
		if !strings.Contains(text, some) {
			t.Errorf("%s is not in the terminal: %s", some, screen.Text)
		}
	}
}
