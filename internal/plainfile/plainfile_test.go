package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Neither a pipe that nobody writes to, nor a device without an end, nor a directory holds a reader up.
func TestReadTakesFilesOnly(t *testing.T) {
	dir := t.TempDir()
	pipe, link, plain := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "plain")
	for _, err := range []error{
		syscall.Mkfifo(pipe, 0o600), os.Symlink("/dev/zero", link), os.WriteFile(plain, []byte("four"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		path string
		max  int64
		want string
	}{
		{pipe, 9, "named pipe"}, {link, 9, "device"}, {dir, 9, "directory"}, {plain, 3, "larger than 3"},
	} {
		if _, err := Read(tt.path, tt.max); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("Read(%s) = %v, want its name and %q", tt.path, err, tt.want)
		}
	}
	if text, err := Read(plain, 4); err != nil || string(text) != "four" {
		t.Errorf("Read = %q, %v", text, err)
	}
	if _, err := Read(filepath.Join(dir, "none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read = %v, want ErrNotExist", err)
	}
}
