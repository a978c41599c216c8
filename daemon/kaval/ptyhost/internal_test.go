package ptyhost

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"kolu/daemon/kaval"
)

func TestRing(t *testing.T) {
	var r ring
	var all []byte
	if got := r.read(0, 10); got != nil {
		t.Errorf("an empty ring gave %q", got)
	}
	for i := 0; len(all) < 3*ringSize; i++ {
		chunk := bytes.Repeat([]byte{byte(i)}, 1+(i*7919)%50_000)
		if i == 40 {
			chunk = bytes.Repeat([]byte("abc"), ringSize/2) // more than the ring holds
		}
		r.append(chunk)
		all = append(all, chunk...)
		if r.end != int64(len(all)) || r.start() > r.end || r.held > ringSize {
			t.Fatalf("after %d bytes the ring spans %d to %d", len(all), r.start(), r.end)
		}
		if got := r.read(r.start(), ringSize); !bytes.Equal(got, all[r.start():]) {
			t.Fatalf("after %d bytes the ring holds something else", len(all))
		}
		middle := r.start() + int64(r.held/2)
		if got := r.read(middle, 100); !bytes.Equal(got, all[middle:min(int64(len(all)), middle+100)]) {
			t.Fatalf("after %d bytes the middle is something else", len(all))
		}
	}
	if r.held != ringSize {
		t.Errorf("a full ring holds %d bytes", r.held)
	}
}

func TestMatcher(t *testing.T) {
	long := strings.Repeat("z", kaval.MatchWindow+1000)
	for _, c := range []struct {
		name, expr string
		feed       []string
		want       string // "" for no match
	}{
		{"in one", "b+", []string{"a\nxbbx\nc"}, "xbbx"},
		{"over a cut", "hello", []string{"say he", "llo there"}, "say hello there"},
		{"over many cuts", "hello", strings.Split("hello", ""), "hello"},
		{"colours left off", "red", []string{"a \x1b[31mred\x1b[0m\x1b]8;;http://x\x07b\x1b(B\r\n"}, "a redb"},
		{"escapes are seen", `\x1b\[31m`, []string{"\x1b[31mred"}, "red"},
		{"beginning", "^b", []string{"a", "b"}, ""},
		{"beginning at the beginning", "^ab", []string{"a", "b"}, "ab"},
		{"beginning in a cut window", "^z+y", []string{long, "zy"}, ""},
		{"line beginning in a cut window", "(?m)^y", []string{long, "\nyes"}, "yes"},
		{"end of output", "b$", []string{"a", "ab", "c"}, "aab"},
		{"window is bounded", "start.*end", []string{"start", long, "end"}, ""},
		{"no match", "q", []string{"a", "b"}, ""},
		{"bytes that are no text", `\xff`, []string{"ok ", "\xc3\xbf"}, "ok ÿ"},
	} {
		m, err := newMatcher(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, chunk := range c.feed {
			if line, ok := m.feed([]byte(chunk)); ok {
				got = line
				break
			}
		}
		if got != c.want {
			t.Errorf("%s: matched %q, want %q", c.name, got, c.want)
		}
		if len(m.window) > kaval.MatchWindow+len(long) {
			t.Errorf("%s: the window holds %d bytes", c.name, len(m.window))
		}
	}
}

// Of a snapshot that many ask for in the same moment one is made.
func TestSnapshotIsShared(t *testing.T) {
	h := New(Options{RunDir: t.TempDir()})
	t.Cleanup(h.Close)
	term, err := h.Spawn(t.Context(), kaval.SpawnRequest{Argv: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	first := func(size kaval.Size) *byte {
		a, err := h.Attach(t.Context(), term.ID, kaval.AttachRequest{Size: size})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		frame, err := a.Next(t.Context())
		if err != nil || len(frame.Data) == 0 {
			t.Fatalf("%+v, %v", frame, err)
		}
		return &frame.Data[0]
	}
	one := first(kaval.Size{})
	if first(kaval.Size{}) != one {
		t.Error("a second reader of the same moment cost a second snapshot")
	}
	if first(kaval.Size{Cols: 120, Rows: 40}) == one {
		t.Error("a resize kept the old snapshot")
	}
}

// A watcher that does not read is given a fresh snapshot instead of a queue without end.
func TestSlowWatcher(t *testing.T) {
	h := New(Options{RunDir: t.TempDir()})
	t.Cleanup(h.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for event, err := range h.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if seen == 1 {
			h.mu.Lock()
			for i := range 3 * maxEvents {
				h.publish(kaval.Event{Kind: kaval.EventActivity, ID: kaval.TerminalID(fmt.Sprint(i))})
			}
			h.mu.Unlock()
		}
		if seen == 2 {
			if event.Kind != kaval.EventSnapshot {
				t.Errorf("the late watcher got %+v", event)
			}
			return
		}
	}
}

func TestTombstones(t *testing.T) {
	var ts tombstones
	for i := range kaval.Tombstones + 10 {
		ts.add(tombstone{id: kaval.TerminalID(fmt.Sprint(i)), code: i})
	}
	if _, ok := ts.find("0"); ok || len(ts.byID) != kaval.Tombstones || len(ts.order) != kaval.Tombstones {
		t.Errorf("%d are remembered", len(ts.byID))
	}
	if tomb, ok := ts.find("500"); !ok || tomb.code != 500 {
		t.Errorf("%+v, %v", tomb, ok)
	}
	ts.drop("500")
	if _, ok := ts.find("500"); ok {
		t.Error("an id in use anew is remembered as dead")
	}
}

func TestInitFilesOfACrashAreCleared(t *testing.T) {
	dir := t.TempDir()
	if _, err := writeInitFiles(dir, []kaval.InitFile{{Name: "a/b", Content: "c"}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/kept", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	New(Options{RunDir: dir}).Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "kept" {
		t.Errorf("left are %v, %v", left, err)
	}
}
