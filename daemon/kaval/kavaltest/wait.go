package kavaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kolu/daemon/kaval"
)

func testIdle(t *testing.T, s *suite) {
	id := s.spawn(t, "stty -echo; echo ready; read x; i=0; while [ $i -lt 8 ]; do i=$((i+1)); echo tick; sleep 0.05; done; echo still; cat")
	s.await(t, id, "ready")
	r, err := s.Wait(within(t), id, kaval.WaitRequest{IdleMS: 100})
	if err != nil || r.Result != kaval.Met || r.Fired != "idle" || r.ElapsedMS < 100 || r.ID != id {
		t.Errorf("quiet terminal: %+v, %v", r, err)
	}
	s.write(t, id, "\n")
	s.await(t, id, "tick")
	if r, err = s.Wait(within(t), id, kaval.WaitRequest{IdleMS: 1500}); err != nil || r.Result != kaval.Met {
		t.Errorf("after a burst: %+v, %v", r, err)
	}
	if got := s.text(t, id); !strings.Contains(got, "still") {
		t.Errorf("idle was reported in the middle of a burst:\n%s", got)
	}
	busy := s.spawn(t, "while :; do echo x; sleep 0.02; done")
	if r, err = s.Wait(within(t), busy, kaval.WaitRequest{IdleMS: 20_000, TimeoutMS: 300}); err != nil || r.Result != kaval.Timeout || r.ElapsedMS < 300 {
		t.Errorf("busy terminal: %+v, %v", r, err)
	}
}

func testMatch(t *testing.T, s *suite) {
	id := s.spawn(t, `stty -echo; echo marker; while IFS= read -r x; do printf "$x"; done`)
	old := s.await(t, id, "marker")
	if old.Fired != "match" || old.MatchedLine != "marker" || old.Offset < int64(len("marker")) {
		t.Errorf("%+v", old)
	}
	if r, err := s.Wait(within(t), id, kaval.WaitRequest{Match: "marker", TimeoutMS: 200}); err != nil || r.Result != kaval.Timeout {
		t.Errorf("old output was matched: %+v, %v", r, err)
	}
	after := func(offset int64, match string) kaval.WaitResult {
		t.Helper()
		r, err := s.Wait(within(t), id, kaval.WaitRequest{Match: match, After: &offset})
		if err != nil || r.Result != kaval.Met {
			t.Fatalf("wait for %q after %d: %+v, %v", match, offset, r, err)
		}
		return r
	}
	s.write(t, id, "first half\n")
	half := after(old.Offset, "first")
	s.write(t, id, ` and \033[31msecond\033[0m half\n`+"\n")
	if got := after(old.Offset, `half and .*half`); got.MatchedLine != "first half and second half" {
		t.Errorf("over two reads: %+v", got)
	}
	s.write(t, id, "later-sentinel\n")
	if got := after(half.Offset, "later-sent[a-z]*"); !strings.Contains(got.MatchedLine, "later-sentinel") {
		t.Errorf("from a cursor on: %+v", got)
	}
}

func testWaitGone(t *testing.T, s *suite) {
	// Nothing says that a wait has arrived, and one that comes after the end is told only of the end: the pause is for both to arrive.
	id := s.spawn(t, "read x; sleep 2; echo sentinel; exit 5")
	waits := map[string]chan kaval.WaitResult{"sentinel": make(chan kaval.WaitResult, 1), "never": make(chan kaval.WaitResult, 1)}
	for match, result := range waits {
		go func() {
			r, err := s.Wait(within(t), id, kaval.WaitRequest{Match: match, After: &beginning})
			if err != nil {
				t.Errorf("wait for %s: %v", match, err)
			}
			result <- r
		}()
	}
	s.write(t, id, "\n")
	if r := <-waits["sentinel"]; r.Result != kaval.Met || r.Fired != "match" {
		t.Errorf("printed before the end: %+v", r)
	}
	if r := <-waits["never"]; r.Result != kaval.Gone || r.ExitCode == nil || *r.ExitCode != 5 {
		t.Errorf("never printed: %+v", r)
	}
}

func testWaitRefused(t *testing.T, s *suite) {
	id := s.spawn(t, "cat")
	negative := int64(-1)
	for _, req := range []kaval.WaitRequest{
		{}, {IdleMS: 5, Match: "x"}, {IdleMS: -1}, {IdleMS: kaval.MaxWaitMS + 1}, {Match: "("}, {Match: "x*"}, {Match: "(?=x)"},
		{Match: "x", TimeoutMS: -1}, {Match: "x", TimeoutMS: kaval.MaxWaitMS + 1}, {Match: "x", After: &negative},
	} {
		_, err := s.Wait(within(t), id, req)
		wantErr(t, fmt.Sprintf("%+v", req), err, kaval.ErrInvalid)
	}
}

func testCancelled(t *testing.T, s *suite) {
	id := s.spawn(t, "echo ready; cat")
	s.await(t, id, "ready")
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 2)
	go func() {
		_, err := s.Wait(ctx, id, kaval.WaitRequest{Match: "never"})
		ended <- err
	}()
	a, err := s.Attach(ctx, id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Next(ctx); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := a.Next(ctx)
		ended <- err
	}()
	cancel()
	for range 2 {
		select {
		case err := <-ended:
			wantErr(t, "cancelled", err, context.Canceled)
		case <-time.After(patience):
			t.Fatal("a cancelled call hangs")
		}
	}
	// A caller that has left already changes nothing.
	if _, err := s.Attach(ctx, id, kaval.AttachRequest{Size: kaval.Size{Cols: 33, Rows: 11}}); !errors.Is(err, context.Canceled) {
		t.Errorf("attach with a cancelled context: %v", err)
	}
	if got, _ := s.find(t, id); got.Cols != kaval.DefaultCols {
		t.Errorf("a cancelled attach resized the terminal to %dx%d", got.Cols, got.Rows)
	}
	// The attachment lives on: it was not the context of Attach that held it.
	s.write(t, id, "more\n")
	r := &reader{Attachment: a}
	r.contains(t, "more")
}
