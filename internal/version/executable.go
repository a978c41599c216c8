package version

import (
	"os"
	"path/filepath"
)

// Executable is the path of the running executable, as the system tells it; where it does not, as Linux without /proc, the one that the
// kernel was given to start it. A link is not followed.
func Executable() (string, error) {
	path, err := os.Executable()
	if err == nil {
		return path, nil
	}
	if path := startedAs(); path != "" {
		return filepath.Abs(path)
	}
	return "", err
}
