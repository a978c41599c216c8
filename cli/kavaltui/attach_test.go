package kavaltui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/kaval"
)

// attachment is a fake whose frames a test feeds.
type attachment struct {
	frames  chan kaval.Frame
	err     error // after the frames
	written chan string
	sizes   chan kaval.Size
}

func newAttachment(err error, frames ...kaval.Frame) *attachment {
	a := &attachment{frames: make(chan kaval.Frame, 100), err: err, written: make(chan string, 100), sizes: make(chan kaval.Size, 100)}
	for _, f := range frames {
		a.frames <- f
	}
	if err != nil {
		close(a.frames)
	}
	return a
}

func (a *attachment) Next(ctx context.Context) (kaval.Frame, error) {
	select {
	case f, ok := <-a.frames:
		if !ok {
			return f, a.err
		}
		return f, nil
	case <-ctx.Done():
		return kaval.Frame{}, ctx.Err()
	}
}

func (a *attachment) Write(_ context.Context, data []byte) error {
	a.written <- string(data)
	return nil
}

func (a *attachment) Resize(_ context.Context, size kaval.Size) error {
	a.sizes <- size
	return nil
}

func (a *attachment) Close() error { return nil }

// user is someone at a terminal who runs attach.
type user struct {
	t       *testing.T
	keys    *os.File // the master
	screen  syncBuffer
	tty     *os.File
	stderr  *bytes.Buffer
	code    chan int
	reading sync.WaitGroup
}

type syncBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{}
}

func (s *syncBuffer) add(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Write(p)
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func attach(t *testing.T, h *clitest.Host, args ...string) *user {
	t.Helper()
	return attachOver(t, func(*cli.Env) (*client.KavalClient, error) {
		return client.NewKaval(h, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
	}, args...)
}

// attachOver is attach with a client that a test makes.
func attachOver(t *testing.T, dial func(*cli.Env) (*client.KavalClient, error), args ...string) *user {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Cols: 90, Rows: 20}); err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, keys: master, tty: tty, code: make(chan int, 1), screen: syncBuffer{more: make(chan struct{}, 1)}}
	u.reading.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			u.screen.add(buf[:n])
			if err != nil {
				return
			}
		}
	})
	env, _, stderr := clitest.Env("kaval-tui", environ, append([]string{"attach", "aa"}, args...)...)
	env.Stdin, env.Stdout, u.stderr = tty, tty, stderr
	connect := func(_ context.Context, env *cli.Env, _ client.Endpoint, _ bool) (*client.KavalClient, error) {
		return dial(env)
	}
	var running sync.WaitGroup
	running.Go(func() { u.code <- cli.Main(func(e *cli.Env) *cobra.Command { return NewWith(e, connect) }, env) })
	t.Cleanup(func() {
		running.Wait()
		tty.Close()
		master.Close()
		u.reading.Wait()
	})
	return u
}

func (u *user) types(s string) {
	u.t.Helper()
	if _, err := io.WriteString(u.keys, s); err != nil {
		u.t.Fatal(err)
	}
}

// sees waits until text was drawn.
func (u *user) sees(text string) {
	u.t.Helper()
	for timeout := time.After(patience); !strings.Contains(u.screen.String(), text); {
		select {
		case <-u.screen.more:
		case <-timeout:
			u.t.Fatalf("never saw %q in %q", text, u.screen.String())
		}
	}
}

// ends waits for the exit code, and looks whether the terminal is as it was.
func (u *user) ends(code int, note string) {
	u.t.Helper()
	select {
	case got := <-u.code:
		if got != code || !strings.Contains(u.stderr.String(), note) {
			u.t.Errorf("exit %d and %q, want %d and %q", got, u.stderr.String(), code, note)
		}
	case <-time.After(patience):
		u.t.Fatal("attach does not end")
	}
	u.sees(reset)
	state, err := term.GetState(int(u.tty.Fd()))
	if err != nil {
		u.t.Fatal(err)
	}
	raw, err := term.MakeRaw(int(u.tty.Fd()))
	if err != nil {
		u.t.Fatal(err)
	}
	if *raw != *state {
		u.t.Error("reading the state twice gives two answers")
	}
	again, err := term.GetState(int(u.tty.Fd()))
	if err != nil {
		u.t.Fatal(err)
	}
	if *again == *state {
		u.t.Error("the terminal was left raw")
	}
}

func snapshot(text string, offset int64) kaval.Frame {
	return kaval.Frame{Kind: kaval.FrameSnapshot, Data: []byte(text), Offset: offset, Size: kaval.Size{Cols: 90, Rows: 20}}
}

