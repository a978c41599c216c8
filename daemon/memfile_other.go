//go:build !linux

package daemon

import "os"

// memfile gives a file that has no name any more and is gone with its last descriptor; it is made in dir.
func memfile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "handoff.tmp.") // 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
