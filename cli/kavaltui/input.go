package kavaltui

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kolu/daemon/kaval"
)

// input reads a terminal and can be stopped while nothing is typed.
type input struct {
	file       *os.File
	wake, stay *os.File // a pipe: closing stay wakes read
	wg         sync.WaitGroup
}

func newInput(file *os.File) (*input, error) {
	wake, stay, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &input{file: file, wake: wake, stay: stay}, nil
}

// stop ends read and waits for it.
func (in *input) stop() {
	in.stay.Close()
	in.wg.Wait()
	in.wake.Close()
}

// read gives chunks to take until take says no, the input ends (io.EOF), or stop.
func (in *input) read(take func([]byte) bool) error {
	buf := make([]byte, 4096)
	fd, wake := int(in.file.Fd()), int(in.wake.Fd())
	for {
		var set unix.FdSet
		set.Set(fd)
		set.Set(wake)
		_, err := unix.Select(max(fd, wake)+1, &set, nil, nil, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case set.IsSet(wake):
			return errStopped
		}
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		if !take(buf[:n]) {
			return nil
		}
	}
}

var errStopped = errors.New("the session has ended")

const (
	// maxQueued bounds what is kept of typing that the program did not take yet. It is far more than anyone pastes, so the escape is
	// still read behind a paste into a program that does not read.
	maxQueued = 16 << 20
	// maxStep is the most that is written at once.
	maxStep = 64 << 10
)

// outbox is the one ordered way to the terminal's program: keystrokes and sizes. What is typed while no attachment is
// connected is kept and sent to the next one.
type outbox struct {
	mu      sync.Mutex
	pending []byte
	size    *kaval.Size
	busy    bool          // something was taken out and is being written
	changed chan struct{} // closed and made anew with every change
}

func newOutbox() *outbox { return &outbox{changed: make(chan struct{})} }

func (o *outbox) wakeLocked() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// input queues what was typed. Where very much is queued it waits until some was taken, or ctx ends: nothing is ever left out.
func (o *outbox) input(ctx context.Context, data []byte) {
	for len(data) > 0 {
		o.mu.Lock()
		changed := o.changed
		if len(o.pending)+len(data) <= maxQueued {
			o.pending = append(o.pending, data...)
			data = nil
			o.wakeLocked()
		}
		o.mu.Unlock()
		if data == nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (o *outbox) resize(size kaval.Size) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size = &size
	o.wakeLocked()
}

// drainLimit is how long a detach waits for what was typed before it.
const drainLimit = 2 * time.Second

// drain returns when everything was written, or after drainLimit.
func (o *outbox) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for {
		o.mu.Lock()
		empty, changed := len(o.pending) == 0 && o.size == nil && !o.busy, o.changed
		o.mu.Unlock()
		if empty {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// connect writes to an attachment until stop is called; stop waits for the write in flight.
func (o *outbox) connect(ctx context.Context, att kaval.Attachment) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for o.pass(ctx, att) {
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// pass writes what there is, or waits for something; false ends it.
func (o *outbox) pass(ctx context.Context, att kaval.Attachment) bool {
	o.mu.Lock()
	data, size, changed := o.pending, o.size, o.changed
	o.pending, o.size = nil, nil
	if len(data) > maxStep {
		data, o.pending = data[:maxStep:maxStep], data[maxStep:]
	}
	o.busy = len(data) > 0 || size != nil
	o.mu.Unlock()
	var err error
	if size != nil {
		err = att.Resize(ctx, *size)
	}
	if len(data) > 0 && err == nil {
		err = att.Write(ctx, data)
	}
	o.mu.Lock()
	if o.busy {
		o.busy = false
		o.wakeLocked()
		changed = o.changed
	}
	more := len(o.pending) > 0 || o.size != nil
	o.mu.Unlock()
	if err != nil {
		return false // Next of the attachment tells the same
	}
	if more {
		return true
	}
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}