func data(text string, offset int64) kaval.Frame {
	return kaval.Frame{Kind: kaval.FrameData, Data: []byte(text), Offset: offset}
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestAttachDetach(t *testing.T) {
	h, a := fakeHost(), newAttachment(nil, snapshot("the screen", 10), data("more", 14))
	h.Attachments = []kaval.Attachment{a}
	u := attach(t, h)
	u.sees("more")
	if got := h.Attached[0]; got.Size != (kaval.Size{Cols: 90, Rows: 20}) || got.From != nil {
		t.Errorf("attached with %+v", got)
	}
	u.types("echo hi\r~.never")
	u.ends(0, "— detached · aaaaaaaa stays live in the daemon\n")
	if got := receive(t, a.written); got != "echo hi\r" {
		t.Errorf("wrote %q", got)
	}
	if !strings.Contains(u.screen.String(), "PTY pid 100") {
		t.Errorf("no notice in %q", u.screen.String())
	}
}

func TestAttachOtherEscape(t *testing.T) {
	h, a := fakeHost(), newAttachment(nil, snapshot("the screen", 10))
	h.Attachments = []kaval.Attachment{a}
	u := attach(t, h, "--escape", "%")
	u.sees("the screen")
	u.types("~.\r%?")
	u.sees("%. leaves the terminal running")
	u.types("%.")
	u.ends(0, "detached")
	if got := receive(t, a.written); got != "~.\r" {
		t.Errorf("wrote %q", got)
	}
}

func TestAttachExitCodes(t *testing.T) {
	for code, want := range map[int]int{0: 0, 7: 7, 255: 255, 256: 1, -1: 1} {
		h := fakeHost()
		h.Attachments = []kaval.Attachment{newAttachment(nil, snapshot("s", 1), kaval.Frame{Kind: kaval.FrameExit, ExitCode: code})}
		attach(t, h).ends(want, "aaaaaaaa exited (code")
	}
}

// A line that breaks is made again from the last byte that was drawn; nothing is drawn twice.
func TestAttachResumes(t *testing.T) {
	broke := errors.New("the line broke")
	h := fakeHost()
	last := newAttachment(nil, data("three", 15))
	h.Attachments = []kaval.Attachment{
		newAttachment(broke, snapshot("one", 5), data("two", 10)),
		newAttachment(broke),
		last,
	}
	u := attach(t, h)
	u.sees("three")
	if n := strings.Count(u.screen.String(), clear); n != 1 {
		t.Errorf("the screen was cleared %d times", n)
	}
	for i, want := range []int64{-1, 10, 10} {
		if from := h.Attached[i].From; (from == nil) != (want < 0) || (from != nil && *from != want) {
			t.Errorf("attachment %d from %v, want %d", i, from, want)
		}
	}
	u.types("~.")
	u.ends(0, "detached")
}

// A reader that was too slow gets a fresh snapshot on a cleared screen.
func TestAttachOverflow(t *testing.T) {
	h := fakeHost()
	h.Attachments = []kaval.Attachment{newAttachment(nil, snapshot("one", 5), kaval.Frame{Kind: kaval.FrameOverflow, Lost: 9}, snapshot("two", 20))}
	u := attach(t, h)
	u.sees("two")
	if n := strings.Count(u.screen.String(), clear); n != 2 || !strings.Contains(u.screen.String(), "PTY pid 100 unchanged") {
		t.Errorf("%d clears in %q", n, u.screen.String())
	}
	u.types("~.")
	u.ends(0, "detached")
}

// The end of a terminal while the line was down is told with its code, and never with one that was made up.
func TestAttachEndedMeanwhile(t *testing.T) {
	code := 5
	for name, tt := range map[string]struct {
		exit *int
		want int
		note string
	}{"known": {&code, 5, "exited (code 5)"}, "unknown": {nil, 1, "exit code is not known"}} {
		t.Run(name, func(t *testing.T) {
			h := fakeHost()
			h.Attachments = []kaval.Attachment{newAttachment(errors.New("the line broke"), snapshot("one", 5))}
			h.OnWait = func(context.Context, kaval.TerminalID, kaval.WaitRequest) (kaval.WaitResult, error) {
				return kaval.WaitResult{Result: kaval.Gone, ExitCode: tt.exit}, nil
			}
			attach(t, h).ends(tt.want, tt.note)
		})
	}
}

func TestAttachGivesUp(t *testing.T) {
	broke := errors.New("the line broke")
	h := fakeHost()
	h.Attachments = []kaval.Attachment{
		newAttachment(broke, snapshot("one", 5)), newAttachment(broke), newAttachment(broke), newAttachment(broke),
	}
	attach(t, h).ends(1, "the daemon went away mid-attach (the line broke)")
}

func TestAttachFirstFrame(t *testing.T) {
	h := fakeHost()
	h.Attachments = []kaval.Attachment{newAttachment(nil, data("no snapshot", 5))}
	attach(t, h).ends(1, "broke the protocol")
}

func TestAttachSignalled(t *testing.T) {
	h := fakeHost()
	h.Attachments = []kaval.Attachment{newAttachment(nil, snapshot("one", 5))}
	u := attach(t, h)
	u.sees("one")
	me, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := me.Signal(sigterm); err != nil {
		t.Fatal(err)
	}
	u.ends(143, "stays live")
}

func TestAttachResizes(t *testing.T) {
	h, a := fakeHost(), newAttachment(nil, snapshot("one", 5))
	h.Attachments = []kaval.Attachment{a}
	u := attach(t, h)
	u.sees("one")
	if err := pty.Setsize(u.keys, &pty.Winsize{Cols: 50, Rows: 10}); err != nil {
		t.Fatal(err)
	}
	me, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := me.Signal(sigwinch); err != nil { // the tty is not the test's own, so the system does not send it
		t.Fatal(err)
	}
	if got := receive(t, a.sizes); got != (kaval.Size{Cols: 50, Rows: 10}) {
		t.Errorf("resized to %+v", got)
	}
	u.types("~.")
	u.ends(0, "detached")
}

// What is not there is said before the screen is touched.
func TestAttachNotFound(t *testing.T) {
	h := fakeHost()
	h.Live = nil
	u := attach(t, h)
	select {
	case code := <-u.code:
		if code != 1 || u.screen.String() != "" || !strings.Contains(u.stderr.String(), "no terminal matching") {
			t.Errorf("exit %d, screen %q, %s", code, u.screen.String(), u.stderr)
		}
	case <-time.After(patience):
		t.Fatal("attach does not end")
	}
}

// redrawn is an attachment that outlives its line, and counts how often it was asked for a fresh snapshot.
type redrawn struct {
	*attachment
	asked chan struct{}
}

func (a redrawn) Redraw() { a.asked <- struct{}{} }

// TestWhatIsSaidOfTheLineIsDrawnOver says something of the line while the terminal is raw: it begins at the left of a line of its
// own, and the screen is asked for anew, since it has drawn over the program's.
func TestWhatIsSaidOfTheLineIsDrawnOver(t *testing.T) {
	a := redrawn{newAttachment(nil, snapshot("hello", 5)), make(chan struct{}, 8)}
	h := fakeHost()
	h.Attachments = []kaval.Attachment{a}
	said := make(chan io.Writer, 1)
	u := attachOver(t, func(env *cli.Env) (*client.KavalClient, error) {
		said <- env.Stderr
		return client.NewKaval(h, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
	})
	u.sees("hello")
	if _, err := io.WriteString(<-said, "— h: the line was lost\n"); err != nil {
		t.Fatal(err)
	}
	u.sees("\r\n— h: the line was lost\r\n")
	select {
	case <-a.asked:
	case <-time.After(patience):
		t.Error("the screen is not drawn anew")
	}
	a.frames <- kaval.Frame{Kind: kaval.FrameExit}
	u.ends(0, "exited")
}

// TestAttachToItself is refused: the terminal would draw its own screen into itself for ever.
func TestAttachToItself(t *testing.T) {
	h := fakeHost()
	h.Attachments = []kaval.Attachment{newAttachment(nil, snapshot("the screen", 10))}
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	env, _, stderr := clitest.Env("kaval-tui", append(slices.Clone(environ), "KAVAL_TERMINAL_ID="+string(h.Live[0].ID)), "attach", "aa")
	env.Stdin, env.Stdout = tty, tty
	connect := func(context.Context, *cli.Env, client.Endpoint, bool) (*client.KavalClient, error) {
		return client.NewKaval(h, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
	}
	code := cli.Main(func(e *cli.Env) *cobra.Command { return NewWith(e, connect) }, env)
	if code != 1 || !strings.Contains(stderr.String(), "is the terminal that this runs in") || len(h.Attached) != 0 {
		t.Errorf("exit %d, %d attachments: %s", code, len(h.Attached), stderr)
	}
}
