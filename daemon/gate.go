package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrRunning says that another process is this daemon already, so there is nothing to do.
var ErrRunning = errors.New("already running")

// RunningError is ErrRunning with who it is.
type RunningError struct {
	Gate string
	PID  int
	// Socket is where it serves; empty where that follows from the gate, and where it isn't known.
	Socket string
}

func (e *RunningError) Error() string {
	switch {
	case e.Socket != "":
		return fmt.Sprintf("already running as pid %d at %s (%s)", e.PID, e.Socket, e.Gate)
	case e.PID == 0:
		return "already running, by a process that gives no name (" + e.Gate + ")"
	}
	return fmt.Sprintf("already running as pid %d (%s)", e.PID, e.Gate)
}

// Is makes a RunningError an ErrRunning.
func (e *RunningError) Is(target error) bool { return target == ErrRunning }

const (
	startTolerance = 2 * time.Second
	gateAttempts   = 100
	probeTimeout   = 500 * time.Millisecond
)

// holder is what one reading of a gate says.
type holder struct {
	content string
	pid     int
	started time.Time // zero in the old form, which has only the pid
	mark    string    // see processMark; empty where the system has none
}

var errMalformedGate = errors.New("malformed gate")

// readGate reads a gate once. fs.ErrNotExist means free; errMalformedGate that nobody can be meant.
func readGate(path string) (holder, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return holder{}, err
	}
	return parseGate(string(b))
}

func parseGate(content string) (holder, error) {
	h := holder{content: content}
	fields := strings.Split(strings.TrimRight(content, "\n"), "\t")
	digits := len(fields[0]) - len(strings.TrimLeft(fields[0], "0123456789"))
	pid, err := strconv.ParseInt(fields[0][:digits], 10, 32)
	if err != nil || pid <= 0 {
		return h, errMalformedGate
	}
	h.pid = int(pid)
	if len(fields) < 2 {
		return h, nil
	}
	micros, err := strconv.ParseUint(fields[1], 10, 63)
	if err != nil {
		return h, errMalformedGate
	}
	h.started = time.UnixMicro(int64(micros))
	if len(fields) > 2 {
		h.mark = fields[2]
	}
	return h, nil
}

// alive reports whether the very process that wrote the gate lives. In the old form any process of that pid counts. The start is by the
// wall clock, which may have been set since; the mark is not.
func (h holder) alive() bool {
	if !processAlive(h.pid) {
		return false
	}
	if h.started.IsZero() {
		return true
	}
	if now := processMark(h.pid); now != "" && h.mark != "" {
		return now == h.mark
	}
	started, err := processStart(h.pid)
	return err != nil || started.Sub(h.started).Abs() <= startTolerance
}

// held reports whether a gate must be respected. When its process is not the one that lives under its pid now, or the
// gate has the old form, the socket decides: only one that is surely dead frees the gate.
func (h holder) held(socket string) (bool, error) {
	if !processAlive(h.pid) {
		return false, nil
	}
	if !h.started.IsZero() {
		return h.alive() || serving(socket), nil
	}
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case info.Mode().Type() != fs.ModeSocket:
		return false, nil
	}
	return !refused(probe(socket)), nil
}

func probe(socket string) error {
	conn, err := net.DialTimeout("unix", socket, probeTimeout)
	if err == nil {
		conn.Close()
	}
	return err
}

func serving(socket string) bool { return probe(socket) == nil }

func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// processAlive reports whether a process runs. One that has ended and that nobody has waited for, as is common where process 1 is no
// init, does not.
func processAlive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return (err == nil || errors.Is(err, syscall.EPERM)) && !zombie(pid)
}

// claim is a gate that this process holds.
type claim struct {
	path    string
	content string
}

// claimGate makes this process the daemon of a home, or says with a RunningError who is. The gate appears whole or not at
// all: it is written aside and hard-linked into place. Judging an old gate and taking it away happen under a lock on the
// directory, so that nobody removes what another has put there meanwhile.
func claimGate(h Home) (*claim, error) {
	started, err := processStart(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("read own start time: %w", err)
	}
	unlock, err := lockDir(h.Dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", h.Dir, err)
	}
	defer unlock()
	c := &claim{path: h.Gate(), content: gateContent(os.Getpid(), started)}
	for attempt := range gateAttempts {
		err := c.link(attempt)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("claim %s: %w", c.path, err)
		}
		if err := c.judge(h.Socket()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("claim %s: still contested after %d attempts", c.path, gateAttempts)
}

func gateContent(pid int, started time.Time) string {
	content := fmt.Sprintf("%d\t%d", pid, started.UnixMicro())
	if mark := processMark(pid); mark != "" {
		content += "\t" + mark
	}
	return content + "\n"
}

func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := flock(d, syscall.LOCK_EX); err != nil {
		d.Close()
		return nil, err
	}
	return func() { d.Close() }, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func (c *claim) link(attempt int) error {
	tmp := fmt.Sprintf("%s.tmp.%d.%d", c.path, os.Getpid(), attempt)
	defer os.Remove(tmp) // also what a full disk leaves of it
	if err := os.WriteFile(tmp, []byte(c.content), 0o600); err != nil {
		return err
	}
	return os.Link(tmp, c.path)
}

// judge looks once at who holds the gate. It returns nil when the way is free: the gate was stale and is removed.
func (c *claim) judge(socket string) error {
	holder, err := readGate(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errMalformedGate):
	case err != nil:
		return fmt.Errorf("read gate: %w", err)
	default:
		held, err := holder.held(socket)
		if err != nil {
			return fmt.Errorf("judge gate %s: %w", c.path, err)
		}
		if held {
			return &RunningError{Gate: c.path, PID: holder.pid}
		}
	}
	return removeIf(c.path, holder.content)
}

// removeIf removes a gate that still has the content it was judged by.
func removeIf(path, content string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && string(b) != content) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ours reports whether the gate on disk is still this one.
func (c *claim) ours() bool {
	b, err := os.ReadFile(c.path)
	return err == nil && string(b) == c.content
}

// release frees the gate if it is still ours.
func (c *claim) release() error { return removeIf(c.path, c.content) }
