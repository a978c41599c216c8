package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// StartConfig says which daemon must run and how to start it.
type StartConfig struct {
	Home Home
	// Exe is the program file, Name what it is called by (its first argument), Args what follows.
	Exe  string
	Name string
	Args []string
	// Environ is the daemon's whole environment, "K=V". What belongs to a login over ssh is taken out.
	Environ []string
	// Timeout bounds the wait for the first hello; zero means ten seconds.
	Timeout time.Duration
	Log     *slog.Logger

	machine machine // where it is started; the zero value is this one
}

const (
	startTimeout = 10 * time.Second
	pollFirst    = 5 * time.Millisecond
	pollMost     = 200 * time.Millisecond
	settle       = 500 * time.Millisecond
	logTail      = 2 << 10
)

// Start makes sure that the daemon of a home runs and answers, and gives its hello. One that runs is taken as it is, whichever
// build it has, and in whichever runtime directory it lives; else one is started that outlives this process and its
// login. Several Starts at once give one daemon. Nothing that runs is ever ended, and where it is not certain that nothing
// runs, nothing is started.
func Start(ctx context.Context, c StartConfig) (Hello, error) {
	if c.Timeout == 0 {
		c.Timeout = startTimeout
	}
	if c.machine.files == nil {
		c.machine = thisMachine()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("%s did not answer within %v", c.Home.Kind.Name, c.Timeout))
	defer cancel()
	if hello, ok, err := c.adopt(ctx); ok || err != nil {
		return hello, err
	}
	if err := OpenHome(c.Home); err != nil {
		return Hello{}, err
	}
	unlock, err := lockStart(ctx, filepath.Join(c.Home.Dir, c.Home.Kind.Name+".start"))
	if err != nil {
		return Hello{}, fmt.Errorf("wait for another start of %s: %w", c.Home.Kind.Name, err)
	}
	defer unlock()
	if hello, ok, err := c.adopt(ctx); ok || err != nil {
		return hello, err
	}
	return c.run(ctx)
}

// detourTimeout is how long what runs before the daemon may take.
const detourTimeout = 4 * time.Second

