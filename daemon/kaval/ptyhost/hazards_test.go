package ptyhost

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/pty"
)

// still is a terminal in the inventory that runs nothing and reads nothing. Nobody knows which program is in front of it.
func still(t *testing.T, h *Host) *terminal {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	size := kaval.Size{Cols: 80, Rows: 24}
	term := newTerminal(h, "still", &pty.Process{Master: null, PID: os.Getpid()}, size, nil)
	term.rec = kaval.Terminal{ID: "still", PID: os.Getpid(), CWD: "/", Cols: 80, Rows: 24}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[term.id] = term
	t.Cleanup(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.live, term.id)
	})
	return term
}

// watching gives a function that takes the events that came since it was called last, of one kind.
func watching(t *testing.T, h *Host, kind kaval.EventKind) func() []kaval.Event {
	t.Helper()
	w := &watcher{ready: make(chan struct{}, 1)}
	h.mu.Lock()
	h.watchers[w] = struct{}{}
	h.mu.Unlock()
	return func() (list []kaval.Event) {
		for _, e := range h.takeEvents(w) {
			if e.Kind == kind {
				list = append(list, e)
			}
		}
		return list
	}
}

// Output is told of at most each 200 ms, well below any time of silence that somebody waits for, and never less often: a
// reader that takes a terminal for quiet between two of these events would see it flicker.
func TestActivityIsToldOftenEnough(t *testing.T) {
	h := newTestHost(t)
	term := still(t, h)
	told := watching(t, h, kaval.EventActivity)
	begin := time.Now().Add(time.Hour)
	var last time.Time
	for at := begin; at.Before(begin.Add(10 * time.Second)); at = at.Add(10 * time.Millisecond) {
		term.heard(nil, at)
		if len(told()) == 0 {
			continue
		}
		if gap := at.Sub(last); !last.IsZero() && gap != 200*time.Millisecond {
			t.Fatalf("told %s after the one before", gap)
		}
		last = at
	}
	if last.IsZero() {
		t.Error("nothing was told")
	}
}

