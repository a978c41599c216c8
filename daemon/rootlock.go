package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RootLock makes one process the only one that reads and writes a state root, in whichever runtime directory its socket is: the gate of
// a [Home] can't, since two logins may disagree about that directory. The system frees it with the process. It isn't handed on to
// children.
type RootLock struct{ file *os.File }

// lockWait is how long a lock that is held by a process which does not answer is waited for: it is about to end or about to serve.
const lockWait = 5 * time.Second

// LockRoot takes the lock of self's state root, which must exist, and names self in it. A *RunningError says who has it. Where nothing
// can be locked, and where another machine that shares the folder holds the lock, it says so in the log and gives a lock that
// holds nothing.
func LockRoot(ctx context.Context, self Hello, log *slog.Logger) (*RootLock, error) {
	path := rootLockPath(self.Daemon, self.StateRoot)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	switch {
	case noRoom(err):
		log.Warn("state root not locked", "err", err)
		return &RootLock{}, nil
	case err != nil:
		return nil, fmt.Errorf("lock state root: %w", err)
	}
	l := &RootLock{file: f}
	got, err := l.take(ctx, path)
	if err != nil || !got {
		f.Close()
		l.file = nil
	}
	switch _, running := errors.AsType[*RunningError](err); {
	case running, ctx.Err() != nil:
		return nil, err
	case err != nil:
		log.Warn("state root not locked", "err", err)
	case !got:
		log.Warn("state root not locked: another machine that shares it has it", "path", path)
	default:
		if err := l.Name(self.PID, self.Socket); err != nil {
			log.Warn("state root is locked without a name", "err", err)
		}
	}
	return l, nil
}

// take waits for the lock as long as its holder may be about to end. It gives false when the holder is out of reach.
func (l *RootLock) take(ctx context.Context, path string) (bool, error) {
	began := time.Now()
	for pause := pollFirst; ; pause = min(2*pause, pollMost) {
		err := flock(l.file, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return false, fmt.Errorf("lock %s: %w", path, err)
		}
		holder := readRootLock(path)
		switch {
		case holder.socket != "" && serving(holder.socket), time.Since(began) > lockWait:
			return false, &RunningError{Gate: path, PID: holder.pid, Socket: holder.socket}
		case holder.machine != "" && holder.machine != machineName():
			return false, nil
		}
		if !sleep(ctx, pause) {
			return false, context.Cause(ctx)
		}
	}
}

// Name says who holds the lock and where it serves.
func (l *RootLock) Name(pid int, socket string) error {
	if l == nil || l.file == nil {
		return nil
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt(fmt.Appendf(nil, "%d\t%s\t%s\n", pid, socket, machineName()), 0)
	return err
}

// Close frees the lock. The file stays: a name that is removed while another process opens it would be locked twice.
func (l *RootLock) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	return l.file.Close()
}

func rootLockPath(kind, root string) string { return filepath.Join(root, kind+".lock") }

// lockHolder is what a lock says about who has it, or had it.
type lockHolder struct {
	pid             int
	socket, machine string
}

// readRootLock reads a lock; the zero value is for one that names nobody.
func readRootLock(path string) (h lockHolder) {
	f, err := os.Open(path)
	if err != nil {
		return h
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	line, _, whole := strings.Cut(string(b), "\n")
	if err != nil || !whole {
		return h
	}
	fields := strings.Split(line, "\t")
	pid, err := strconv.ParseInt(fields[0], 10, 32)
	if err != nil || pid <= 0 || len(fields) < 3 || !filepath.IsAbs(fields[1]) {
		return h
	}
	return lockHolder{pid: int(pid), socket: fields[1], machine: fields[2]}
}

// lockedHome is the home of the daemon that the lock of a state root names, if it is on this machine and not at h.
func lockedHome(h Home) (Home, bool) {
	if h.Kind != Padi || h.StateRoot == "" {
		return Home{}, false
	}
	holder := readRootLock(rootLockPath(h.Kind.Name, h.StateRoot))
	if holder.socket == "" || holder.socket == h.Socket() || holder.machine != machineName() || !processAlive(holder.pid) {
		return Home{}, false
	}
	return HomeAt(h.Kind, holder.socket, h.StateRoot), true
}

// noRoom reports that a file could not be made or written because the disk is full.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
