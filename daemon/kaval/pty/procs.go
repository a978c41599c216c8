package pty

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Proc is one process as the system lists it.
type Proc struct {
	PID, Parent, Group, Session int
	Start                       uint64 // tells a process from a later one with the same id
	Name                        string
	dead                        bool // ended, not yet collected by its parent
}

func (p Proc) String() string { return fmt.Sprintf("%s (%d)", p.Name, p.PID) }

// patience is how long the processes of a terminal get after each signal; what is left after the last gets SIGKILL.
var patience = []struct {
	signal unix.Signal
	wait   time.Duration
}{
	{unix.SIGHUP, 300 * time.Millisecond},
	{unix.SIGTERM, time.Second},
}

// Kill ends every process of the terminal that the session's leader was started on: first by a hang-up, then SIGTERM, then SIGKILL
// until none is left or ctx ends. mark is an environment entry ("K=V") that also marks a process as one of ours, where the system
// shows environments. It gives the processes that survived. It may be called when the leader has ended already, but not once
// the leader's id can have been given to another process.
func (p *Process) Kill(ctx context.Context, mark string) []Proc {
	h := newHunt(map[int]string{p.PID: mark})
	for _, step := range patience {
		found := h.signal(step.signal)
		if len(found) == 0 {
			return nil
		}
		settle(ctx, found, step.wait)
	}
	return h.finish(ctx)
}

// KillNow is Kill without the gentle steps, for any number of terminals by one look at the processes there are: marks has the mark
// of each leader's id.
func KillNow(ctx context.Context, marks map[int]string) []Proc { return newHunt(marks).finish(ctx) }

// hunt is one kill under way. It remembers whom it has seen: a process that left the session stays ours when its parent is gone.
type hunt struct {
	leaders map[int]string // with their marks
	marks   map[string]bool
	known   map[int]Proc
	others  map[int]uint64 // the start of processes that do not carry a mark; an environment is read once
}

func newHunt(leaders map[int]string) *hunt {
	h := &hunt{leaders: leaders, marks: map[string]bool{}, known: map[int]Proc{}, others: map[int]uint64{}}
	for _, mark := range leaders {
		if mark != "" {
			h.marks[mark] = true
		}
	}
	return h
}

// leads reports whether an id is that of a leader, of its session or its group.
func (h *hunt) leads(id int) bool {
	_, ok := h.leaders[id]
	return ok
}

func (h *hunt) carries(q Proc) bool {
	if start, seen := h.others[q.PID]; seen && start == q.Start {
		return false
	}
	if marked(q.PID, h.marks) {
		return true
	}
	h.others[q.PID] = q.Start
	return false
}

func (h *hunt) finish(ctx context.Context) []Proc {
	for {
		found := h.signal(unix.SIGKILL)
		if len(found) == 0 || ctx.Err() != nil {
			return found
		}
		settle(ctx, slices.Clone(found), 100*time.Millisecond)
	}
}

// signal sends a signal to every living process of the terminal and gives them. A stopped process is woken, else it would never
// act on a gentle signal.
func (h *hunt) signal(sig unix.Signal) []Proc {
	found := h.tree()
	groups := map[int]bool{}
	for _, q := range found {
		if h.leads(q.Session) && q.Group > 1 {
			groups[q.Group] = true
			continue
		}
		_ = unix.Kill(q.PID, sig)
		_ = unix.Kill(q.PID, unix.SIGCONT)
	}
	for g := range groups {
		_ = unix.Kill(-g, sig)
		_ = unix.Kill(-g, unix.SIGCONT)
	}
	return found
}

// settle waits until all of the processes have ended, at most for limit.
func settle(ctx context.Context, procs []Proc, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(pause*2, 20*time.Millisecond) {
		procs = slices.DeleteFunc(procs, func(q Proc) bool { return !alive(q) })
		if len(procs) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// tree lists the living processes of the terminals: those of their sessions, their descendants, and those that carry a mark. This
// process and its ancestors are never among them.
func (h *hunt) tree() []Proc {
	all := processes()
	if len(all) == 0 {
		return h.unlisted()
	}
	spared := ancestors(all, os.Getpid())
	ours := map[int]Proc{}
	for _, q := range all {
		seen, known := h.known[q.PID]
		if h.leads(q.Session) || h.leads(q.PID) || (known && seen.Start == q.Start) || (!spared[q.PID] && h.carries(q)) {
			ours[q.PID] = q
		}
	}
	addDescendants(all, ours)
	maps.DeleteFunc(ours, func(pid int, q Proc) bool { return q.dead || spared[pid] })
	maps.Copy(h.known, ours)
	return slices.SortedFunc(maps.Values(ours), func(a, b Proc) int { return a.PID - b.PID })
}

// unlisted is the tree where the system lists no processes, for want of descriptors say: whoever has been seen, and the leader,
// as long as they live.
func (h *hunt) unlisted() []Proc {
	ours := maps.Clone(h.known)
	for leader := range h.leaders {
		if _, known := ours[leader]; !known && leader > 1 {
			ours[leader] = Proc{PID: leader, Group: leader, Session: leader, Name: "leader"}
		}
	}
	maps.DeleteFunc(ours, func(pid int, _ Proc) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) })
	return slices.SortedFunc(maps.Values(ours), func(a, b Proc) int { return a.PID - b.PID })
}

func ancestors(all map[int]Proc, pid int) map[int]bool {
	line := map[int]bool{1: true}
	for ; pid > 1 && !line[pid]; pid = all[pid].Parent {
		line[pid] = true
	}
	return line
}

func addDescendants(all, ours map[int]Proc) {
	for grown := true; grown; {
		grown = false
		for pid, q := range all {
			_, parent := ours[q.Parent]
			if _, in := ours[pid]; parent && !in {
				ours[pid], grown = q, true
			}
		}
	}
}
