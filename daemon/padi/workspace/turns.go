package workspace

import (
	"sync"

	"kolu/daemon/padi"
)

// turns let one caller at a time have a terminal's composer.
type turns struct {
	mu    sync.Mutex
	lanes map[padi.TerminalID]*lane
}

type lane struct {
	turn  chan struct{} // holds one
	users int
}

// claim gives the lane of a terminal: who can send to it has the turn, and receives from it when done. free must be called at the end.
func (t *turns) claim(id padi.TerminalID) (turn chan struct{}, free func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lanes == nil {
		t.lanes = map[padi.TerminalID]*lane{}
	}
	l := t.lanes[id]
	if l == nil {
		l = &lane{turn: make(chan struct{}, 1)}
		t.lanes[id] = l
	}
	l.users++
	return l.turn, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(t.lanes, id)
		}
	}
}
