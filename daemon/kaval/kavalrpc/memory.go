package kavalrpc

import (
	"encoding/json"
	"time"

	"kolu/daemon"
)

// Memory is what a handler remembers of its clients: the answers to requests with a key, and how much of their typing was taken. As
// JSON it goes on in another build of the daemon. It must be taken when nothing is written any more, so that what it says is done
// is done, and nothing else.
type Memory struct {
	answers *daemon.Memory
	inputs  *inputs
}

// NewMemory makes one that remembers nothing.
func NewMemory() *Memory { return &Memory{answers: daemon.NewMemory(), inputs: newInputs()} }

type savedMemory struct {
	Answers *daemon.Memory       `json:"answers"`
	Inputs  map[string]savedLine `json:"inputs,omitempty"`
}

type savedLine struct {
	Count int64 `json:"count"`
	Left  int64 `json:"left"` // milliseconds since 1970
}

// MarshalJSON gives it as another build reads it.
func (m *Memory) MarshalJSON() ([]byte, error) {
	saved := savedMemory{Answers: m.answers, Inputs: map[string]savedLine{}}
	m.inputs.mu.Lock()
	defer m.inputs.mu.Unlock()
	m.inputs.settle()
	for key, t := range m.inputs.known {
		line := savedLine{Count: t.mark.Load(), Left: t.left.UnixMilli()}
		if t.users > 0 {
			line.Left = time.Now().UnixMilli()
		}
		saved.Inputs[key] = line
	}
	return json.Marshal(saved)
}

// noteTime is how long a connection may take to note what it has written.
const noteTime = 250 * time.Millisecond

// settle waits for the connections that have written something and are about to note it; mu is held. Those that have not
// begun to write stay as they are.
func (l *inputs) settle() {
	enough := time.NewTimer(noteTime)
	defer enough.Stop()
	for _, t := range l.known {
		select {
		case t.turn <- struct{}{}:
			<-t.turn
		case <-enough.C:
			return
		}
	}
}

// UnmarshalJSON makes a new memory go on with what MarshalJSON gave.
func (m *Memory) UnmarshalJSON(data []byte) error {
	saved := savedMemory{Answers: m.answers}
	if err := json.Unmarshal(data, &saved); err != nil {
		return err
	}
	for key, line := range saved.Inputs {
		t := &taken{turn: make(chan struct{}, 1), count: line.Count, left: time.UnixMilli(line.Left)}
		t.mark.Store(line.Count)
		m.inputs.known[key] = t
	}
	return nil
}
