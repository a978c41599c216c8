package ssh

import (
	"bytes"
	"sync"
	"time"

	"kolu/internal/fault"
)

// noticeHeld is for how long what was printed while connecting is kept back.
const noticeHeld = time.Second

// notices pass on what ssh, a proxy or a server prints for the user while a login waits: an address to open in a browser, say. They are
// kept back for a moment, since the last words of a login that fails are in its error.
type notices struct {
	tell func(line string)

	mu    sync.Mutex
	held  []string
	timer *time.Timer
	part  []byte // of a line that Write was given
	ended bool
}

func (o *Options) notices() *notices { return &notices{tell: o.notice} }

// add keeps a line until its time; empty ones are nothing.
func (n *notices) add(line string) {
	line = fault.Printable(line, 400)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended || line == "" {
		return
	}
	n.held = append(n.held, line)
	if n.timer == nil {
		n.timer = time.AfterFunc(noticeHeld, n.show)
	}
}

// Write adds whole lines; it never fails.
func (n *notices) Write(p []byte) (int, error) {
	n.mu.Lock()
	text := append(n.part, p...)
	cut := bytes.LastIndexByte(text, '\n') + 1
	n.part = append([]byte(nil), text[cut:]...)
	if len(n.part) > 4<<10 {
		n.part = nil
	}
	n.mu.Unlock()
	for line := range bytes.Lines(text[:cut]) {
		n.add(string(line))
	}
	return len(p), nil
}

func (n *notices) show() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return
	}
	for _, line := range n.held {
		n.tell(line)
	}
	n.held, n.timer = nil, nil
}

// end drops what is still held; nothing is told from here on.
func (n *notices) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	if n.timer != nil {
		n.timer.Stop()
	}
}
