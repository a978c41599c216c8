package padirpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/ptyhost"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
	"kolu/daemon/padi/workspace"
	"kolu/stdio/stdiotest"
)

// overALine serves a real workspace and gives it, a line to it and a client over that line.
func overALine(t *testing.T) (padi.Workspace, *stdiotest.Line, *padirpc.Client) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	host := ptyhost.New(ptyhost.Options{Log: log, RunDir: t.TempDir()})
	t.Cleanup(host.Close)
	ws := workspace.New(workspace.Options{Kaval: host, Log: log, Environ: append(os.Environ(), "HOME="+t.TempDir(), "SHELL=/bin/sh")})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { ws.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	line := stdiotest.New(t, daemon.Unix(serve(t, ws)).Dial)
	return ws, line, client(t, line)
}

// bounded ends only a test that hangs.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// create makes a terminal at the top whose shell is told to run argv.
func create(t *testing.T, ws padi.Workspace, argv ...string) padi.TerminalID {
	t.Helper()
	made, err := ws.Create(bounded(t), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Run: argv})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// A watch goes on over the next line with what happened while there was none, each of it once.
func TestWatchOverACutLine(t *testing.T) {
	ws, line, c := overALine(t)
	create(t, ws)
	goes := create(t, ws)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	var comes padi.TerminalID
	var snapshots int
	said := map[string]int{}
	for ev, err := range c.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		said[string(ev.Kind)+" "+string(ev.ID)]++
		if ev.Kind == padi.EventSnapshot {
			if snapshots++; snapshots > 1 {
				t.Fatal("a new line gave a second snapshot")
			}
			line.Cut()
			comes = create(t, ws)
			if _, err := ws.Kill(bounded(t), goes); err != nil {
				t.Fatal(err)
			}
			line.Mend(t)
		}
		if said["changed "+string(comes)] > 0 && said["removed "+string(goes)] > 0 {
			break
		}
	}
	if n := said["removed "+string(goes)]; n != 1 {
		t.Errorf("the end of a terminal while the line was down was said %d times", n)
	}
}

// A wait for a match finds what was printed while there was no line, and a timeout ends one whose line stays away.
func TestWaitOverACutLine(t *testing.T) {
	ws, line, c := overALine(t)
	id := create(t, ws, "sh", "-c", "stty -echo; echo rea\"d\"y; cat")
	from := int64(0)
	if res, err := ws.Wait(bounded(t), id, padi.WaitRequest{Match: "ready", After: &from}); err != nil || res.Result != kaval.Met {
		t.Fatal(res, err)
	}
	screen, err := ws.Screen(bounded(t), id, kaval.ScreenRequest{Extent: kaval.Tail})
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		res padi.WaitResult
		err error
	}
	ask := func(req padi.WaitRequest) chan outcome {
		ch := make(chan outcome, 1)
		go func() {
			res, err := c.Wait(bounded(t), id, req)
			ch <- outcome{res, err}
		}()
		return ch
	}
	match := ask(padi.WaitRequest{Match: "sentinel", After: &screen.Offset})
	line.Cut()
	if err := ws.Write(bounded(t), id, kaval.Input{Data: []byte("sentinel\n")}); err != nil {
		t.Fatal(err)
	}
	if res, err := ws.Wait(bounded(t), id, padi.WaitRequest{Match: "sentinel", After: &screen.Offset}); err != nil || res.Result != kaval.Met {
		t.Fatal(res, err)
	}
	line.Mend(t) // only now, with the line long printed
	if o := <-match; o.err != nil || o.res.Result != kaval.Met || o.res.MatchedLine != "sentinel" {
		t.Errorf("match: %+v", o)
	}
	line.Cut()
	if o := <-ask(padi.WaitRequest{IdleMS: 60_000, TimeoutMS: 300}); o.err != nil || o.res.Result != kaval.Timeout || o.res.ElapsedMS < 300 {
		t.Errorf("timeout with the line down: %+v", o)
	}
	line.Mend(t)
}

