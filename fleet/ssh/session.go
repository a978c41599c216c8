package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"kolu/internal/fault"
)

// session is an open channel that has not been told what to run.
type session struct {
	ch   xssh.Channel
	reqs <-chan *xssh.Request
}

// open opens a session channel. A server that never answers leaves a goroutine that ends with the connection.
func (c *Conn) open(ctx context.Context) (*session, error) {
	type result struct {
		s   *session
		err error
	}
	done := make(chan result, 1)
	c.work.Go(func() {
		ch, reqs, err := c.client.OpenChannel("session", nil)
		done <- result{&session{ch, reqs}, err}
	})
	select {
	case r := <-done:
		return r.s, r.err
	case <-ctx.Done():
		c.work.Go(func() {
			if r := <-done; r.err == nil {
				r.s.ch.Close()
			}
		})
		return nil, context.Cause(ctx)
	}
}

// Start runs one line with the login shell of the host, without a terminal. It returns when the server was asked; a server
// that refuses shows in Wait. ctx bounds the starting; the process lives until it ends or Close.
func (c *Conn) Start(ctx context.Context, line string) (*Process, error) {
	return c.start(ctx, line, false)
}

// StartWithAgent is Start for a line that the user's ssh agent is forwarded to, where the ssh configuration says so for the host: its
// $SSH_AUTH_SOCK leads to the agent for as long as it runs.
func (c *Conn) StartWithAgent(ctx context.Context, line string) (*Process, error) {
	return c.start(ctx, line, c.agent)
}

func (c *Conn) start(ctx context.Context, line string, agent bool) (*Process, error) {
	var s *session
	select {
	case s = <-c.first:
	default:
		var err error
		if s, err = c.open(ctx); err != nil {
			return nil, named(sessionFault(err), c.host)
		}
	}
	p := &Process{conn: c, ch: s.ch, done: make(chan struct{}), told: make(chan struct{}), stderr: &tail{}}
	p.in = newInput(p)
	c.work.Go(p.in.run)
	c.work.Go(func() { p.requests(s.reqs) })
	p.drained.Add(1)
	c.work.Go(func() { io.Copy(p.stderr, s.ch.Stderr()); p.drained.Done() })
	c.work.Go(func() {
		defer close(p.told)
		if agent { // a server that forbids it says nothing, and the line runs without
			s.ch.SendRequest("auth-agent-req@openssh.com", false, nil)
		}
		if !p.exec(line) {
			c.shareNoMore()
		}
	})
	return p, nil
}

func sessionFault(err error) error {
	if e, ok := errors.AsType[*xssh.OpenChannelError](err); ok {
		return &fault.Error{Code: fault.LoginRefused, Stage: "start", Who: fault.Host, Err: err,
			Detail: "the server allows no further session on this connection: " + fault.Printable(e.Message, 200),
			Remedy: "close other sessions of this connection, or raise MaxSessions in the host's sshd_config"}
	}
	return &fault.Error{Code: fault.Interrupted, Stage: "start", Who: fault.Host, Err: err,
		Detail: "the connection broke while starting a command: " + fault.Printable(err.Error(), 200)}
}

// Process is one line that runs on a host.
type Process struct {
	conn    *Conn
	ch      xssh.Channel
	in      *input
	stderr  *tail
	drained sync.WaitGroup
	done    chan struct{}
	told    chan struct{} // closed once the server has said whether it runs the line, or never will
	ended   sync.Once
	closing sync.Once

	mu   sync.Mutex
	exit error // set before done is closed
	got  bool
}

// Errors of Wait beside *ExitError.
var (
	// ErrNoStatus means that the channel ended without saying how the command did: the link or the server's session died, or
	// Close came first.
	ErrNoStatus = errors.New("ended without an exit status")
	// ErrExecRefused means that the server does not run commands for this user.
	ErrExecRefused = errors.New("the server refused to run a command")
)

// ExitError is how a command ended that did not end with status 0. Signal is without "SIG"; with it Status is 128.
type ExitError struct {
	Status int
	Signal string
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "killed by signal " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Status)
}

// exec asks the server to run the line. It is false when the server has closed the session without an answer.
func (p *Process) exec(line string) bool {
	ok, err := p.ch.SendRequest("exec", true, xssh.Marshal(struct{ Command string }{line}))
	if err == nil && !ok {
		p.set(ErrExecRefused)
		p.ch.Close()
	}
	return err == nil || !p.set(ErrNoStatus)
}

// set says how the command ended, unless that is known already.
func (p *Process) set(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.got {
		return false
	}
	p.exit, p.got = err, true
	return true
}

func (p *Process) requests(reqs <-chan *xssh.Request) {
	for r := range reqs {
		switch r.Type {
		case "exit-status":
			var m struct{ Status uint32 }
			if xssh.Unmarshal(r.Payload, &m) == nil {
				p.set(exitError(int(m.Status)))
			}
		case "exit-signal":
			var m struct {
				Signal     string
				CoreDumped bool
				Message    string
				Lang       string
			}
			if xssh.Unmarshal(r.Payload, &m) == nil {
				p.set(&ExitError{Status: 128, Signal: fault.Printable(m.Signal, 20)})
			}
		}
		if r.WantReply {
			r.Reply(false, nil)
		}
	}
	select {
	case <-p.told:
	case <-p.done:
	}
	p.set(ErrNoStatus)
	p.drained.Wait()
	p.end()
}

func (p *Process) end() {
	p.in.fail(io.ErrClosedPipe)
	p.ended.Do(func() { close(p.done) })
}

func exitError(status int) error {
	if status == 0 {
		return nil
	}
	return &ExitError{Status: status}
}

// Stdin is the command's input; Close ends it after what was written.
func (p *Process) Stdin() io.WriteCloser { return p.in }

// Stdout is the command's output, which must be read or the command comes to a halt; Close closes the process.
func (p *Process) Stdout() io.ReadCloser { return stdout{p} }

type stdout struct{ p *Process }

func (s stdout) Read(b []byte) (int, error) { return s.p.ch.Read(b) }
func (s stdout) Close() error               { return s.p.Close() }

// Stderr is the tail of what the command printed there so far; all of it once Wait has returned.
func (p *Process) Stderr() string { return p.stderr.String() }

// Wait waits for the end of the command: nil for status 0, else *ExitError, ErrNoStatus or ErrExecRefused.
func (p *Process) Wait() error {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// closeWithin is how long a server may take to confirm that a command was given up.
const closeWithin = 2 * time.Second

// Close gives the command up: sshd closes its pipes. It does not wait; Wait returns soon after, whatever the server does.
func (p *Process) Close() error {
	p.closing.Do(func() {
		p.set(ErrNoStatus)
		p.conn.leave(p.ch) // may have to wait for the line; ends with the connection
		time.AfterFunc(closeWithin, p.end)
	})
	return nil
}

// tail keeps the last bytes that were written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 32 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*tailSize {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-tailSize:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-tailSize):])
}
