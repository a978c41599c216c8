package kavalrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"kolu/daemon/kaval"
)

const (
	// maxWaiting bounds what waits for a program that does not read; it is more than kaval-tui keeps. Nothing more is read of a client that sends more without being
	// told that it was taken.
	maxWaiting = 17 << 20
	// lastInput is how long what a client sent may take to be written once the client has gone.
	lastInput = 2 * time.Second
)

// intake is what one connection sends: a reader that is never held up by the program, so that a new size passes a paste and the
// client's end is noticed, and a writer that waits for the program.
type intake struct {
	conn    *websocket.Conn
	a       kaval.Attachment
	taken   *taken // nil where what is typed has no numbers
	told    *teller
	writing context.Context
	cut     func() // ends writing

	mu      sync.Mutex
	waiting [][]byte
	size    int  // of waiting
	ended   bool // nothing more comes
	room    chan struct{}
	more    chan struct{}
}

// read takes what the client sends until it ends, and gives why. What waits then has a little time left.
func (in *intake) read(ctx context.Context) error {
	defer in.end()
	for {
		_, msg, err := in.conn.Read(ctx)
		if err != nil {
			return err
		}
		switch {
		case len(msg) > 0 && msg[0] == tagInput, len(msg) >= 9 && msg[0] == tagNumbered && in.taken != nil:
			err = in.push(ctx, msg)
		case len(msg) >= 5 && msg[0] == tagResized:
			err = in.a.Resize(ctx, parseSize(msg[1:]))
		}
		if err != nil && !errors.Is(err, kaval.ErrGone) { // Exit comes by itself
			return err
		}
	}
}

func (in *intake) end() {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	wake(in.more)
	time.AfterFunc(lastInput, in.cut)
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (in *intake) push(ctx context.Context, msg []byte) error {
	for {
		in.mu.Lock()
		fits := in.size == 0 || in.size+len(msg) <= maxWaiting
		if fits {
			in.waiting, in.size = append(in.waiting, msg), in.size+len(msg)
		}
		in.mu.Unlock()
		if fits {
			wake(in.more)
			return nil
		}
		select {
		case <-in.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pull gives the next message; false when none comes any more.
func (in *intake) pull() ([]byte, bool) {
	for {
		in.mu.Lock()
		if len(in.waiting) > 0 {
			msg := in.waiting[0]
			in.waiting = in.waiting[1:]
			in.mu.Unlock()
			return msg, true
		}
		ended := in.ended
		in.mu.Unlock()
		if ended {
			return nil, false
		}
		<-in.more
	}
}

func (in *intake) done(msg []byte) {
	in.mu.Lock()
	in.size -= len(msg)
	in.mu.Unlock()
	wake(in.room)
}

// write passes on what was read until nothing more comes, the terminal refuses something, or it is broken off.
func (in *intake) write(ctx context.Context) error {
	for {
		msg, ok := in.pull()
		if !ok {
			return nil
		}
		err := in.pass(ctx, msg)
		in.done(msg)
		if err != nil && !errors.Is(err, kaval.ErrGone) {
			return err
		}
	}
}

func (in *intake) pass(ctx context.Context, msg []byte) error {
	if msg[0] == tagInput {
		return in.a.Write(in.writing, msg[1:])
	}
	return in.taken.write(ctx, in.writing, in.told, in.a, int64(binary.BigEndian.Uint64(msg[1:])), msg[9:])
}
