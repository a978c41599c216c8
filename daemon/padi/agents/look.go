package agents

import (
	"fmt"
	"os"
	"time"
)

// notes are what a tracker remembers of its last look at one terminal.
type notes struct {
	subject Subject
	stamps  map[string]stamp
	due     time.Time // when to look again though nothing changed
	at      time.Time // of the last look
	checked time.Time // when its files were last looked at for a change
	moved   bool      // the terminal printed since then
	drawing time.Time // until when its screen may still change
}

// stamp is what changes with a file.
type stamp struct {
	size int64
	mod  int64 // nanoseconds; 0 where there is no file
}

// fresh reports whether what was read last still holds. Output alone may mean another conversation, which is looked for once a second.
func (n *notes) fresh(s Subject, stamps map[string]stamp, now time.Time) bool {
	return n.subject == s && sameStamps(n.stamps, stamps) && (n.due.IsZero() || now.Before(n.due)) && (!n.moved || now.Sub(n.at) < time.Second)
}

// idle reports whether nothing has come of a terminal for so long that its files are looked at less often. Output puts an end to that.
func (n *notes) idle(now time.Time) bool {
	return now.Sub(n.at) > idleAfter && now.Sub(n.checked) < idleEvery
}

// readFiles reads the files of an agent, if one of them changed.
func (t *Tracker) readFiles(w work, h *held) {
	now := time.Now()
	n := &w.entry.notes
	n.checked = now
	paths := w.detector.Paths(w.subject, h.session)
	stamps, settled := stampAll(paths, now)
	n.moved = n.moved || w.moved
	if n.fresh(w.subject, stamps, now) && (h.facts != nil) == (h.session != nil) {
		return
	}
	*n = notes{subject: w.subject, stamps: stamps, at: now, checked: now, drawing: n.drawing}
	if !settled {
		n.stamps = nil
	}
	sessions, err := w.detector.Sessions(w.subject)
	if err != nil {
		h.trouble = fmt.Sprintf("its sessions cannot be read: %v", err)
		n.stamps = nil
		return // what was known holds
	}
	h.trouble = ""
	own := t.owners[w.detector.Kind()]
	h.session = own.choose(w.subject.ID, w.subject.Since, sessions)
	if h.session == nil {
		h.facts = nil
		return
	}
	t.readFacts(w, h, n, now)
}

func (t *Tracker) readFacts(w work, h *held, n *notes, now time.Time) {
	facts, err := w.detector.Read(w.subject, *h.session)
	if err != nil {
		h.trouble = fmt.Sprintf("its session cannot be read: %v", err)
		n.stamps = nil
		return
	}
	h.facts = &facts
	if facts.Again > 0 {
		n.due = now.Add(facts.Again)
	}
	t.complain(h.kind, facts.Version, facts.Drift)
}

// stampAll looks at files. settled reports that none of them changed just now.
func stampAll(paths []string, now time.Time) (stamps map[string]stamp, settled bool) {
	stamps, settled = make(map[string]stamp, len(paths)), true
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			stamps[p] = stamp{}
			continue
		}
		stamps[p] = stamp{size: info.Size(), mod: info.ModTime().UnixNano()}
		if now.Sub(info.ModTime()) < young {
			settled = false
		}
	}
	return stamps, settled
}

func sameStamps(a, b map[string]stamp) bool {
	if a == nil || len(a) != len(b) {
		return false
	}
	for p, s := range b {
		if old, ok := a[p]; !ok || old != s {
			return false
		}
	}
	return true
}
