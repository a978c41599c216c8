package daemon

import (
	"os"
	"os/signal"
	"syscall"
)

// takeIgnored handles, by doing nothing, the signals that this process may have been started to ignore, until undo. An ignored signal
// stays ignored in every program that is started, so that nothing could be suspended in a terminal, or would end with it; one
// that is handled is at its default there. On a terminal the daemon itself can still be suspended.
func takeIgnored() (undo func()) {
	nobody := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(nobody, sig)
		}
	}
	if tty, err := os.Open("/dev/tty"); err == nil {
		tty.Close()
	} else {
		signal.Notify(nobody, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT)
	}
	return func() { signal.Stop(nobody) }
}
