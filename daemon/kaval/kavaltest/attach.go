package kavaltest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"kolu/daemon/kaval"
)

func testAttach(t *testing.T, s *suite) {
	id := s.spawn(t, "stty -echo; echo before; while read x; do echo \"got $x\"; [ \"$x\" = size ] && stty size; [ \"$x\" = end ] && exit 6; done")
	s.await(t, id, "before")
	a := s.attach(t, id, kaval.AttachRequest{Size: kaval.Size{Cols: 90, Rows: 30}})
	first := a.next(t)
	if first.Kind != kaval.FrameSnapshot || !bytes.Contains(first.Data, []byte("before")) || first.Size != (kaval.Size{Cols: 90, Rows: 30}) {
		t.Fatalf("the first frame is %s of %v: %q", first.Kind, first.Size, first.Data)
	}
	if err := a.Write(within(t), []byte("one\n")); err != nil {
		t.Fatal(err)
	}
	a.contains(t, "got one\r\n")
	if want := first.Offset + int64(a.data.Len()); a.last.Offset != want {
		t.Errorf("offset %d after %d bytes from %d", a.last.Offset, a.data.Len(), first.Offset)
	}
	if err := a.Resize(within(t), kaval.Size{Cols: 70, Rows: 20}); err != nil {
		t.Fatal(err)
	}
	if got := a.until(t, kaval.FrameResized); got.Size != (kaval.Size{Cols: 70, Rows: 20}) {
		t.Errorf("resized to %v", got.Size)
	}
	if err := a.Write(within(t), []byte("size\nend\n")); err != nil {
		t.Fatal(err)
	}
	if exit := drain(t, a); exit.ExitCode != 6 {
		t.Errorf("exit frame %+v", exit)
	}
	if !strings.Contains(a.data.String(), "20 70\r\n") || !strings.HasSuffix(a.data.String(), "got end\r\n") {
		t.Errorf("data %q", a.data.String())
	}
}

// Snapshot and data have no gap and no overlap, whenever an attach falls into the output.
func testAtomic(t *testing.T, s *suite) {
	const count = 20_000
	id := s.spawn(t, "read x; "+numbered(count)+"; read x")
	s.write(t, id, "\n")
	for range 10 {
		a := s.attach(t, id, kaval.AttachRequest{})
		first := a.next(t)
		if first.Kind != kaval.FrameSnapshot {
			t.Fatalf("the first frame is %s", first.Kind)
		}
		a.next(t)
		if a.last.Kind == kaval.FrameData && a.last.Offset != first.Offset+int64(a.data.Len()) {
			t.Errorf("a gap of %d bytes after the snapshot", a.last.Offset-first.Offset-int64(a.data.Len()))
		}
		a.Close()
	}
	a := s.attach(t, id, kaval.AttachRequest{})
	snap := a.next(t)
	end := fmt.Sprintf("line %d\r\n", count)
	s.await(t, id, end)
	s.write(t, id, "\n")
	drain(t, a)
	if last := []byte(fmt.Sprintf("line %d", count)); !bytes.Contains(snap.Data, last) && !bytes.Contains(a.data.Bytes(), last) {
		t.Error("the last line is neither in the snapshot nor in the data")
	}
}

func testResume(t *testing.T, s *suite) {
	id := s.spawn(t, "stty -echo; echo ready; while read x; do echo \"got $x\"; done")
	s.await(t, id, "ready\r\n")
	a := s.attach(t, id, kaval.AttachRequest{})
	at := a.next(t).Offset
	a.Close()
	s.write(t, id, "while away\n")
	s.await(t, id, "while away\r\n")
	back := s.attach(t, id, kaval.AttachRequest{From: &at})
	s.write(t, id, "again\n")
	back.contains(t, "got again\r\n")
	if got := back.data.String(); got != "got while away\r\ngot again\r\n" {
		t.Errorf("resumed with %q", got)
	}
	future := back.last.Offset + 1000
	if got := s.attach(t, id, kaval.AttachRequest{From: &future}).next(t); got.Kind != kaval.FrameSnapshot {
		t.Errorf("an offset that is not there yet gave %s", got.Kind)
	}
	negative := int64(-1)
	_, err := s.Attach(within(t), id, kaval.AttachRequest{From: &negative})
	wantErr(t, "negative offset", err, kaval.ErrInvalid)
}

