package kavaltui

import "syscall"

const (
	sigterm  = syscall.SIGTERM
	sighup   = syscall.SIGHUP
	sigwinch = syscall.SIGWINCH
)

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, syscall.EPIPE }
