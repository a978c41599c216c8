package ptyhost

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/pty"
	"kolu/daemon/kaval/vt"
)

const (
	// readSize is the most output taken in one step.
	readSize = 64 << 10
	// drainGrace is how long output is read on after the program ended, where the system does not say that it was the last.
	drainGrace = 500 * time.Millisecond
	// maxMarks bounds how many changes of the grid are remembered for readers that lag.
	maxMarks = 1024
)

// terminal is one live terminal. It is made by newTerminal, runs from run on, and has ended when done is closed.
type terminal struct {
	host      *Host
	id        kaval.TerminalID
	proc      *pty.Process
	files     *initFiles
	startedAt time.Time

	exited chan struct{} // the program at the root has ended
	done   chan struct{} // it has left the inventory and all of its goroutines are about to end
	lane   chan struct{} // held by the writer whose turn it is
	kicks  chan kick     // to the sampler
	quit   chan struct{} // ends the sampler

	// The live facts of the record, set by the reader without a lock.
	offset     atomic.Int64 // after the last byte
	lastOutput atomic.Int64 // Unix milliseconds
	mutedUntil atomic.Int64 // Unix milliseconds

	replies replyQueue

	io       gate       // steps of reading and writing
	deadline sync.Mutex // guards held and the deadline of writes
	held     bool       // a hand-over is under way: writes are cut short and go on after it
	tap      tapState   // the reader's alone

	mu      sync.Mutex
	screen  *vt.Terminal
	out     ring
	size    kaval.Size
	marks   []mark
	seq     uint64       // of the last mark
	dropped uint64       // marks up to this one are forgotten
	snap    *kaval.Frame // the snapshot of this moment, if it was asked for
	quiet   time.Time    // since when no byte came
	changed chan struct{}
	ended   bool
	code    int
	carry   []byte // input that the next build is to write

	rec kaval.Terminal // guarded by host.mu
}

// mark says that the grid changed after the bytes up to offset.
type mark struct {
	seq    uint64
	offset int64
	was    kaval.Size
	size   kaval.Size
}

func newTerminal(h *Host, id kaval.TerminalID, proc *pty.Process, size kaval.Size, files *initFiles) *terminal {
	now := time.Now()
	t := &terminal{
		host: h, id: id, proc: proc, files: files, startedAt: now, quiet: now,
		exited: make(chan struct{}), done: make(chan struct{}), lane: make(chan struct{}, 1),
		kicks: make(chan kick, 4), quit: make(chan struct{}),
		screen: newScreen(size, h.opts.Version), size: size,
	}
	t.lastOutput.Store(now.UnixMilli())
	return t
}

// run starts the goroutines of the terminal; the host waits for them.
func (t *terminal) run() {
	t.host.readers.Go(t.sample)
	t.host.readers.Go(func() {
		codes := make(chan int, 1)
		t.host.readers.Go(func() { t.reap(codes) })
		t.read()
		<-t.exited
		t.finish(<-codes)
	})
}

// reap waits for the program at the root.
func (t *terminal) reap(codes chan<- int) {
	t.proc.AwaitExit()
	_ = t.host.reaps.enter(context.Background(), nil) // never fails without an end of the context
	defer t.host.reaps.leave()
	code, err := t.proc.Wait()
	if err != nil {
		t.host.log.Error("wait for program", "terminal", t.id, "err", err)
		code = -1
	}
	codes <- code
	close(t.exited)
	// A process that kept the terminal may never end the output.
	_ = t.proc.Master.SetReadDeadline(time.Now().Add(drainGrace))
	<-t.done
}

