package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"syscall"
)

// Dialer opens connections to one daemon, wherever it is. ctx bounds the dialling, not the connection.
type Dialer interface {
	Dial(ctx context.Context) (net.Conn, error)
}

// DialFunc is a function as a Dialer.
type DialFunc func(ctx context.Context) (net.Conn, error)

// Dial calls f.
func (f DialFunc) Dial(ctx context.Context) (net.Conn, error) { return f(ctx) }

// Unix dials a socket on this machine. Its error names the path, what the system said, and whether a daemon runs there.
func Unix(path string) Dialer {
	return DialFunc(func(ctx context.Context) (net.Conn, error) {
		if err := checkSocketPath(path); err != nil {
			return nil, err
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			return nil, &DialError{Socket: path, Err: bareErrno(err)}
		}
		return conn, nil
	})
}

// DialError is a socket that could not be reached.
type DialError struct {
	Socket string
	Err    error
}

func (e *DialError) Error() string {
	return fmt.Sprintf("connect to %s: %v (%s)", e.Socket, e.Err, e.state())
}

func (e *DialError) Unwrap() error { return e.Err }

// Absent reports whether nothing is there: no socket, or one that nobody listens on. Anything else (no permission, no
// answer) is not absence.
func (e *DialError) Absent() bool {
	return errors.Is(e.Err, fs.ErrNotExist) || errors.Is(e.Err, syscall.ECONNREFUSED)
}

func (e *DialError) state() string {
	dir := filepath.Dir(e.Socket)
	for _, kind := range []Kind{Padi, Kaval} {
		gate := filepath.Join(dir, kind.Name+".pid")
		if holder, err := readGate(gate); err == nil && holder.alive() {
			return fmt.Sprintf("%s runs there as pid %d", kind.Name, holder.pid)
		}
	}
	if e.Absent() {
		return "no daemon runs there"
	}
	return "whether a daemon runs there is unknown"
}

// Absent reports whether err says that no daemon listens there.
func Absent(err error) bool {
	e, ok := errors.AsType[*DialError](err)
	return ok && e.Absent()
}

// bareErrno is the system's own word without the layers that repeat the path.
func bareErrno(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && !strings.Contains(op.Err.Error(), "dial") {
		return op.Err
	}
	return err
}
