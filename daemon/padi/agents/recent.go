package agents

import (
	"slices"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// maxRecent is how many command lines are remembered.
const maxRecent = 10

// noteCommand remembers the command line of a terminal, if it starts an agent. One that was run while it was looked at comes first; what a terminal shows when it
// is seen for the first time may be old, and goes behind all others.
func (t *Tracker) noteCommand(now, before kaval.Terminal) {
	if now.LastCommand == before.LastCommand {
		return
	}
	cmd, ok := ParseCommand(now.LastCommand)
	if !ok {
		return
	}
	r := padi.RecentAgent{Kind: cmd.Kind, Command: cmd.Line()}
	i := slices.IndexFunc(t.recent, func(o padi.RecentAgent) bool { return o.Command == r.Command })
	switch {
	case before.ID != "":
		r.At = time.Now().UnixMilli()
		if i >= 0 {
			t.recent = slices.Delete(t.recent, i, i+1)
		}
		t.recent = slices.Insert(t.recent, 0, r)
	case i < 0:
		t.recent = append(t.recent, r)
	}
	t.recent = t.recent[:min(len(t.recent), maxRecent)]
}

// Recent are the command lines by which agents were started, the latest first.
func (t *Tracker) Recent() []padi.RecentAgent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.recent)
}