// buffers are shared, so that a terminal that says nothing holds none.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// read takes output until there can be no more.
func (t *terminal) read() {
	raw, err := t.proc.Master.SyscallConn()
	if err != nil {
		t.host.log.Error("read output", "terminal", t.id, "err", err)
		return
	}
	for {
		err := t.readOnce(raw)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.drain(raw)
			return
		case errors.Is(err, syscall.EIO), errors.Is(err, io.EOF):
			// Nobody has the terminal open. Its program may live on and open it again.
			select {
			case <-t.exited:
				return
			case <-time.After(50 * time.Millisecond):
			}
		default:
			t.host.log.Error("read output", "terminal", t.id, "err", err)
			return
		}
	}
}

// readOnce waits for output and takes what is there, up to one buffer.
func (t *terminal) readOnce(raw syscall.RawConn) error {
	var failed error
	err := raw.Read(func(fd uintptr) bool {
		_ = t.io.enter(context.Background(), nil) // never fails without an end of the context
		defer t.io.leave()
		buf := buffers.Get().(*[readSize]byte)
		defer buffers.Put(buf)
		n, err := fill(int(fd), buf[:])
		failed = nil
		switch {
		case n > 0:
			t.publish(buf[:n])
		case errors.Is(err, unix.EAGAIN):
			return false
		default:
			failed = err
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}

// drain takes what is there after the time for reading is over; it bounds what a process that kept the terminal can still say.
func (t *terminal) drain(raw syscall.RawConn) {
	buf := make([]byte, readSize)
	for total := 0; total < ringSize; {
		n := 0
		err := raw.Control(func(fd uintptr) { n, _ = fill(int(fd), buf) })
		if err != nil || n == 0 {
			return
		}
		t.publish(buf[:n])
		total += n
	}
}

// fill reads until the buffer is full or nothing more is there. The error counts only when nothing was read.
func fill(fd int, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && m == 0 {
			err = io.EOF
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// publish makes output known: the screen first, so that a snapshot and what follows it have no gap and no overlap.
func (t *terminal) publish(data []byte) {
	now := time.Now()
	t.mu.Lock()
	t.screen.Write(data)
	t.out.append(data)
	replies, events := t.screen.Drain(), t.screen.Events()
	t.snap, t.quiet = nil, now
	t.offset.Store(t.out.end)
	t.lastOutput.Store(now.UnixMilli())
	t.wake()
	t.mu.Unlock()
	t.reply(replies)
	t.heard(events, now)
}

// wake wakes everyone who waits for a change; t.mu is held.
func (t *terminal) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// change gives a channel that is closed at the next change; t.mu is held.
func (t *terminal) change() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// finish takes the terminal out of the inventory and then tells its readers the exit code.
func (t *terminal) finish(code int) {
	close(t.quit)
	t.files.remove()
	t.host.remove(t, code, time.Now())
	t.mu.Lock()
	t.ended, t.code = true, code
	t.wake()
	t.mu.Unlock()
	t.proc.Master.Close()
	close(t.done)
}

// setSize changes the grid; t.mu is held.
func (t *terminal) setSize(size kaval.Size) error {
	if size == t.size {
		return nil
	}
	if t.ended {
		return gone(t.id, t.code)
	}
	t.mute()
	if err := t.proc.Resize(size.Cols, size.Rows); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	t.screen.Resize(size.Cols, size.Rows)
	t.seq++
	m := mark{seq: t.seq, offset: t.out.end, was: t.size, size: size}
	if n := len(t.marks); n > 0 && t.marks[n-1].offset == m.offset {
		m.was = t.marks[n-1].was
		t.marks = t.marks[:n-1] // readers that saw it see the next one too
	}
	t.marks = append(t.marks, m)
	t.size, t.snap = size, nil
	t.trimMarks()
	t.wake()
	t.update(func(r *kaval.Terminal) { r.Cols, r.Rows = size.Cols, size.Rows })
	return nil
}

// trimMarks forgets marks that no reader in the ring can need; t.mu is held.
func (t *terminal) trimMarks() {
	for len(t.marks) > 0 && (len(t.marks) > maxMarks || t.marks[0].offset < t.out.start()) {
		t.dropped = t.marks[0].seq
		t.marks = t.marks[1:]
	}
}
