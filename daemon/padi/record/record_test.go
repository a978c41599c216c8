package record

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/padi"
)

func open(t *testing.T, root string) *Log {
	t.Helper()
	l, err := Open(root, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func read(t *testing.T, l *Log, req padi.RecordedRequest) padi.Recorded {
	t.Helper()
	found, err := l.Read(req)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func sending(at int64, from, to padi.TerminalID) padi.Sending {
	return padi.Sending{At: at, Kind: padi.SendInput, To: to, From: padi.Sender{Face: "kolu", Terminal: from}}
}

func times(found padi.Recorded) []int64 {
	at := []int64{}
	for _, s := range found.Sendings {
		at = append(at, s.At)
	}
	return at
}

func TestRecordIsFoundAgain(t *testing.T) {
	root := t.TempDir()
	l := open(t, root)
	want := padi.Sending{
		At: 7, Kind: padi.SendPrompt, To: "AAAA", From: padi.Sender{Face: "kolu mcp", Terminal: "bbbb", Host: "far"}, Bytes: 5, Code: "gone",
	}
	l.Add(want, []byte("hello"))
	l.Close()
	again := open(t, root)
	if diff := cmp.Diff(padi.Recorded{Sendings: []padi.Sending{want}}, read(t, again, padi.RecordedRequest{})); diff != "" {
		t.Error(diff)
	}
	for i := range int64(5) {
		again.Add(sending(10+i, "bbbb", "cccc"), nil)
	}
	for name, tt := range map[string]struct {
		req  padi.RecordedRequest
		want []int64
		more bool
	}{
		"all":              {padi.RecordedRequest{}, []int64{7, 10, 11, 12, 13, 14}, false},
		"the newest":       {padi.RecordedRequest{Limit: 2}, []int64{13, 14}, true},
		"as many as":       {padi.RecordedRequest{Limit: 6}, []int64{7, 10, 11, 12, 13, 14}, false},
		"to":               {padi.RecordedRequest{Terminal: "aa"}, []int64{7}, false},
		"from, newest":     {padi.RecordedRequest{Terminal: "B", Limit: 1}, []int64{14}, true},
		"since":            {padi.RecordedRequest{Since: 13}, []int64{13, 14}, false},
		"nothing":          {padi.RecordedRequest{Terminal: "zz"}, []int64{}, false},
		"since and whence": {padi.RecordedRequest{Terminal: "cccc", Since: 11, Limit: 3}, []int64{12, 13, 14}, true},
	} {
		if got := read(t, again, tt.req); !cmp.Equal(times(got), tt.want) || got.More != tt.more {
			t.Errorf("%s: %v, more %v", name, times(got), got.More)
		}
	}
	for _, limit := range []int{-1, padi.MaxRecorded + 1} {
		if _, err := again.Read(padi.RecordedRequest{Limit: limit}); padi.Code(err) != "invalid" {
			t.Errorf("a limit of %d gave %v", limit, err)
		}
	}
}

// Not a byte of what was typed is on disk, until somebody asks for it.
func TestNoTextIsKeptUnlessAskedFor(t *testing.T) {
	root := t.TempDir()
	l := open(t, root)
	l.Add(sending(1, "a", "b"), []byte("s3cret"))
	if onDisk, err := os.ReadFile(filepath.Join(root, "record.log")); err != nil || strings.Contains(string(onDisk), "s3cret") || len(onDisk) == 0 {
		t.Errorf("%v: %s", err, onDisk)
	}
	if info, err := os.Stat(filepath.Join(root, "record.log")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: others may read it: %v", err, info.Mode())
	}
	if err := l.KeepText(true); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = open(t, root) // it stays so
	long := strings.Repeat("x", maxText-1) + "ä and more"
	l.Add(sending(2, "a", "b"), []byte("now \xff\x1b"))
	l.Add(sending(3, "a", "b"), []byte(long))
	if err := l.KeepText(false); err != nil {
		t.Fatal(err)
	}
	l.Add(sending(4, "a", "b"), []byte("s3cret"))
	got := read(t, l, padi.RecordedRequest{})
	texts := []string{}
	for _, s := range got.Sendings {
		texts = append(texts, s.Text)
	}
	if diff := cmp.Diff([]string{"", "now \ufffd\x1b", long[:maxText-1], ""}, texts); diff != "" || !got.Sendings[2].TextCut || got.Sendings[2].Bytes != len(long) {
		t.Errorf("%+v %s", got.Sendings[2].Bytes, diff)
	}
	if got.Text || read(t, open(t, root), padi.RecordedRequest{}).Text {
		t.Error("texts are kept after it was ended")
	}
	if err := l.KeepText(false); err != nil {
		t.Errorf("ended twice: %v", err)
	}
}

// A crash in the middle of a line costs that line alone, and a foreign one costs nothing.
func TestATornLineCostsItself(t *testing.T) {
	root := t.TempDir()
	l := open(t, root)
	l.Add(sending(1, "a", "b"), nil)
	l.Close()
	f, err := os.OpenFile(filepath.Join(root, "record.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "%s\n\n{}\n{\"at\":2,\"to\":\"tor", strings.Repeat("long", maxLine))
	f.Close()
	l = open(t, root)
	l.Add(sending(3, "a", "b"), nil)
	if got := times(read(t, l, padi.RecordedRequest{})); !cmp.Equal(got, []int64{1, 3}) {
		t.Errorf("%v", got)
	}
}

// However much is sent, the files stay small and the newest are there, also for who reads meanwhile.
func TestRecordIsBounded(t *testing.T) {
	root := t.TempDir()
	l := open(t, root)
	if err := l.KeepText(true); err != nil {
		t.Fatal(err)
	}
	worst := []byte(strings.Repeat("\x01", maxText))
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if found, err := l.Read(padi.RecordedRequest{Limit: padi.MaxRecorded}); err != nil {
				t.Error(err)
			} else if at := times(found); len(at) > 1 && at[len(at)-1]-at[0] != int64(len(at)-1) {
				t.Errorf("%d from %d to %d have holes", len(at), at[0], at[len(at)-1])
			}
		}
	})
	const n = 2000 // 24 KB each
	for i := range int64(n) {
		l.Add(sending(i, "a", "b"), worst)
	}
	close(done)
	wg.Wait()
	var size int64
	for _, name := range []string{"record.log", "record.log.1", "record.log.2", "record.log.3"} {
		if info, err := os.Stat(filepath.Join(root, name)); err == nil {
			size += info.Size()
		}
	}
	if size > 31<<20 || size < 15<<20 {
		t.Errorf("%d bytes on disk", size)
	}
	found := read(t, l, padi.RecordedRequest{Limit: padi.MaxRecorded})
	at := times(found)
	if !found.More || at[len(at)-1] != n-1 || len(at) < 400 {
		t.Errorf("%d found, up to %d", len(at), at[len(at)-1])
	}
	if !utf8.ValidString(found.Sendings[0].Text) {
		t.Error("a text is no text")
	}
}

func BenchmarkAdd(b *testing.B) {
	l, err := Open(b.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	s := sending(1, "aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-2222-4222-8222-222222222222")
	for b.Loop() {
		l.Add(s, []byte("x"))
	}
}
