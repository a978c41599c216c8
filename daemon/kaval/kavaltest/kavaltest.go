// Package kavaltest proves a kaval.Host: [TestHost] runs what the contract promises against any of them, in process or at the other end
// of a wire. It runs programs in the host's terminals and looks at nothing else of the host, so the host may be another machine;
// there it needs a POSIX shell with stty, cat, head, od and cksum.
package kavaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"kolu/daemon/kaval"
)

// patience bounds what must happen sooner or later. No promise is about time alone.
const patience = 60 * time.Second

// TestHost runs the suite. open gives a host that works until the test ends; terminals of others on it are not touched.
func TestHost(t *testing.T, open func(t *testing.T) kaval.Host) {
	for name, test := range map[string]func(*testing.T, *suite){
		"info":                     testInfo,
		"spawn, list, kill":        testLife,
		"spawn is refused":         testSpawnRefused,
		"unknown ids":              testUnknown,
		"ended terminals":          testGone,
		"exit codes":               testExitCodes,
		"environment":              testEnvironment,
		"init files":               testInitFiles,
		"screen":                   testScreen,
		"write":                    testWrite,
		"write, bytes as they are": testBytes,
		"write, large":             testLarge,
		"write, a long line":       testLongLine,
		"write, echoed":            testEchoed,
		"write, many writers":      testWriters,
		"resize":                   testResize,
		"wait for silence":         testIdle,
		"wait for output":          testMatch,
		"wait, the end first":      testWaitGone,
		"wait is refused":          testWaitRefused,
		"attach":                   testAttach,
		"attach, atomic":           testAtomic,
		"attach, resume":           testResume,
		"attach, slow reader":      testSlow,
		"attach, two clients":      testTwoClients,
		"attach, end":              testAttachEnd,
		"history":                  testHistory,
		"watch":                    testWatch,
		"what programs say":        testSayings,
		"queries":                  testQueries,
		"cancelled calls":          testCancelled,
	} {
		t.Run(name, func(t *testing.T) { test(t, &suite{Host: open(t)}) })
	}
}

// suite is a host with what the tests do to it.
type suite struct{ kaval.Host }

// spawn starts a script that is killed at the end of the test.
func (s *suite) spawn(t *testing.T, script string) kaval.TerminalID {
	t.Helper()
	return s.start(t, kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", script}})
}

func (s *suite) start(t *testing.T, req kaval.SpawnRequest) kaval.TerminalID {
	t.Helper()
	term, err := s.Spawn(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Kill(ctx, term.ID); err != nil {
			t.Errorf("kill at the end: %v", err)
		}
	})
	return term.ID
}

// within is the test's context with an end.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

var beginning = int64(0)

// await waits until output of the terminal matches, from its beginning on.
func (s *suite) await(t *testing.T, id kaval.TerminalID, match string) kaval.WaitResult {
	t.Helper()
	r, err := s.Wait(within(t), id, kaval.WaitRequest{Match: match, After: &beginning})
	if err != nil {
		t.Fatal(err)
	}
	if r.Result != kaval.Met {
		t.Fatalf("waiting for %q: %s; the screen: %q", match, r.Result, s.text(t, id))
	}
	return r
}

// end waits for the end of the terminal and gives the exit code.
func (s *suite) end(t *testing.T, id kaval.TerminalID) int {
	t.Helper()
	r, err := s.Wait(within(t), id, kaval.WaitRequest{Match: "never \x01 printed"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Result != kaval.Gone || r.ExitCode == nil {
		t.Fatalf("waiting for the end: %+v", r)
	}
	return *r.ExitCode
}

func (s *suite) text(t *testing.T, id kaval.TerminalID) string {
	t.Helper()
	screen, err := s.Screen(within(t), id, kaval.ScreenRequest{})
	if err != nil {
		return err.Error()
	}
	return screen.Text
}

func (s *suite) write(t *testing.T, id kaval.TerminalID, data string) {
	t.Helper()
	if err := s.Write(within(t), id, kaval.Input{Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

// find gives the record of a live terminal.
func (s *suite) find(t *testing.T, id kaval.TerminalID) (kaval.Terminal, bool) {
	t.Helper()
	list, err := s.List(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, term := range list {
		if term.ID == id {
			return term, true
		}
	}
	return kaval.Terminal{}, false
}

func (s *suite) attach(t *testing.T, id kaval.TerminalID, req kaval.AttachRequest) *reader {
	t.Helper()
	a, err := s.Attach(within(t), id, req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return &reader{Attachment: a}
}

// reader is an attachment and what it gave so far.
type reader struct {
	kaval.Attachment
	data bytes.Buffer // of Data frames
	last kaval.Frame
}

func (r *reader) next(t *testing.T) kaval.Frame {
	t.Helper()
	frame, err := r.Next(within(t))
	if err != nil {
		t.Fatalf("next frame: %v (after %d bytes)", err, r.data.Len())
	}
	if frame.Kind == kaval.FrameData {
		r.data.Write(frame.Data)
	}
	r.last = frame
	return frame
}

// until reads frames until one is of a kind.
func (r *reader) until(t *testing.T, kind kaval.FrameKind) kaval.Frame {
	t.Helper()
	for {
		if frame := r.next(t); frame.Kind == kind {
			return frame
		}
	}
}

// contains reads until the data holds a text.
func (r *reader) contains(t *testing.T, text string) {
	t.Helper()
	for !bytes.Contains(r.data.Bytes(), []byte(text)) {
		if frame := r.next(t); frame.Kind == kaval.FrameExit {
			t.Fatalf("the end came before %q; data: %q", text, r.data.String())
		}
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// calls are all methods that name a terminal.
func (s *suite) calls(t *testing.T, id kaval.TerminalID) map[string]error {
	t.Helper()
	ctx := within(t)
	errs := map[string]error{}
	errs["write"] = s.Write(ctx, id, kaval.Input{Data: []byte("x")})
	errs["resize"] = s.Resize(ctx, id, kaval.Size{Cols: 90, Rows: 30})
	_, errs["screen"] = s.Screen(ctx, id, kaval.ScreenRequest{})
	_, errs["history"] = s.History(ctx, id, kaval.HistoryRequest{Max: 1})
	a, err := s.Attach(ctx, id, kaval.AttachRequest{})
	if err == nil {
		a.Close()
	}
	errs["attach"] = err
	return errs
}

// drain reads an attachment to its end.
func drain(t *testing.T, r *reader) (exit kaval.Frame) {
	t.Helper()
	exit = r.until(t, kaval.FrameExit)
	if _, err := r.Next(within(t)); !errors.Is(err, io.EOF) {
		t.Errorf("after the exit frame: %v, want EOF", err)
	}
	return exit
}

// numbered is a script that prints lines with numbers.
func numbered(n int) string {
	return fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "line $i"; done`, n)
}

func lines(text string) []string { return strings.Split(text, "\n") }
