package kavalrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"kolu/daemon/kaval"
)

const (
	// inputsFor is how long the input of a client that has gone is remembered.
	inputsFor = 15 * time.Minute
	// inputsMost is how many clients that have gone are remembered.
	inputsMost = 4096
)

// inputs is how much was taken of what each attached client typed, so that one that comes back on another connection sends nothing
// twice.
type inputs struct {
	mu    sync.Mutex
	known map[string]*taken
}

func newInputs() *inputs { return &inputs{known: map[string]*taken{}} }

// taken is the input of one client.
type taken struct {
	turn  chan struct{} // held by the connection that writes
	count int64         // with turn
	mark  atomic.Int64  // count before the bytes that are being written

	// guarded by inputs.mu
	users int
	left  time.Time // when the last user went
	cut   func()    // breaks off what the last connection writes
}

// get gives the input of a client that has a new connection; cut breaks off what it writes. What an earlier connection writes is
// broken off: the client sends the rest again.
func (l *inputs) get(key string, cut func()) *taken {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.known[key]
	if t == nil {
		l.forget()
		t = &taken{turn: make(chan struct{}, 1)}
		l.known[key] = t
	}
	if t.users > 0 && t.cut != nil {
		t.cut()
	}
	t.users++
	t.cut = cut
	return t
}

func (l *inputs) put(t *taken) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.users--
	t.left = time.Now()
}

// forget drops what nobody came back for, and the oldest when there are too many.
func (l *inputs) forget() {
	oldest, at := "", time.Time{}
	for key, t := range l.known {
		switch {
		case t.users > 0:
		case time.Since(t.left) > inputsFor:
			delete(l.known, key)
		case oldest == "" || t.left.Before(at):
			oldest, at = key, t.left
		}
	}
	if oldest != "" && len(l.known) >= inputsMost {
		delete(l.known, oldest)
	}
}

func (t *taken) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tell says how much was taken. It waits for a connection of the same client that is still writing.
func (t *taken) tell(ctx context.Context, conn *websocket.Conn) error {
	if err := t.take(ctx); err != nil {
		return err
	}
	n := t.count
	<-t.turn
	return sendTaken(ctx, conn, n)
}

func sendTaken(ctx context.Context, conn *websocket.Conn, n int64) error {
	return conn.Write(ctx, websocket.MessageBinary, binary.BigEndian.AppendUint64([]byte{tagTaken}, uint64(n)))
}

const (
	// tellAfter is how long a client is not told of what was taken, so that the echo of a key is not behind it.
	tellAfter = 5 * time.Millisecond
	// tellEach is how many bytes are not told of at most; it is well below what a client keeps.
	tellEach = 8 << 10
)

// teller tells a client of one connection what was taken, a little later.
type teller struct {
	tell func(n int64)

	mu    sync.Mutex
	n     int64 // taken
	told  int64
	timer *time.Timer // runs while something is to be told; nil before
	due   bool
}

func (t *teller) took(n int64) {
	t.mu.Lock()
	t.n = n
	now := n-t.told >= tellEach
	if !now && !t.due {
		t.due = true
		if t.timer == nil {
			t.timer = time.AfterFunc(tellAfter, t.now)
		} else {
			t.timer.Reset(tellAfter)
		}
	}
	t.mu.Unlock()
	if now {
		t.now()
	}
}

func (t *teller) now() {
	t.mu.Lock()
	n := t.n
	t.told, t.due = n, false
	t.mu.Unlock()
	t.tell(n)
}

// stop tells nothing more.
func (t *teller) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

// write passes on what was not taken yet of the bytes from a place on. What the terminal refuses counts as taken: it is not
// offered twice.
// writing bounds the write, and ctx what is told of it.
func (t *taken) write(ctx, writing context.Context, told *teller, a kaval.Attachment, from int64, data []byte) error {
	if err := t.take(writing); err != nil {
		return err
	}
	n, err := t.pass(writing, a, from, data)
	t.mark.Store(t.count)
	<-t.turn
	if err != nil || ctx.Err() != nil {
		return err // nobody is there to be told
	}
	told.took(n)
	return nil
}

func (t *taken) pass(ctx context.Context, a kaval.Attachment, from int64, data []byte) (int64, error) {
	end := from + int64(len(data))
	switch {
	case from < 0 || end < from || from > t.count:
		return t.count, kaval.Invalidf("input begins at %d, but only %d bytes came before", from, t.count)
	case end <= t.count:
		return t.count, nil
	}
	err := a.Write(ctx, data[t.count-from:])
	if cut, ok := errors.AsType[*kaval.CutShortError](err); ok {
		t.count += int64(cut.Taken)
		return t.count, err
	}
	t.count = end
	return end, err
}