// What a program paints anew because its terminal was resized is no activity; the silence is announced before the program can
// know of the new size. What it prints later is.
func TestARepaintIsNoActivity(t *testing.T) {
	h := newTestHost(t)
	id := spawnTest(t, h, "sh", "-c", `trap 'echo painted' WINCH; echo ready; while :; do sleep 0.05; done`)
	awaitText(t, h, id, "ready", 0)
	term, err := h.find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	term.mutedUntil.Store(0)
	before := time.Now()
	if err := h.Resize(t.Context(), id, kaval.Size{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	muted := time.UnixMilli(term.mutedUntil.Load())
	if muted.Before(before.Add(resizeMute-time.Millisecond)) || muted.After(time.Now().Add(resizeMute)) {
		t.Errorf("muted until %s", muted.Sub(before))
	}
	awaitText(t, h, id, "painted", 0)

	quiet := still(t, h)
	told := watching(t, h, kaval.EventActivity)
	quiet.mute()
	until := time.UnixMilli(quiet.mutedUntil.Load())
	quiet.heard(nil, until.Add(-100*time.Millisecond))
	if events := told(); len(events) > 0 {
		t.Errorf("a repaint was told of: %+v", events)
	}
	quiet.heard(nil, until.Add(time.Millisecond))
	if events := told(); len(events) != 1 {
		t.Errorf("told of output after the repaint: %+v", events)
	}
}

// A system that does not say which program is in front leaves what was known, and never gives a pid of 0.
func TestForegroundThatIsNotTold(t *testing.T) {
	h := newTestHost(t)
	term := still(t, h)
	if front := term.proc.Foreground(); front != 0 {
		t.Fatalf("program %d is in front of %s", front, os.DevNull)
	}
	told := watching(t, h, kaval.EventChanged)
	term.sampleNow()
	data, err := json.Marshal(term.rec)
	if err != nil || strings.Contains(string(data), "foreground") {
		t.Errorf("%s, %v", data, err)
	}
	term.update(func(r *kaval.Terminal) { r.ForegroundProcess, r.ForegroundPID = "vim", 4711 })
	told()
	term.sampleNow()
	if r := term.rec; r.ForegroundProcess != "vim" || r.ForegroundPID != 4711 || len(told()) > 0 {
		t.Errorf("the record is %+v", r)
	}
}

// A shell without hooks prints, and what it runs is known from that alone.
func TestForegroundOfAShellWithoutHooks(t *testing.T) {
	h := newTestHost(t)
	id := spawnTest(t, h, "bash", "--norc", "--noprofile", "-i")
	writeTest(t, h, id, "cat\n")
	deadline := time.Now().Add(60 * time.Second)
	for range 10_000 {
		list, err := h.List(t.Context())
		if err != nil || len(list) != 1 || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", list, err)
		}
		if list[0].ForegroundProcess == "cat" {
			if list[0].ForegroundPID == list[0].PID || list[0].ForegroundPID == 0 {
				t.Errorf("%+v", list[0])
			}
			return
		}
		writeTest(t, h, id, "x\n") // cat says it, and that it said something is looked into
		if _, err := h.Wait(t.Context(), id, kaval.WaitRequest{IdleMS: 20}); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever comes late is told the command that runs.
func TestLateWatcherLearnsTheCommand(t *testing.T) {
	h := newTestHost(t)
	id := spawnTest(t, h, "sh", "-c", `printf '\033]633;E;make all\007said'; cat`)
	awaitText(t, h, id, "said", 0)
	awaitText(t, h, id, "said", 0)
	for event, err := range h.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range append(event.Terminals, deref(event.Terminal)...) {
			if r.LastCommand == "make all" {
				return
			}
		}
	}
}

func deref(r *kaval.Terminal) []kaval.Terminal {
	if r == nil {
		return nil
	}
	return []kaval.Terminal{*r}
}

// Who attaches to a terminal with a full history gets a bounded part of it, and pages reach the rest.
func TestSnapshotIsBounded(t *testing.T) {
	h := newTestHost(t)
	id := spawnTest(t, h, "sh", "-c", "stty raw; seq 9000 | sed 's/$/\\r/'; echo over; cat")
	awaitText(t, h, id, "over", 0)
	a, err := h.Attach(t.Context(), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	snapshot, err := a.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := string(snapshot.Data)
	if n := strings.Count(text, "\n"); n < kaval.SnapshotLines || n > kaval.SnapshotLines+kaval.DefaultRows {
		t.Errorf("the snapshot has %d lines", n)
	}
	if !strings.Contains(text, "8999") || strings.Contains(text, "\n7900\r") {
		t.Error("the snapshot is not the newest lines")
	}
	read := 0
	for req := (kaval.HistoryRequest{Max: 9000}); ; {
		page, err := h.History(t.Context(), id, req)
		if err != nil || page.Stale || page.Lines == 0 {
			t.Fatalf("%d lines from %d after %d, %v", page.Lines, page.TopLine, read, err)
		}
		if read += page.Lines; page.Exhausted {
			break
		}
		req.Before, req.Epoch = &page.TopLine, &page.Epoch
	}
	if read < 9000-kaval.DefaultRows {
		t.Errorf("the pages have %d lines", read)
	}
}

// The largest screen there can be, in colours that change at every cell, over a full history: what an attach gives fits a message.
func TestWidestSnapshotFitsAMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("draws 1.5 million cells")
	}
	h := newTestHost(t)
	term, err := h.Spawn(t.Context(), kaval.SpawnRequest{
		Argv: []string{"sh", "-c", `stty raw
awk 'BEGIN{for(y=0;y<2600;y++){l="";for(x=0;x<1000;x++)l=l sprintf("\033[1;3;4;38;2;%d;%d;%dm\xe6\x97",x%256,y%256,(x*y)%256) "\xa5"; printf "%s\r\n",l}}'
echo over; cat`},
		Size: kaval.Size{Cols: kaval.MaxCols, Rows: kaval.MaxRows},
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitText(t, h, term.ID, "over", 0)
	a, err := h.Attach(t.Context(), term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	snapshot, err := a.Next(t.Context())
	if err != nil || len(snapshot.Data) < 1<<20 || len(snapshot.Data) > 32<<20 {
		t.Errorf("a snapshot of %d bytes, %v", len(snapshot.Data), err)
	}
	page, err := h.History(t.Context(), term.ID, kaval.HistoryRequest{Max: 1 << 30})
	if err != nil || len(page.Chunk) > 32<<20 {
		t.Errorf("a page of %d bytes, %v", len(page.Chunk), err)
	}
}

// A host without room says so at once.
func TestLimitAnswersAtOnce(t *testing.T) {
	h := newTestHost(t)
	for name, req := range map[string]kaval.SpawnRequest{
		"no such program":   {Argv: []string{"/nonexistent"}},
		"no such directory": {Argv: []string{"cat"}, CWD: t.TempDir() + "/none"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := h.Spawn(ctx, req); !errors.Is(err, kaval.ErrSpawn) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
