package kavaltui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/daemon/kaval"
	"kolu/internal/fault"
)

func newAttach(t *tree) *cobra.Command {
	var escape string
	cmd := &cobra.Command{
		Use:   "attach <id>",
		Short: "Take a terminal over on this one; ~. at the start of a line leaves it running",
		Long: `Take a terminal over on this one. At the start of a line, ~. leaves it running, ~? shows help and ~~ types one ~.
The last client that attached or changed its size decides the size. Attach ends with the exit code of the program when that ends.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(escape) != 1 || escape[0] < 0x20 || escape[0] > 0x7e {
				return fmt.Errorf("--escape %q: want one printable ASCII character", escape)
			}
			return runAttach(cmd.Context(), t, args[0], escape[0])
		},
	}
	cmd.Flags().StringVar(&escape, "escape", "~", "the `character` that begins an escape at the start of a line")
	return cmd
}

// tty is the terminal of the user: what is typed, what is drawn.
type tty struct {
	in  *os.File
	out io.Writer
	fd  int // of the output
}

func (t *tree) tty() (tty, error) {
	in, ok := t.env.Stdin.(*os.File)
	out, isFile := t.env.Stdout.(interface{ Fd() uintptr })
	if !ok || !isFile || !cli.IsTTY(t.env.Stdin) || !cli.IsTTY(t.env.Stdout) {
		return tty{}, fmt.Errorf("attach needs a terminal on stdin and stdout — `%s snapshot <id>` prints a screen without one", t.self)
	}
	return tty{in: in, out: t.env.Stdout, fd: int(out.Fd())}, nil
}

func (t tty) size() kaval.Size {
	cols, rows, err := term.GetSize(t.fd)
	if err != nil || cols <= 0 || rows <= 0 {
		return kaval.Size{Cols: kaval.DefaultCols, Rows: kaval.DefaultRows}
	}
	return kaval.Size{Cols: min(cols, kaval.MaxCols), Rows: min(rows, kaval.MaxRows)}
}

// reset brings a terminal back from whatever the program made of it: main screen, no mouse, focus or paste reports, normal
// keys, wrapping, plain colours, a visible cursor.
const reset = "\x1b[?1049l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[?7h\x1b[0m\x1b[?25h"

// clear makes the terminal ready for a snapshot, whatever was drawn on it before.
const clear = "\x1b[?1049l\x1b[0m\x1b[r\x1b[H\x1b[2J\x1b[3J"

func runAttach(ctx context.Context, t *tree, word string, escape byte) (err error) {
	ep, query, err := t.flags.At(t.env.Dir, word)
	if err != nil {
		return err
	}
	screen, err := t.tty()
	if err != nil {
		return err
	}
	s := &session{t: t, ep: ep, tty: screen, stderr: t.env.Stderr}
	if s.c, err = s.connect(ctx); err != nil {
		return err
	}
	defer s.closeClient()
	if s.target, err = t.resolve(ctx, s.c, ep, query); err != nil {
		return err
	}
	if string(s.target.ID) == t.env.Getenv("KAVAL_TERMINAL_ID") {
		return fmt.Errorf("%s is the terminal that this runs in: attached here it would draw itself without end", s.target.ID.Short())
	}
	code, err := s.inRawMode(ctx, escape)
	return s.farewell(ctx, code, err)
}

// errDetached ends a session by the user's wish.
var errDetached = errors.New("detached")

// farewell says how the session ended and picks the exit code.
func (s *session) farewell(ctx context.Context, code int, err error) error {
	short := s.target.ID.Short()
	switch {
	case errors.Is(err, errDetached):
		s.t.note("detached · %s stays live in the daemon", short)
		return nil
	case err != nil && ctx.Err() != nil:
		s.t.note("detached · %s stays live in the daemon", short)
		return cli.Exit(cli.ExitCode(context.Cause(ctx)), nil)
	case err != nil:
		return err
	}
	s.t.note("%s exited (code %d)", short, code)
	if code < 0 || code > 255 {
		code = 1
	}
	if code == 0 {
		return nil
	}
	return cli.Exit(code, nil)
}

// session is one attach: the user's terminal on one side, on the other an attachment. Over a line to another machine that goes on
// over the next line by itself; on this machine it is made again when it breaks.
type session struct {
	t      *tree
	ep     client.Endpoint
	c      *client.KavalClient
	tty    tty
	target kaval.Terminal
	offset *int64 // after the last byte that was drawn

	mu     sync.Mutex
	raw    bool
	redraw func() // of the attachment there is; nil when it can't
	stderr io.Writer
}

// connect reaches the daemon. What is said on the way, and of the line later, is printed by Write.
func (s *session) connect(ctx context.Context) (*client.KavalClient, error) {
	env := *s.t.env
	env.Stderr = s
	return s.t.connect(ctx, &env, s.ep, false)
}

// Write prints what is said of the line. On a raw terminal it goes between the program's output, and the screen is drawn anew when
// the line is back.
func (s *session) Write(text []byte) (int, error) {
	s.mu.Lock()
	raw, redraw := s.raw, s.redraw
	s.mu.Unlock()
	if !raw {
		return s.stderr.Write(text)
	}
	if redraw != nil {
		redraw()
	}
	s.notice(strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

func (s *session) setRaw(raw bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = raw
}

// drawing takes note of the attachment that draws.
func (s *session) drawing(att kaval.Attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redraw = nil
	if a, ok := att.(interface{ Redraw() }); ok {
		s.redraw = a.Redraw
	}
}

func (s *session) closeClient() {
	if s.c != nil {
		_ = s.c.Close() // the daemon stays; nothing of ours is lost
		s.c = nil
	}
}

// inRawMode runs the session with the terminal raw and brings it back on every path.
func (s *session) inRawMode(ctx context.Context, escape byte) (int, error) {
	old, err := term.MakeRaw(int(s.tty.in.Fd()))
	if err != nil {
		return 0, fmt.Errorf("make the terminal raw: %w", err)
	}
	s.setRaw(true)
	defer func() {
		s.setRaw(false)
		_, _ = io.WriteString(s.tty.out, reset+"\r\n")
		_ = term.Restore(int(s.tty.in.Fd()), old) // nothing better is left to do
	}()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := newOutbox()
	in, err := s.startInput(inner, cancel, out, escape)
	if err != nil {
		return 0, err
	}
	defer func() {
		cancel(nil) // frees a reader that waits for room
		in.stop()
	}()
	code, err := s.follow(inner, out)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		return 0, context.Cause(inner) // the user left, or the keyboard failed
	}
	return code, err
}

// startInput reads what the user types, and the size of the terminal, into out until the session ends.
func (s *session) startInput(ctx context.Context, cancel context.CancelCauseFunc, out *outbox, escape byte) (*input, error) {
	in, err := newInput(s.tty.in)
	if err != nil {
		return nil, err
	}
	scan, strip := &scanner{escape: escape}, &stripper{}
	in.wg.Go(func() {
		err := in.read(func(chunk []byte) bool {
			a := scan.scan(strip.strip(chunk))
			out.input(ctx, a.send)
			if a.help {
				s.notice(fmt.Sprintf("%[1]c. leaves the terminal running · %[1]c%[1]c types one %[1]c · %[1]c? shows this", escape))
			}
			return !a.detach
		})
		if err == nil || errors.Is(err, io.EOF) {
			out.drain(ctx)
			err = errDetached
		}
		cancel(err)
	})
	winch := make(chan os.Signal, 1)
	signal.Notify(winch, syscall.SIGWINCH)
	in.wg.Go(func() {
		defer signal.Stop(winch)
		for {
			select {
			case <-winch:
				out.resize(s.tty.size())
			case <-ctx.Done():
				return
			}
		}
	})
	return in, nil
}

// notice prints a line of ours between the program's.
func (s *session) notice(text string) { fmt.Fprintf(s.tty.out, "\r\n%s\r\n", text) }

const (
	reattachFirst = 150 * time.Millisecond
	reattachMost  = 5 * time.Second
	// localTries is how often in a row an attachment on this machine may give nothing before we give up. A line to another
	// machine is tried until the user leaves.
	localTries = 3
)

// follow draws attachment after attachment until the program ends, and gives its exit code.
func (s *session) follow(ctx context.Context, out *outbox) (int, error) {
	barren := 0
	for {
		code, progress, err := s.once(ctx, out)
		if err == nil || ctx.Err() != nil || fatal(err) {
			return code, err
		}
		if progress {
			barren = 0
		}
		barren++
		if barren > localTries && !s.ep.Remote() {
			return 0, fmt.Errorf("the daemon went away mid-attach (%w) — run `%s` again", err, s.t.hint(s.ep, "attach", s.target.ID.Short()))
		}
		select {
		case <-time.After(min(reattachFirst<<min(barren-1, 10), reattachMost)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// fatal errors are answers; trying again would give the same one.
func fatal(err error) bool {
	for _, answer := range []error{kaval.ErrNoTerminal, kaval.ErrGone, kaval.ErrInvalid, kaval.ErrRefused, errProtocol, errNoExit} {
		if errors.Is(err, answer) {
			return true
		}
	}
	_, unreachable := errors.AsType[*fault.Error](err)
	return unreachable
}

var (
	errProtocol = errors.New("the daemon broke the protocol of attach")
	errNoExit   = errors.New("the terminal ended and its exit code is not known")
)

// once makes one attachment and draws it to its end. progress says that it gave something.
func (s *session) once(ctx context.Context, out *outbox) (code int, progress bool, err error) {
	if s.c == nil {
		if s.c, err = s.connect(ctx); err != nil {
			return 0, false, err
		}
	}
	att, err := s.c.Attach(ctx, s.target.ID, kaval.AttachRequest{Size: s.tty.size(), From: s.offset})
	switch {
	case s.offset != nil && (errors.Is(err, kaval.ErrGone) || errors.Is(err, kaval.ErrNoTerminal)):
		code, err = s.exitCode(ctx)
		return code, false, err
	case err != nil:
		s.dropLine(err)
		return 0, false, err
	}
	defer att.Close()
	s.drawing(att)
	stop := out.connect(ctx, att)
	defer stop()
	code, progress, err = s.draw(ctx, att)
	if err != nil {
		s.dropLine(err)
	}
	return code, progress, err
}

// dropLine lets the next try make a line of its own to another machine.
func (s *session) dropLine(err error) {
	if s.ep.Remote() && !fatal(err) {
		s.closeClient()
	}
}

// draw writes the frames of one attachment to the terminal until Exit.
func (s *session) draw(ctx context.Context, att kaval.Attachment) (code int, progress bool, err error) {
	for {
		f, err := att.Next(ctx)
		if err != nil {
			return 0, progress, err
		}
		switch f.Kind {
		case kaval.FrameSnapshot:
			s.restored(f)
			f.Data = append([]byte(clear), f.Data...)
		case kaval.FrameData:
			if s.offset == nil {
				return 0, progress, errProtocol
			}
		case kaval.FrameExit:
			return f.ExitCode, true, nil
		default:
			continue
		}
		if _, err := s.tty.out.Write(f.Data); err != nil {
			return 0, progress, err
		}
		progress = true
		s.offset = &f.Offset
	}
}

func (s *session) restored(f kaval.Frame) {
	unchanged := ""
	if s.offset != nil {
		unchanged = " unchanged"
	}
	s.notice(fmt.Sprintf("↻ snapshot restored — %d line(s) · PTY pid %d%s", lines(f.Data), s.target.PID, unchanged))
}

func lines(data []byte) int {
	n := 1
	for _, c := range data {
		if c == '\n' {
			n++
		}
	}
	return n
}

// exitCode asks for the exit code of a terminal that ended while the line was down.
func (s *session) exitCode(ctx context.Context) (int, error) {
	res, err := s.c.Wait(ctx, s.target.ID, kaval.WaitRequest{IdleMS: 1})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoExit, err)
	}
	if res.Result != kaval.Gone || res.ExitCode == nil {
		return 0, errNoExit
	}
	return *res.ExitCode, nil
}
