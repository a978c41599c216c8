package provision

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"kolu/internal/fault"
)

// patience is how long a host may be silent, by what it is doing.
type patience struct {
	quick  time.Duration // an answer
	send   time.Duration // taking bytes
	verify time.Duration // reading back, registering, going to the disk
	end    time.Duration // ending, once it has said everything
	stall  time.Duration // how long the host waits for bytes that do not come before it gives up by itself
	idle   time.Duration // the same for a server, which nobody asks anything while another session verifies
}

var usualPatience = patience{quick: 30 * time.Second, send: 60 * time.Second, verify: 120 * time.Second, end: 2 * time.Second, stall: 90 * time.Second, idle: 150 * time.Second}

// maxTalk bounds what a host may print beside our lines, and each of those.
const maxTalk = 64 << 10

var errSilent = errors.New("the host was silent for too long")

// command is one running script of ours on a host.
type command struct {
	proc  Process
	nonce string
	out   *bufio.Reader
	talk  int // bytes read that were not ours
	patience

	quiet    *time.Timer
	stop     func() bool
	ctx      context.Context // of the caller, with the silence as a further cause
	stopWith context.CancelCauseFunc
	close    func()        // ends the process and frees it
	ended    chan struct{} // closed when the process has
	err      error         // of Wait, once ended is closed
}

// start runs a line. The caller calls close in every case.
func (in *installer) start(ctx context.Context, line, nonce string) (*command, error) {
	proc, err := in.run.Start(ctx, line)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	out, copied := io.Pipe()
	c := &command{proc: proc, nonce: nonce, out: bufio.NewReaderSize(out, 4<<10), ctx: ctx, stopWith: end, patience: in.patience, ended: make(chan struct{})}
	// Over a dead link a process ends, and its streams let go, only when the connection does. So nobody waits for these two
	// without a bound.
	go func() {
		_, err := io.Copy(copied, proc.Stdout())
		copied.CloseWithError(err)
	}()
	go func() { c.err = proc.Wait(); close(c.ended) }()
	c.stop = context.AfterFunc(ctx, func() {
		out.CloseWithError(context.Cause(ctx))
		proc.Close()
	})
	c.close = sync.OnceFunc(func() { c.release(out) })
	c.quiet = time.AfterFunc(c.quick, func() { end(errSilent) })
	return c, nil
}

// alive is called whenever something moved; the host may then be silent for d.
func (c *command) alive(d time.Duration) { c.quiet.Reset(d) }

// release ends the process and frees it.
func (c *command) release(out io.Closer) {
	c.quiet.Stop()
	c.stop()
	c.stopWith(nil)
	out.Close()
	c.proc.Close()
	select {
	case <-c.ended:
	case <-time.After(c.end):
	}
}

// finish waits a moment for the process to end by itself, so that its stderr is complete and its session free.
func (c *command) finish() {
	c.proc.Stdin().Close()
	select {
	case <-c.ended:
	case <-c.ctx.Done():
	case <-time.After(c.end):
	}
}

// linkFault is the word of the runner that its link broke, or nil.
func (c *command) linkFault() *fault.Error {
	select {
	case <-c.ended:
		f, _ := errors.AsType[*fault.Error](c.err)
		return f
	default:
		return nil
	}
}

// line is one of our lines: a word (mark, fact, end) and the rest.
type line struct{ word, rest string }

// next gives the next line of ours. What else is printed is skipped, up to a bound.
func (c *command) next() (line, error) {
	prefix := "@kolu " + c.nonce + " "
	for c.talk <= maxTalk {
		text, err := c.text()
		if _, ours, ok := strings.Cut(text, prefix); ok && err == nil {
			word, rest, _ := strings.Cut(strings.TrimRight(ours, "\r"), " ")
			return line{word, rest}, nil
		}
		c.talk += len(text) + 1
		if err != nil {
			return line{}, c.cause(err)
		}
	}
	return line{}, fmt.Errorf("the host printed %d bytes of something else", maxTalk)
}

// text reads up to a newline, and no more than maxTalk.
func (c *command) text() (string, error) {
	var b strings.Builder
	for {
		part, err := c.out.ReadSlice('\n')
		b.Write(part)
		switch {
		case err == nil:
			return strings.TrimSuffix(b.String(), "\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return b.String(), err
		case b.Len() > maxTalk:
			return b.String(), nil
		}
	}
}

// cause prefers why we ended a process over what that did to its streams.
func (c *command) cause(err error) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// broken turns a failure of the conversation itself into a fault: the caller gave up, the host was silent, or the line
// broke. It gives nil when the failure is none of these and the host may have a reason of its own.
func (c *command) broken(err error) *fault.Error {
	switch {
	case errors.Is(err, errSilent):
		return &fault.Error{Code: fault.Timeout, Stage: stage, Who: fault.Host, Err: err, Detail: errSilent.Error(), Evidence: c.said()}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return interrupted(err, c.said())
	}
	return c.linkFault()
}

func (c *command) said() string { return fault.Printable(c.proc.Stderr(), 2<<10) }

func interrupted(err error, evidence string) *fault.Error {
	code := fault.Interrupted
	if errors.Is(err, context.DeadlineExceeded) {
		code = fault.Timeout
	}
	return &fault.Error{
		Code: code, Stage: stage, Err: err, Evidence: evidence,
		Detail: "the build did not get there: " + err.Error(), Remedy: "run the same command again: nothing half done is used",
	}
}

// asFault makes a fault of any error; one that is a fault already stays what it is.
func asFault(err error) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return interrupted(err, "")
	}
	return &fault.Error{Code: fault.Interrupted, Stage: stage, Err: err, Detail: err.Error(), Remedy: "run the same command again"}
}
