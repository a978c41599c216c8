package daemon

import (
	"os"

	"golang.org/x/sys/unix"
)

// redirect makes what is written to f go to target from now on.
func redirect(target, f *os.File) error { return unix.Dup2(int(target.Fd()), int(f.Fd())) }
