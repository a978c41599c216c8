package kavalcmd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"kolu/cli"
	"kolu/cli/kavalcmd"
	"kolu/cli/kavaltui"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
)

// TestMain makes the test binary the daemon and its client, when it is called by their names.
func TestMain(m *testing.M) {
	env := cli.OS()
	switch env.Name {
	case "kaval":
		os.Exit(cli.Main(kavalcmd.New, env))
	case "kaval-tui":
		os.Exit(cli.Main(kavaltui.New, env))
	}
	os.Exit(m.Run())
}

// machine is a private fleet with two builds and a kaval that runs the first.
type machine struct {
	t      *testing.T
	dir    string
	daemon *exec.Cmd
	ended  bool
	client *kavalrpc.Client
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &machine{t: t, dir: dir}
	for _, d := range []string{"run", "a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.build("a", "first")
	m.build("b", "second")
	m.daemon = m.command(m.exe("a"))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m.daemon.Stdout, m.daemon.Stderr = log, log
	if err := m.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
	m.client = kavalrpc.NewClient(m.dialer())
	t.Cleanup(func() { m.client.Close() })
	m.until("kaval answers", func() bool { _, err := daemon.ReadHello(t.Context(), m.dialer()); return err == nil })
	return m
}

// build makes a build of its own id: this very binary with a word behind it.
func (m *machine) build(name, word string) {
	m.t.Helper()
	path, err := os.Executable()
	var self []byte
	if err == nil {
		self, err = os.ReadFile(path)
	}
	if err == nil {
		err = os.WriteFile(m.exe(name), append(self, word...), 0o755)
	}
	if err == nil {
		err = os.Symlink("kaval", filepath.Join(m.dir, name, "kaval-tui"))
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) exe(name string) string { return filepath.Join(m.dir, name, "kaval") }

func (m *machine) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Args[0] = filepath.Base(path)
	cmd.Env = []string{"HOME=" + m.dir, "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh", daemon.RuntimeVar + "=" + filepath.Join(m.dir, "run")}
	cmd.Dir = m.dir
	return cmd
}

func (m *machine) dialer() daemon.Dialer {
	return daemon.Unix(filepath.Join(m.dir, "run", "kaval", daemon.Kaval.Socket))
}

// stop ends the daemon, which ends its terminals, and shows its log when the test failed.
func (m *machine) stop() {
	if m.ended {
		return
	}
	m.ended = true
	_ = m.daemon.Process.Signal(syscall.SIGTERM)
	if err := m.daemon.Wait(); err != nil {
		m.t.Errorf("kaval ended with %v", err)
	}
	if log, err := os.ReadFile(filepath.Join(m.dir, "log")); err == nil && m.t.Failed() {
		m.t.Logf("kaval's log:\n%s", log)
	}
}

// until polls until ok; the bound only catches a hang.
func (m *machine) until(what string, ok func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: it did not happen", what)
		}
		poll := time.NewTimer(5 * time.Millisecond)
		<-poll.C
	}
}