// What is asked to be done while the line is cut again and again is done once each.
func TestChangesOverACutLine(t *testing.T) {
	ws, line, c := overALine(t)
	file := t.TempDir() + "/got"
	id := create(t, ws, "sh", "-c", "stty -echo; echo rea\"d\"y; cat >"+file)
	from := int64(0)
	if _, err := ws.Wait(bounded(t), id, padi.WaitRequest{Match: "ready", After: &from}); err != nil {
		t.Fatal(err)
	}
	stop := line.CutEvery(t, 2*time.Millisecond)
	defer stop()
	var want strings.Builder
	for i := range 400 {
		text := fmt.Sprintf("line %03d\n", i)
		if err := c.Write(bounded(t), id, kaval.Input{Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		want.WriteString(text)
	}
	const creates = 10
	for range creates {
		if _, err := c.Create(bounded(t), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}}); err != nil {
			t.Fatal(err)
		}
	}
	if stop() == 0 {
		t.Error("the line was never cut")
	}
	var got []byte
	for deadline := time.Now().Add(time.Minute); len(got) < want.Len() && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got, _ = os.ReadFile(file) // a file tells nobody
	}
	if string(got) != want.String() {
		t.Errorf("arrived\n%s", got)
	}
	if list, err := ws.Terminals(bounded(t)); err != nil || len(list) != creates+1 {
		t.Errorf("%d terminals after %d creates, %v", len(list)-1, creates, err)
	}
}

// A forwarded connection does not outlive its line, since TCP has no place to go on from; the next one goes over the next line.
func TestForwardOverACutLine(t *testing.T) {
	_, line, c := overALine(t)
	port := counter(t, "tcp4", "127.0.0.1:0")
	conn, err := c.Forward(bounded(t), port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	line.Cut()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection over a cut line goes on")
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("a connection over a cut line hangs")
	}
	again := make(chan error, 1)
	go func() {
		conn, err := c.Forward(bounded(t), port)
		if err == nil {
			defer conn.Close()
			_, err = io.WriteString(conn, "four")
			err = errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite())
			got, readErr := io.ReadAll(conn)
			if err = errors.Join(err, readErr); err == nil && string(got) != "got 4" {
				err = fmt.Errorf("answer %q", got)
			}
		}
		again <- err
	}()
	line.Mend(t)
	if err := <-again; err != nil {
		t.Errorf("over the next line: %v", err)
	}
}

// prompted is a workspace that takes its time over a prompt.
type prompted struct {
	padi.Workspace
	calls atomic.Int64
}

func (w *prompted) Explain(context.Context, padi.TerminalID) (padi.Explanation, error) {
	return padi.Explanation{}, nil
}

func (w *prompted) RecentAgents(context.Context) ([]padi.RecentAgent, error) { return nil, nil }

func (w *prompted) Prompt(ctx context.Context, id padi.TerminalID, req padi.PromptRequest) (padi.Receipt, error) {
	n := w.calls.Add(1)
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
		return padi.Receipt{}, ctx.Err()
	}
	return padi.Receipt{ID: id, Result: padi.Taken, Reason: string(req.Data), Enters: int(n)}, nil
}

// A prompt is typed once however often its line is cut while it is under way, and its receipt arrives.
func TestPromptOverACutLine(t *testing.T) {
	ws := &prompted{}
	line := stdiotest.New(t, daemon.Unix(serve(t, ws)).Dial)
	c := client(t, line)
	stop := line.CutEvery(t, 30*time.Millisecond)
	defer stop()
	for i := range 10 {
		text := fmt.Sprintf("prompt %d", i)
		r, err := c.Prompt(bounded(t), "x", padi.PromptRequest{Data: []byte(text)})
		if err != nil || r.Result != padi.Taken || r.Reason != text {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if stop() == 0 {
		t.Error("the line was never cut")
	}
	if n := ws.calls.Load(); n != 10 {
		t.Errorf("10 prompts were handed over %d times", n)
	}
}
