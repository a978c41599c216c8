// Package plainfile reads the files that kolu keeps for itself. Somebody else may have put a named pipe, a device or a directory in
// the place of one, or a link to such: reading that would wait for ever, or never end.
package plainfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Read gives what is in a file of at most max bytes. What is no regular file, and one that is larger, is refused with an error that
// names it; an absent one matches fs.ErrNotExist. It never waits for another process.
func Read(path string, max int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file but a %s: move it away", path, kind(info.Mode()))
	}
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > max {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, max)
	}
	return text, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
