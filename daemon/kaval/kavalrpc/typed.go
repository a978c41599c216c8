package kavalrpc

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

// maxTyped bounds what is kept of input that the host did not take yet.
const maxTyped = 64 << 10

// typed is what a client types over all lines of a lasting attachment: kept until the host says that it was taken, and sent again
// from there on a new line.
type typed struct {
	key string

	direct bool // a line takes maxTyped at once even from a daemon that does not read, so whoever types sends

	mu      sync.Mutex
	pending []byte        // not taken yet
	taken   int64         // before pending
	on      *attachment   // the line that has begun
	plain   bool          // of on: the host takes no numbers
	sent    int64         // over on, counted as taken is
	sending bool          // over on
	changed chan struct{} // closed and made anew with every change
}

func newTyped(direct bool) *typed {
	return &typed{key: uuid.NewString(), direct: direct, changed: make(chan struct{})}
}

func (t *typed) wakeLocked() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// write keeps data to be sent. It waits for room where much is kept.
func (t *typed) write(ctx context.Context, gone <-chan struct{}, data []byte) error {
	for {
		t.mu.Lock()
		if len(t.pending) == 0 || len(t.pending)+len(data) <= maxTyped {
			t.pending = append(t.pending, data...)
			on := t.on
			direct := t.direct && on != nil && len(t.pending) <= maxTyped
			if !direct {
				t.wakeLocked()
			}
			t.mu.Unlock()
			if direct {
				t.flush(on) // who sees the line break hears of it from Next
			}
			return nil
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-gone:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle waits until everything was taken.
func (t *typed) settle(ctx context.Context) {
	for {
		t.mu.Lock()
		done, changed := len(t.pending) == 0 || t.on == nil, t.changed
		t.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// hears takes what concerns it of what a host sends over a line. The first message says whether the host takes numbers.
func (t *typed) hears(a *attachment, msg []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := len(msg) == 9 && msg[0] == tagTaken
	if t.on != a {
		t.on, t.plain, t.sent = a, !mine, t.taken
		t.wakeLocked()
	}
	if !mine {
		return false
	}
	n := int64(binary.BigEndian.Uint64(msg[1:]))
	if skip := n - t.taken; skip > 0 && skip <= int64(len(t.pending)) {
		t.pending = t.pending[skip:]
		t.taken, t.sent = n, max(t.sent, n)
		t.wakeLocked()
	}
	return true
}

// lost forgets a line that ended.
func (t *typed) lost(a *attachment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on == a {
		t.on = nil
		t.wakeLocked()
	}
}

// send sends over one line until it ends.
func (t *typed) send(a *attachment) {
	defer t.lost(a)
	for {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		if t.flush(a) != nil {
			return
		}
		select {
		case <-changed:
		case <-a.life.Done():
			return
		}
	}
}

// flush sends what was not sent over a line, unless somebody is at it, who then sends this too.
func (t *typed) flush(a *attachment) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sending || t.on != a {
		return nil
	}
	t.sending = true
	defer func() { t.sending = false }()
	for t.on == a {
		msg := t.nextLocked()
		if msg == nil {
			return nil
		}
		t.mu.Unlock()
		err := a.conn.Write(a.life, websocket.MessageBinary, msg)
		t.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// nextLocked is the message with what was not sent over this line; nil when there is none. A host that takes no numbers is
// sent everything once and for good.
func (t *typed) nextLocked() []byte {
	data := t.pending[t.sent-t.taken:]
	if len(data) == 0 {
		return nil
	}
	if t.plain {
		msg := append([]byte{tagInput}, data...)
		t.taken += int64(len(t.pending))
		t.sent, t.pending = t.taken, nil
		t.wakeLocked()
		return msg
	}
	msg := append(binary.BigEndian.AppendUint64([]byte{tagNumbered}, uint64(t.sent)), data...)
	t.sent += int64(len(data))
	return msg
}
