package ptyhost

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kolu/daemon/kaval"
)

// hasTurn waits until a writer has its turn.
func hasTurn(t *terminal) {
	for len(t.lane) == 0 {
		poll := time.NewTimer(time.Millisecond)
		<-poll.C
	}
}

func newTestHost(t *testing.T) *Host {
	h := New(Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), RunDir: t.TempDir()})
	t.Cleanup(h.Close)
	return h
}

func spawnTest(t *testing.T, h *Host, argv ...string) kaval.TerminalID {
	t.Helper()
	term, err := h.Spawn(t.Context(), kaval.SpawnRequest{Argv: argv, CWD: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return term.ID
}

func writeTest(t *testing.T, h *Host, id kaval.TerminalID, text string) {
	t.Helper()
	if err := h.Write(t.Context(), id, kaval.Input{Data: []byte(text)}); err != nil {
		t.Fatal(err)
	}
}

// awaitText waits until the output from an offset on matches.
func awaitText(t *testing.T, h *Host, id kaval.TerminalID, expr string, after int64) kaval.WaitResult {
	t.Helper()
	r, err := h.Wait(t.Context(), id, kaval.WaitRequest{Match: expr, After: &after, TimeoutMS: 60_000})
	if err != nil || r.Result != kaval.Met {
		t.Fatalf("wait for %q: %+v, %v", expr, r, err)
	}
	return r
}

// successor hands over to a second host in this process. The old one rests for good; the new one has descriptors of its own.
func successor(t *testing.T, f *Frozen, options Options) *Host {
	t.Helper()
	var saved bytes.Buffer
	if err := f.Save(&saved); err != nil {
		t.Fatal(err)
	}
	state, err := ReadState(&saved)
	if err != nil || saved.Len() > 0 {
		t.Fatalf("read state: %v, %d bytes left", err, saved.Len())
	}
	late, err := f.Leave(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range state.terminals {
		fd, err := unix.FcntlInt(uintptr(state.terminals[i].FD), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		state.terminals[i].FD = fd
	}
	return Resume(options, state, late)
}

// resting is a host whose terminals pass to a successor; it is not closed, because its programs are no longer its own.
func resting(t *testing.T) *Host {
	return New(Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), RunDir: t.TempDir()})
}

func TestHandOver(t *testing.T) {
	old := resting(t)
	shell := spawnTest(t, old, "sh", "-c", `stty -echo; printf 'ask:\033]0;mine\007\033]7501;state=working:app=x\033\\'; read x; printf 'got %s.' "$x"; read y; exit 7`)
	ended := spawnTest(t, old, "sh", "-c", "exit 3")
	dying := spawnTest(t, old, "sh", "-c", "echo up; read x; exit 5")
	files, err := old.Spawn(t.Context(), kaval.SpawnRequest{
		Argv: []string{"sh", "-c", "echo up; while read x; do . {dir}/a; done"}, CWD: "/", InitFiles: []kaval.InitFile{{Name: "a", Content: "echo here"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := old.Wait(t.Context(), ended, kaval.WaitRequest{IdleMS: 60_000}); err != nil || r.Result != kaval.Gone {
		t.Fatalf("%+v, %v", r, err)
	}
	awaitText(t, old, shell, "ask:", 0)
	at := awaitText(t, old, dying, "up", 0).Offset
	awaitText(t, old, files.ID, "up", 0)
	writeTest(t, old, shell, "half a ") // a line that is not finished
	if err := old.Resize(t.Context(), shell, kaval.Size{Cols: 91, Rows: 19}); err != nil {
		t.Fatal(err)
	}
	before, err := old.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	screenBefore, err := old.Screen(t.Context(), shell, kaval.ScreenRequest{ANSI: true})
	if err != nil {
		t.Fatal(err)
	}

	waited := make(chan kaval.WaitResult, 1)
	viewer, err := old.Attach(t.Context(), dying, kaval.AttachRequest{From: &at})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		r, err := old.Wait(context.Background(), dying, kaval.WaitRequest{Match: "never"})
		if err != nil {
			t.Error(err)
		}
		waited <- r
	}()
	f, err := old.Freeze(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// It ends while everything rests; whoever reaps it then would keep its exit code to himself.
	pid := 0
	for _, term := range before {
		if term.ID == dying {
			pid = term.PID
		}
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := make(chan error, 1)
	go func() { late <- viewer.Write(context.Background(), []byte("x")) }()
	hasTurn(viewer.(*attachment).t)
	if _, err := old.Freeze(t.Context()); !errors.Is(err, kaval.ErrRefused) {
		t.Errorf("a second one: %v", err)
	}
	go func() {
		if _, err := viewer.Next(context.Background()); !errors.Is(err, kaval.ErrClosing) {
			t.Errorf("the attachment ended with %v", err)
		}
		viewer.Close()
	}()
	next := successor(t, f, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), RunDir: old.opts.RunDir})
	defer next.Close()
	if r := <-waited; r.Result != kaval.Closed {
		t.Errorf("the wait ended with %+v", r)
	}
	if err := <-late; err != nil {
		t.Errorf("input on its way: %v", err)
	}

	if r, err := next.Wait(t.Context(), dying, kaval.WaitRequest{IdleMS: 60_000}); err != nil || r.ExitCode == nil || *r.ExitCode != 128+15 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := next.Wait(t.Context(), ended, kaval.WaitRequest{IdleMS: 1}); err != nil || r.Result != kaval.Gone || *r.ExitCode != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	screen, err := next.Screen(t.Context(), shell, kaval.ScreenRequest{ANSI: true})
	if err != nil || screen != screenBefore {
		t.Errorf("the screen is %+v, %v; was %+v", screen, err, screenBefore)
	}
	list, err := next.List(t.Context())
	if err != nil || len(list) < 2 {
		t.Fatal(list, err)
	}
	was, is := before[0], list[0]
	if is.ID != shell || is.PID != was.PID || is.Title != "mine" || is.Cols != 91 || is.StartedAt != was.StartedAt ||
		is.LastActivity != was.LastActivity || is.Output != was.Output || is.Status == nil || is.Status.State != "working" {
		t.Errorf("the record is %+v, was %+v", is, was)
	}
	writeTest(t, next, shell, "line\n")
	awaitText(t, next, shell, `got half a line\.`, is.Output)
	if err := next.Resize(t.Context(), shell, kaval.Size{Cols: 70, Rows: 17}); err != nil {
		t.Error(err)
	}
	writeTest(t, next, shell, "\n")
	if r, err := next.Wait(t.Context(), shell, kaval.WaitRequest{IdleMS: 60_000}); err != nil || r.ExitCode == nil || *r.ExitCode != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	writeTest(t, next, files.ID, "\n")
	awaitText(t, next, files.ID, "here", 0) // its init files are still there
	if err := next.Kill(t.Context(), files.ID); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(old.opts.RunDir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A flood is cut at a byte: what was read is on the screen, the rest waits in the terminal.
func TestHandOverInAFlood(t *testing.T) {
	const want = 600_000
	old := resting(t)
	id := spawnTest(t, old, "sh", "-c", "stty raw; yes | head -c 600000; echo; exit 4")
	if _, err := old.Wait(t.Context(), id, kaval.WaitRequest{Match: "y"}); err != nil {
		t.Fatal(err)
	}
	h := old
	for range 3 {
		f, err := h.Freeze(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h = successor(t, f, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), RunDir: t.TempDir()})
	}
	defer h.Close()
	r, err := h.Wait(t.Context(), id, kaval.WaitRequest{IdleMS: 120_000})
	if err != nil || r.ExitCode == nil || *r.ExitCode != 4 || r.Offset != want+1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Input that a program does not read yet goes along, before what is sent to the successor.
func TestHandOverOfInput(t *testing.T) {
	old := resting(t)
	id := spawnTest(t, old, "sh", "-c", "stty raw -echo; echo up; read go; head -c 200011 | cksum; echo; sleep 1000")
	awaitText(t, old, id, "up", 0)
	writeTest(t, old, id, "go\n")
	data := []byte(strings.Repeat("0123456789", 20_000))
	term, err := old.find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(-term.proc.PID, unix.SIGSTOP); err != nil { // now nobody reads
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- old.Write(context.Background(), id, kaval.Input{Data: data}) }()
	hasTurn(term)
	f, err := old.Freeze(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := successor(t, f, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), RunDir: t.TempDir()})
	defer next.Close()
	if err := <-written; err != nil {
		t.Errorf("the write ended with %v", err)
	}
	second := make(chan error, 1)
	go func() { second <- next.Write(context.Background(), id, kaval.Input{Data: []byte("and no more")}) }()
	if err := unix.Kill(-term.proc.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	awaitText(t, next, id, checksum(append(data, "and no more"...))+" 200011", 0)
}

// A thaw undoes everything.
func TestThaw(t *testing.T) {
	h := newTestHost(t)
	id := spawnTest(t, h, "cat")
	attachment, err := h.Attach(t.Context(), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer attachment.Close()
	f, err := h.Freeze(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"spawn":  func() error { _, err := h.Spawn(ctx, kaval.SpawnRequest{}); return err },
		"kill":   func() error { return h.Kill(ctx, id) },
		"resize": func() error { return h.Resize(ctx, id, kaval.Size{Cols: 30}) },
		"attach": func() error { _, err := h.Attach(ctx, id, kaval.AttachRequest{}); return err },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s at rest: %v", name, err)
		}
	}
	if err := f.Save(io.Discard); err != nil {
		t.Error(err)
	}
	written := make(chan error, 1)
	go func() { written <- h.Write(context.Background(), id, kaval.Input{Data: []byte("hello\n")}) }()
	f.Thaw()
	if err := <-written; err != nil {
		t.Error(err)
	}
	awaitText(t, h, id, "hello\r\nhello", 0)
	for text := ""; !strings.Contains(text, "hello\r\nhello"); {
		frame, err := attachment.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text += string(frame.Data)
	}

	// Even after everyone was told to leave: what came in the meantime is written.
	f, err = h.Freeze(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() { written <- h.Write(context.Background(), id, kaval.Input{Data: []byte("again\n")}) }()
	attachment.Close()
	if _, err := f.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Thaw()
	if err := <-written; err != nil {
		t.Error(err)
	}
	awaitText(t, h, id, "again\r\nagain", 0)
	if err := h.Kill(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestStateIsRefused(t *testing.T) {
	h := newTestHost(t)
	spawnTest(t, h, "cat")
	f, err := h.Freeze(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Thaw()
	var saved bytes.Buffer
	if err := f.Save(&saved); err != nil {
		t.Fatal(err)
	}
	good := saved.Bytes()
	if _, err := ReadState(bytes.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"nothing":        {},
		"cut short":      good[:len(good)/2],
		"one byte less":  good[:len(good)-1],
		"another format": bytes.Replace(good, []byte(`{"format":1,`), []byte(`{"format":2,`), 1),
		"no format":      bytes.Replace(good, []byte(`{"format":1,`), []byte(`{"fOrmaT":0,`), 1),
		"another screen": bytes.Replace(good, []byte("kolu-vt1"), []byte("kolu-vt0"), 1),
		"damaged":        append(append([]byte(nil), good[:len(good)-1]...), good[len(good)-1]^1),
		"no program":     bytes.Replace(good, []byte(`"pid":`), []byte(`"pix":`), 1),
	} {
		if _, err := ReadState(bytes.NewReader(bad)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

// checksum is what cksum prints for data, without the length.
func checksum(data []byte) string {
	cmd := exec.Command("cksum")
	cmd.Stdin = bytes.NewReader(data)
	out, _ := cmd.Output()
	sum, _, _ := strings.Cut(string(out), " ")
	return sum
}
