package cli

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// EndUnread ends the command, with success, when the reader of its stdout has left, also while there is nothing to print. It is for
// verbs that do nothing but follow; others find out at their next write. stop ends the watch.
func EndUnread(env *Env) (stop func()) {
	s, ok := env.Stdout.(*stdoutWriter)
	if !ok {
		return func() {}
	}
	return watchReader(s.w, s.left)
}

// watchReader calls gone when the reader of a pipe has left, also while nothing is written to it. stop ends the watch.
func watchReader(stdout io.Writer, gone func()) (stop func()) {
	f, ok := stdout.(*os.File)
	if !ok {
		return func() {}
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return func() {}
	}
	woken, wake, err := os.Pipe()
	if err != nil {
		return func() {} // the next write says it
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if readerLeft(int32(f.Fd()), int32(woken.Fd())) {
			gone()
		}
	}()
	return func() {
		wake.Close()
		<-ended
		woken.Close()
	}
}

// readerLeft waits until nobody reads the pipe out any more, or until woken is closed at its other end.
func readerLeft(out, woken int32) bool {
	for {
		fds := []unix.PollFd{{Fd: out}, {Fd: woken}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		if fds[1].Revents != 0 {
			return false
		}
		if fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			return true
		}
	}
}