// upgrade asks for another build and gives what was answered.
func (m *machine) upgrade(exe string) (hello daemon.Hello, code, detail string) {
	m.t.Helper()
	client := daemon.HTTPClient(m.dialer())
	defer client.CloseIdleConnections()
	body, _ := json.Marshal(daemon.UpgradeRequest{Executable: exe})
	resp, err := client.Post("http://kaval/v1/upgrade", "application/json", bytes.NewReader(body))
	if err != nil {
		m.t.Fatalf("upgrade: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		code, detail = daemon.ReadProblem(resp)
		return hello, code, detail
	}
	if err := daemon.ReadJSON(resp.Body, &hello); err != nil {
		m.t.Fatalf("upgrade: %v", err)
	}
	return hello, "", ""
}

func (m *machine) hello() daemon.Hello {
	m.t.Helper()
	h, err := daemon.ReadHello(m.t.Context(), m.dialer())
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

func (m *machine) spawn(argv ...string) kaval.Terminal {
	m.t.Helper()
	term, err := m.client.Spawn(m.t.Context(), kaval.SpawnRequest{Argv: argv, CWD: "/"})
	if err != nil {
		m.t.Fatal(err)
	}
	return term
}

func (m *machine) send(id kaval.TerminalID, text string) {
	m.t.Helper()
	if err := m.client.Write(m.t.Context(), id, kaval.Input{Data: []byte(text)}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) await(id kaval.TerminalID, expr string, after int64) kaval.WaitResult {
	m.t.Helper()
	r, err := m.client.Wait(m.t.Context(), id, kaval.WaitRequest{Match: expr, After: &after, TimeoutMS: 120_000})
	if err != nil || r.Result != kaval.Met {
		m.t.Fatalf("wait for %q: %+v, %v", expr, r, err)
	}
	return r
}

func (m *machine) exit(id kaval.TerminalID) (code int, output int64) {
	m.t.Helper()
	r, err := m.client.Wait(m.t.Context(), id, kaval.WaitRequest{IdleMS: kaval.MaxWaitMS})
	if err != nil || r.ExitCode == nil {
		m.t.Fatalf("%+v, %v", r, err)
	}
	return *r.ExitCode, r.Offset
}

// fds is how many descriptors the daemon has, where the system shows them.
func (m *machine) fds() int {
	m.t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.daemon.Process.Pid))
	if err != nil {
		m.t.Fatal(err)
	}
	return len(list)
}

// counter prints 1,000 numbers for each line it is sent.
const counter = `stty -echo; i=0; echo ready; while read x; do j=0; while [ $j -lt 1000 ]; do i=$((i+1)); j=$((j+1)); echo $i; done; done`

// follower reads a counter's output over every upgrade, on one attachment, and asks for more whenever it has seen all there is.
type follower struct {
	m    *machine
	id   kaval.TerminalID
	at   int64
	next int
	rest []byte
	seen chan int // thousands
}

func (f *follower) follow(ctx context.Context) {
	defer close(f.seen)
	for ctx.Err() == nil {
		a, err := f.m.client.Attach(ctx, f.id, kaval.AttachRequest{From: &f.at})
		if err != nil {
			continue
		}
		err = f.read(ctx, a)
		a.Close()
		if err != nil && ctx.Err() == nil {
			f.m.t.Error(err)
			return
		}
	}
}

// read gives nil when the line broke.
func (f *follower) read(ctx context.Context, a kaval.Attachment) error {
	for {
		frame, err := a.Next(ctx)
		if err != nil {
			return nil
		}
		if frame.Kind != kaval.FrameData {
			return fmt.Errorf("a %s frame at %d", frame.Kind, frame.Offset)
		}
		if want := f.at + int64(len(frame.Data)); frame.Offset != want {
			return fmt.Errorf("offset %d after %d bytes from %d", frame.Offset, len(frame.Data), f.at)
		}
		f.at = frame.Offset
		if err := f.count(ctx, frame.Data); err != nil {
			return err
		}
	}
}

func (f *follower) count(ctx context.Context, data []byte) error {
	f.rest = append(f.rest, data...)
	for {
		line, rest, ok := bytes.Cut(f.rest, []byte("\r\n"))
		if !ok {
			return nil
		}
		f.rest = rest
		if string(line) != fmt.Sprint(f.next+1) {
			return fmt.Errorf("%q after %d", line, f.next)
		}
		f.next++
		if f.next%1000 == 0 {
			select {
			case f.seen <- f.next / 1000:
			default:
			}
			if err := f.m.client.Write(ctx, f.id, kaval.Input{Data: []byte("\n")}); err != nil && ctx.Err() == nil {
				return fmt.Errorf("ask for more after %d: %w", f.next, err)
			}
		}
	}
}

// programs are what people leave running, as far as this machine has it; plain shells otherwise.
func programs() [][]string {
	list := [][]string{
		{"sh", "-c", `printf '\033[?1049h\033[2J\033[5;5Hfull screen'; read x; printf '\033[?1049lback:%s.' "$x"; exit 9`},
		{"sh", "-c", `while :; do date; sleep 0.2; done`},
		{"cat"},
	}
	for _, more := range [][]string{{"vim", "-u", "NONE", "-i", "NONE", "-n"}, {"top", "-d", "1"}} {
		if path, err := exec.LookPath(more[0]); err == nil {
			list = append(list, append([]string{path}, more[1:]...))
		}
	}
	return list
}

func TestUpgradeUnderLoad(t *testing.T) {
	const terminals, upgrades = 100, 10
	m := newMachine(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	kinds := programs()
	pids := map[kaval.TerminalID]int{}
	var fullScreen, cats []kaval.TerminalID
	for i := range terminals - 3 {
		kind := kinds[i%len(kinds)]
		term := m.spawn(kind...)
		pids[term.ID] = term.PID
		switch i % len(kinds) {
		case 0:
			fullScreen = append(fullScreen, term.ID)
		case 2:
			cats = append(cats, term.ID)
		}
	}
	shell := m.spawn("sh", "-c", `stty -echo; echo ready; read x; echo "got $x."; exit 7`)
	raw := m.spawn("sh", "-c", "stty raw -echo; echo ready; read x; yes | head -c 2000000; exit 4")
	count := m.spawn("sh", "-c", counter)
	for _, term := range []kaval.Terminal{shell, raw, count} {
		pids[term.ID] = term.PID
		m.await(term.ID, "ready", 0)
	}
	for _, id := range fullScreen {
		m.await(id, "full screen", 0)
	}
	f := &follower{m: m, id: count.ID, at: m.await(count.ID, "ready\r\n", 0).Offset, seen: make(chan int, 1)}
	var following sync.WaitGroup
	following.Go(func() { f.follow(ctx) })
	m.send(count.ID, "\n")
	m.send(raw.ID, "\n")

	first, fds := m.hello(), m.fds()
	for n := range upgrades {
		<-f.seen // it moves
		m.send(shell.ID, fmt.Sprint(n))
		hello, code, detail := m.upgrade(m.exe([]string{"b", "a"}[n%2]))
		if code != "" {
			t.Fatalf("upgrade %d: %s: %s", n, code, detail)
		}
		if hello.PID != first.PID || hello.StartedAt != first.StartedAt || (hello.Build == first.Build) != (n%2 == 1) {
			t.Errorf("upgrade %d: %+v", n, hello)
		}
		m.until("the follower is back", func() bool { _, ok := <-f.seen; return ok })
	}
	m.until("no more descriptors than before", func() bool { return m.fds() <= fds+4 }) // those of connections come and go
	stop()
	following.Wait()

	list, err := m.client.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, term := range list {
		if pids[term.ID] != term.PID {
			t.Errorf("terminal %s has pid %d, was %d", term.ID.Short(), term.PID, pids[term.ID])
		}
		delete(pids, term.ID)
	}
	if code, output := m.exit(raw.ID); code != 4 || output != int64(len("ready\n")+2_000_000) {
		t.Errorf("the flood ended with %d after %d bytes", code, output)
	}
	if delete(pids, raw.ID); len(pids) > 0 {
		t.Errorf("%d terminals are lost: %v", len(pids), pids)
	}
	m.send(shell.ID, ".\n")
	if code, output := m.exit(shell.ID); code != 7 || output != int64(len("ready\r\ngot 0123456789..\r\n")) {
		t.Errorf("the shell ended with %d after %d bytes", code, output)
	}
	for _, id := range fullScreen {
		screen, err := m.client.Screen(t.Context(), id, kaval.ScreenRequest{})
		if err != nil || !screen.AltScreen || !strings.Contains(screen.Text, "    full screen") {
			t.Errorf("screen %+v, %v", screen, err)
		}
		if err := m.client.Resize(t.Context(), id, kaval.Size{Cols: 100, Rows: 31}); err != nil {
			t.Error(err)
		}
		m.send(id, "bye\n")
		if code, _ := m.exit(id); code != 9 {
			t.Errorf("it ended with %d", code)
		}
	}
	for _, id := range cats {
		m.send(id, "meow\n")
		m.await(id, "meow\r\nmeow", 0)
		if err := m.client.Kill(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// A build that cannot take over changes nothing, and nobody notices.
func TestUpgradeRefused(t *testing.T) {
	m := newMachine(t)
	term := m.spawn("sh", "-c", "while read x; do echo $x$x; done")
	a, err := m.client.Attach(t.Context(), term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	before := m.hello()
	script := func(name, text string) string {
		path := filepath.Join(m.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole, err := os.ReadFile(m.exe("a"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ exe, code, detail string }{
		"a script that agrees": {script("yes", "#!/bin/sh\nexit 0\n"), daemon.UpgradeFailed, "it is no kaval"},
		"a script that fails":  {script("no", "#!/bin/sh\necho tired >&2\nexit 3\n"), daemon.UpgradeFailed, "exit status 3: tired"},
		"half a build":         {script("half", string(whole[:len(whole)/2])), daemon.UpgradeFailed, "cannot take over"},
		"no program":           {script("text", "hello"), daemon.UpgradeFailed, "exec format"},
		"another daemon":       {script("padi", "#!/bin/sh\necho '{\"daemon\":\"padi\",\"contract\":\"1.0\"}'\n"), daemon.UpgradeFailed, "it is no kaval"},
		"another contract":     {script("two", "#!/bin/sh\necho '{\"daemon\":\"kaval\",\"contract\":\"2.0\"}'\n"), daemon.UpgradeFailed, "speaks contract 2.0"},
		"an older kind of build": {script("old", "#!/bin/sh\nfor x; do [ \"$x\" = --check-handoff ] && echo 'unknown flag: --check-handoff' >&2 && exit 1; done\n"),
			daemon.UpgradeFailed, "unknown flag"},
		"a folder":        {m.dir, "invalid", "is no file"},
		"nothing there":   {filepath.Join(m.dir, "none"), "invalid", "no such file"},
		"a relative path": {"kaval", "invalid", "not an absolute path"},
		"no permission":   {filepath.Join(m.dir, "log"), "invalid", "permission denied"},
	} {
		_, code, detail := m.upgrade(tt.exe)
		if code != tt.code || !strings.Contains(detail, tt.detail) {
			t.Errorf("%s: %s: %s", name, code, detail)
		}
		m.send(term.ID, "ab\n")
		for text := ""; !strings.Contains(text, "abab"); {
			frame, err := a.Next(t.Context())
			if err != nil {
				t.Fatalf("%s: the attachment ended: %v", name, err)
			}
			text += string(frame.Data)
		}
		if now := m.hello(); now != before {
			t.Errorf("%s: it is %+v, was %+v", name, now, before)
		}
	}
}

// A program that ends on its own in the middle of many upgrades keeps its exit code, and a request that is sent again over an upgrade
// is done once.
func TestUpgradeKeepsAnswers(t *testing.T) {
	m := newMachine(t)
	term := m.spawn("sh", "-c", "stty -echo; echo ready; while read x; do echo \"<$x>\"; done")
	m.await(term.ID, "ready", 0)
	client := daemon.HTTPClient(m.dialer())
	defer client.CloseIdleConnections()
	memory := ""
	ask := func(path, key, body string) (status int, answer string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://kaval"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(daemon.IdempotencyKey, key)
		if memory != "" {
			req.Header.Set(daemon.IdempotencyMemory, memory)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		memory = resp.Header.Get(daemon.IdempotencyMemory)
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(data)
	}
	input := `{"data":"b25jZQo="}` // "once\n"
	path := "/v1/terminals/" + string(term.ID) + "/input"
	if status, answer := ask(path, "k1", input); status != http.StatusOK {
		t.Fatal(answer)
	}
	_, spawned := ask("/v1/terminals", "k2", `{"argv":["sleep","0.05"]}`)
	for _, exe := range []string{"b", "a"} {
		if _, code, detail := m.upgrade(m.exe(exe)); code != "" {
			t.Fatal(code, detail)
		}
		if status, answer := ask(path, "k1", input); status != http.StatusOK {
			t.Errorf("asked again: %d %s", status, answer)
		}
		if _, again := ask("/v1/terminals", "k2", `{"argv":["sleep","0.05"]}`); again != spawned {
			t.Errorf("asked again: %s, was %s", again, spawned)
		}
	}
	m.send(term.ID, "last\n")
	r := m.await(term.ID, "<last>", 0)
	screen, err := m.client.Screen(t.Context(), term.ID, kaval.ScreenRequest{Trim: true})
	if err != nil || strings.Count(screen.Text, "<once>") != 1 {
		t.Errorf("after %d bytes: %q, %v", r.Offset, screen.Text, err)
	}
	var short kaval.Terminal
	if err := json.Unmarshal([]byte(spawned), &short); err != nil {
		t.Fatal(err)
	}
	if code, _ := m.exit(short.ID); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

// Someone who is attached sees an upgrade as nothing at all.
func TestAttachedOverUpgrades(t *testing.T) {
	m := newMachine(t)
	term := m.spawn("sh", "-c", "stty -echo; while read x; do echo \"<$x>\"; done; exit 6")
	cmd := m.command(filepath.Join(m.dir, "a", "kaval-tui"), "attach", string(term.ID))
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(tty); s.Scan(); {
			lines <- s.Text()
		}
	}()
	see := func(want string) {
		t.Helper()
		for {
			line, ok := <-lines
			if !ok {
				t.Fatalf("attach ended before %q", want)
			}
			if strings.Contains(line, want) {
				return
			}
		}
	}
	say := func(text string) {
		t.Helper()
		if _, err := tty.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	say("zero\r")
	see("<zero>")
	for i, exe := range []string{"b", "a", "b"} {
		if _, code, detail := m.upgrade(m.exe(exe)); code != "" {
			t.Fatal(code, detail)
		}
		say(fmt.Sprintf("word %d\r", i))
		see(fmt.Sprintf("<word %d>", i))
	}
	say("\x04")
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 6 {
		t.Errorf("attach ended with %v", err)
	}
}