// run starts the daemon in the best way that works here.
func (c StartConfig) run(ctx context.Context) (Hello, error) {
	log, err := freshLog(c.Home.Log())
	if err != nil {
		return Hello{}, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer log.Close()
	if err := checkRoom(c.Home.Dir); err != nil {
		return Hello{}, fmt.Errorf("start %s: %w", c.Name, err)
	}
	ways := c.launchers()
	for _, way := range ways[:len(ways)-1] {
		hello, err := c.try(ctx, way, log)
		if err == nil || ctx.Err() != nil {
			return hello, err
		}
		c.Log.Warn("no cgroup of its own for the daemon", "daemon", c.Name, "err", err)
	}
	return c.try(ctx, ways[len(ways)-1], log)
}

// try starts the daemon in one way and waits for its hello. One that gives way to a predecessor which then ends, instead of
// answering, is started again.
func (c StartConfig) try(ctx context.Context, way launcher, log *os.File) (Hello, error) {
	for {
		p, err := c.launch(way, log)
		if err != nil {
			return Hello{}, fmt.Errorf("start %s: %w", c.Name, err)
		}
		hello, err := c.follow(ctx, way, p)
		if err != errGaveWay {
			return hello, err
		}
		if hello, err := c.awaitHolder(ctx); err != errNoHolder {
			return hello, err
		}
	}
}

// follow waits for the hello of what was launched. What runs first on a detour must have become the daemon in good time.
func (c StartConfig) follow(ctx context.Context, way launcher, p *launched) (Hello, error) {
	if !way.detour {
		return c.await(ctx, p.ended)
	}
	first, cancel := context.WithTimeout(ctx, min(detourTimeout, c.Timeout/2))
	defer cancel()
	hello, err := c.await(first, p.ended)
	if err == nil || err == errGaveWay || isDead(err) {
		return hello, err
	}
	if p.became(c.Exe) {
		return c.await(ctx, p.ended)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return Hello{}, err
	}
	return Hello{}, fmt.Errorf("start %s: %s does not answer", c.Name, filepath.Base(p.cmd.Path))
}

// homes are where the daemon may be.
func (c StartConfig) homes() []Home {
	others := elsewhere(c.Home, c.getenv)
	if locked, ok := lockedHome(c.Home); ok {
		others = append(others, locked)
	}
	return append([]Home{c.Home}, slices.DeleteFunc(others, func(h Home) bool { return checkPrivate(h.Dir) != nil })...)
}

// adopt looks for the daemon that runs. An error says that something is there which can't be told.
func (c StartConfig) adopt(ctx context.Context) (Hello, bool, error) {
	for _, h := range c.homes() {
		hello, err := greetSettled(ctx, h)
		if err == nil {
			return hello, true, nil
		}
		if !Absent(err) {
			return Hello{}, false, err
		}
	}
	return Hello{}, false, nil
}

// greetSettled is Greet, asked again for a moment while the other side hangs up: one that is just ending does that.
func greetSettled(ctx context.Context, h Home) (Hello, error) {
	for pause := pollFirst; ; pause *= 2 {
		hello, err := Greet(ctx, h)
		if !hungUp(err) || pause > settle || !sleep(ctx, pause) {
			return hello, err
		}
	}
}

func hungUp(err error) bool {
	for _, end := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func (c StartConfig) getenv(key string) string {
	for i := len(c.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(c.Environ[i], key+"="); ok {
			return v
		}
	}
	return ""
}

// lockStart makes starts of one daemon wait for each other; the system frees the lock of one that dies.
func lockStart(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for pause := pollFirst; ; pause = min(2*pause, pollMost) {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, err
		}
		if !sleep(ctx, pause) {
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// checkRoom refuses a directory on a full disk, where a daemon could not even say that it is full.
func checkRoom(dir string) error {
	f, err := os.CreateTemp(dir, "room.tmp.")
	if err == nil {
		_, err = f.Write(make([]byte, 4<<10))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if noRoom(err) {
		return fmt.Errorf("no space left on %s", dir)
	}
	return err
}

// freshLog opens a new log and keeps the one before as .old.
func freshLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// loginVars belong to one login or to one unit of systemd.
var loginVars = []string{
	"XDG_SESSION_ID", "XDG_SESSION_TYPE", "XDG_SESSION_CLASS",
	"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "NOTIFY_SOCKET", "MANAGERPID", "MANAGERPIDFDID",
	"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC",
}

// DetachedEnv is an environ without what belongs to one login: the agent and the tty that ssh forwards are dead when it ends,
// and a daemon lives on. It is also without the addresses of the terminal that it was started from.
func DetachedEnv(environ []string) []string {
	var overSSH bool
	for _, kv := range environ {
		overSSH = overSSH || strings.HasPrefix(kv, "SSH_CONNECTION=")
	}
	var env []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case overSSH && strings.HasPrefix(name, "SSH_"):
		case slices.Contains(loginVars, name):
		case name == Padi.SocketVar(), name == Kaval.SocketVar(), name == "KAVAL_TERMINAL_ID":
		default:
			env = append(env, kv)
		}
	}
	return env
}

var (
	errGaveWay  = errors.New("gave way to another")
	errNoHolder = errors.New("the other has ended")
)

// await polls for the hello until it comes, the child ends, or ctx ends. errGaveWay is a child that left in peace.
func (c StartConfig) await(ctx context.Context, ended <-chan error) (Hello, error) {
	return c.poll(ctx, func(pause <-chan time.Time) error {
		select {
		case <-pause:
		case exit := <-ended:
			if exit != nil {
				return c.died(exit)
			}
			return errGaveWay
		case <-ctx.Done():
		}
		return nil
	})
}

// awaitHolder polls for the hello of the process that holds the gate; errNoHolder says that there is none any more.
func (c StartConfig) awaitHolder(ctx context.Context) (Hello, error) {
	return c.poll(ctx, func(pause <-chan time.Time) error {
		if !slices.ContainsFunc(c.homes(), func(h Home) bool {
			holder, err := readGate(h.Gate())
			return err == nil && holder.alive()
		}) {
			return errNoHolder
		}
		select {
		case <-pause:
		case <-ctx.Done():
		}
		return nil
	})
}

// poll looks for the daemon with growing pauses, in each of which wait may find a reason to give up.
func (c StartConfig) poll(ctx context.Context, wait func(pause <-chan time.Time) error) (Hello, error) {
	for pause := pollFirst; ; pause = min(2*pause, pollMost) {
		hello, ok, err := c.adopt(ctx)
		if ok {
			return hello, nil
		}
		if ctx.Err() != nil {
			return Hello{}, c.silent(context.Cause(ctx), err)
		}
		if reason := wait(time.After(pause)); reason != nil {
			return Hello{}, reason
		}
	}
}

func (c StartConfig) died(exit error) error {
	return &diedError{fmt.Errorf("start %s: it ended at once (%v): %s", c.Name, exit, lastLines(c.Home.Log()))}
}

func (c StartConfig) silent(cause, last error) error {
	err := fmt.Errorf("start %s: %w; its log %s ends: %s", c.Name, cause, c.Home.Log(), lastLines(c.Home.Log()))
	if last != nil {
		err = fmt.Errorf("%w (%v)", err, last)
	}
	return err
}

// lastLines is the end of a log as one line.
func lastLines(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		f.Seek(-logTail, io.SeekEnd)
	}
	b, _ := io.ReadAll(io.LimitReader(f, logTail))
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := strings.Join(lines[max(0, len(lines)-5):], " | "); last != "" {
		return last
	}
	return "nothing was logged"
}
