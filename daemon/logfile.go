package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

const (
	logSize  = 10 << 20
	logFiles = 3
)

// LogFile is a log that never grows past a bound: at 10 MB it moves to PATH.1 (and that to .2, the last goes). One process
// writes it.
type LogFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLogFile opens a log to append to, readable by its owner only.
func OpenLogFile(path string) (*LogFile, error) {
	l := &LogFile{path: path, limit: logSize}
	return l, l.open()
}

func (l *LogFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends one record, whole in one file.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.limit {
		if err := l.roll(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *LogFile) roll() error {
	l.file.Close()
	for i := logFiles - 1; i >= 1; i-- {
		from := l.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", l.path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", l.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return l.open()
}

// Close closes the file.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// boundLog keeps the log at path within limit while standard error goes there, as it does in a daemon that was started by [Start]:
// one that has grown past it is kept as .old, and one that was removed is opened anew. What others append between two
// calls is not bounded, so call it often.
func boundLog(path string, limit int64) error {
	out, err := os.Stderr.Stat()
	if err != nil || !out.Mode().IsRegular() {
		return nil
	}
	named, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && removed(out):
	case err != nil || !os.SameFile(out, named) || out.Size() <= limit:
		return nil
	}
	fresh, err := freshLog(path)
	if err != nil {
		return fmt.Errorf("roll log: %w", err)
	}
	defer fresh.Close()
	if err := redirect(fresh, os.Stderr); err != nil {
		return fmt.Errorf("roll log: %w", err)
	}
	return nil
}

// removed reports whether an open file has no name any more.
func removed(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}