// A reader that stops is told how much it missed and gets a fresh snapshot; it slows nobody.
func testSlow(t *testing.T, s *suite) {
	id := s.spawn(t, "stty -echo; echo ready; read x; head -c 16000000 /dev/zero | tr '\\0' 'x'; echo; echo flood over; read x; echo bye")
	s.await(t, id, "ready")
	slow := s.attach(t, id, kaval.AttachRequest{})
	start := slow.next(t).Offset
	s.write(t, id, "\n")
	s.await(t, id, "flood over") // nobody read, and the program went on
	got, at := int64(0), start
	var lost int64
	for {
		frame := slow.next(t)
		switch frame.Kind {
		case kaval.FrameData:
			got += int64(len(frame.Data))
			at = frame.Offset
		case kaval.FrameOverflow:
			if frame.Lost <= 0 || frame.Offset != at+frame.Lost {
				t.Errorf("overflow says %d lost up to %d, after %d", frame.Lost, frame.Offset, at)
			}
			lost += frame.Lost
			snap := slow.next(t)
			if snap.Kind != kaval.FrameSnapshot || snap.Offset < frame.Offset {
				t.Fatalf("after the overflow came %s at %d", snap.Kind, snap.Offset)
			}
			at = snap.Offset
			if bytes.Contains(snap.Data, []byte("flood over")) {
				s.write(t, id, "\n")
			}
		case kaval.FrameExit:
			if lost == 0 || got+lost != at-start {
				t.Errorf("%d got and %d lost of %d", got, lost, at-start)
			}
			return
		}
		if bytes.Contains(slow.data.Bytes(), []byte("flood over")) && !bytes.Contains(slow.data.Bytes(), []byte("bye")) {
			s.write(t, id, "\n")
		}
	}
}

func testTwoClients(t *testing.T, s *suite) {
	id := s.spawn(t, "stty -echo; echo ready; while read x; do echo \"got $x\"; done")
	s.await(t, id, "ready")
	one := s.attach(t, id, kaval.AttachRequest{Size: kaval.Size{Cols: 100, Rows: 30}})
	if got := one.next(t).Size; got.Cols != 100 {
		t.Errorf("the first client's grid is %v", got)
	}
	two := s.attach(t, id, kaval.AttachRequest{Size: kaval.Size{Cols: 60, Rows: 20}})
	if got := two.next(t).Size; got.Cols != 60 {
		t.Errorf("the second client's grid is %v", got)
	}
	if got := one.until(t, kaval.FrameResized).Size; got != (kaval.Size{Cols: 60, Rows: 20}) {
		t.Errorf("the first client was told of %v", got)
	}
	watcher := s.attach(t, id, kaval.AttachRequest{}) // a watcher resizes nothing
	if got := watcher.next(t).Size; got.Cols != 60 {
		t.Errorf("a watcher's grid is %v", got)
	}
	s.write(t, id, "hello\n")
	for _, a := range []*reader{one, two, watcher} {
		a.contains(t, "got hello")
	}
}

func testAttachEnd(t *testing.T, s *suite) {
	id := s.spawn(t, "printf X; exit 7")
	if code := s.attachOrEnd(t, id); code != 7 {
		t.Errorf("exit code %d", code)
	}
	killed := s.spawn(t, "echo ready; cat")
	s.await(t, killed, "ready")
	a := s.attach(t, killed, kaval.AttachRequest{})
	if err := s.Kill(within(t), killed); err != nil {
		t.Fatal(err)
	}
	if exit := drain(t, a); exit.ExitCode < 128 {
		t.Errorf("killed, with exit code %d", exit.ExitCode)
	}
	closed := s.attach(t, s.spawn(t, "cat"), kaval.AttachRequest{})
	closed.Close()
	if _, err := closed.Next(within(t)); err == nil {
		t.Error("a closed attachment gave a frame")
	}
	if err := closed.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func testHistory(t *testing.T, s *suite) {
	const count = 300
	id := s.spawn(t, numbered(count)+`; printf end; read x; printf '\033[H'; cat`)
	s.await(t, id, "end")
	var pages []string
	var before, epoch *int64
	for {
		page, err := s.History(within(t), id, kaval.HistoryRequest{Before: before, Max: 70, Epoch: epoch})
		if err != nil || page.Stale || page.Lines < 1 && !page.Exhausted {
			t.Fatalf("page %+v, %v", page, err)
		}
		pages = append([]string{page.Chunk}, pages...)
		if page.Exhausted {
			break
		}
		before, epoch = &page.TopLine, &page.Epoch
	}
	got := strings.Split(strings.ReplaceAll(strings.Join(pages, "\n"), "\r", ""), "\n")
	if want := count - 23; len(got) < want || !strings.Contains(got[0], "line 1") || !strings.Contains(got[want-1], fmt.Sprintf("line %d", want)) {
		t.Errorf("history of %d lines, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	if err := s.Resize(within(t), id, kaval.Size{Cols: 40, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	page, err := s.History(within(t), id, kaval.HistoryRequest{Before: before, Max: 70, Epoch: epoch})
	if err != nil || !page.Stale {
		t.Errorf("a cursor from before a change of width: %+v, %v", page, err)
	}
	for _, max := range []int{0, -1} {
		_, err := s.History(within(t), id, kaval.HistoryRequest{Max: max})
		wantErr(t, "history without lines", err, kaval.ErrInvalid)
	}
}
