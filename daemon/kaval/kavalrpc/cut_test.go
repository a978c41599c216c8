package kavalrpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/kaval/ptyhost"
	"kolu/stdio/stdiotest"
)

// amount is how much a test sends; less under -short and where the race detector makes everything slow.
func amount(full int) int {
	if testing.Short() || raceOn {
		return full / 10
	}
	return full
}

// bounded ends only a test that hangs.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// recorder spawns a program that writes what it is sent to a file, as it comes.
func recorder(t *testing.T, host kaval.Host) (id kaval.TerminalID, file string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file = filepath.Join(dir, "got")
	from := int64(0)
	term, err := host.Spawn(bounded(t), kaval.SpawnRequest{Argv: []string{"sh", "-c", "stty raw -echo; exec 3>&1 >" + file + "; echo ready >&3; exec cat"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.Wait(bounded(t), term.ID, kaval.WaitRequest{Match: "ready", After: &from}); err != nil {
		t.Fatal(err)
	}
	return term.ID, file
}

func numberedLine(i int) string { return fmt.Sprintf("line %06d\n", i) }

// holds waits until the file has so many lines and checks that they are the numbered ones, once each and in order.
func holds(t *testing.T, file string, n int) {
	t.Helper()
	want := n * len(numberedLine(0))
	deadline := time.Now().Add(time.Minute)
	var got []byte
	for len(got) < want && time.Now().Before(deadline) {
		var err error
		if got, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // a file tells nobody
	}
	for i := range n {
		line, rest, _ := bytes.Cut(got, []byte("\n"))
		if string(line)+"\n" != numberedLine(i) {
			t.Fatalf("where line %d should be is %q", i, line)
		}
		got = rest
	}
	if len(got) > 0 {
		t.Errorf("%d bytes too many: %.60q", len(got), got)
	}
}

func TestSendsOverACutLine(t *testing.T) {
	socket, host := serve(t)
	id, file := recorder(t, host)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	every := time.Second
	if n := amount(10_000); n < 10_000 {
		every /= 10
	}
	stop := line.CutEvery(t, every)
	for i := range amount(10_000) {
		if err := c.Write(bounded(t), id, kaval.Input{Data: []byte(numberedLine(i))}); err != nil {
			t.Fatalf("send %d: %v", i, err)
		}
	}
	if cuts := stop(); cuts == 0 {
		t.Error("the line was never cut")
	}
	holds(t, file, amount(10_000))
}

// Here every send is under way when the line is cut: each is asked at least twice.
func TestEverySendIsCut(t *testing.T) {
	socket, host := serve(t)
	id, file := recorder(t, host)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	n := amount(500)
	for i := range n {
		cut := make(chan struct{})
		go func() {
			defer close(cut)
			line.Cut()
			line.Mend(t)
		}()
		if err := c.Write(bounded(t), id, kaval.Input{Data: []byte(numberedLine(i))}); err != nil {
			t.Fatalf("send %d: %v", i, err)
		}
		<-cut
	}
	holds(t, file, n)
}

func TestTypingOverACutLine(t *testing.T) {
	socket, host := serve(t)
	id, file := recorder(t, host)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	a, err := c.Attach(bounded(t), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() { // what reads the frames also makes the lines again
		for ctx.Err() == nil {
			if _, err := a.Next(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	stop := line.CutEvery(t, 4*time.Millisecond)
	n := amount(10_000)
	for i := range n {
		if err := a.Write(bounded(t), []byte(numberedLine(i))); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			time.Sleep(time.Millisecond) // as slow as to be cut now and then; nobody types that fast
		}
	}
	holds(t, file, n)
	if cuts := stop(); cuts < 2 {
		t.Errorf("%d cuts", cuts)
	}
	cancel()
	reader.Wait()
	a.Close()
}

// Keys typed before a detach arrive.
func TestCloseWaitsForWhatWasTyped(t *testing.T) {
	socket, host := serve(t)
	id, file := recorder(t, host)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	a, err := c.Attach(bounded(t), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Next(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := a.Write(bounded(t), []byte(numberedLine(0))); err != nil {
		t.Fatal(err)
	}
	a.Close()
	holds(t, file, 1)
}

// talker prints numbered lines once a line was sent to it, and ends at the next one.
func talker(t *testing.T, host *ptyhost.Host, n int) kaval.TerminalID {
	t.Helper()
	script := fmt.Sprintf(`stty -echo; echo ready; read x; i=0; while [ $i -lt %d ]; do printf 'line %%06d\n' $i; i=$((i+1)); done; read x; exit 7`, n)
	term, err := host.Spawn(bounded(t), kaval.SpawnRequest{Argv: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	from := int64(0)
	if _, err := host.Wait(bounded(t), term.ID, kaval.WaitRequest{Match: `ready\r\n`, After: &from}); err != nil {
		t.Fatal(err)
	}
	return term.ID
}

func TestAttachOverACutLine(t *testing.T) {
	socket, host := serve(t)
	n := amount(20_000)
	id := talker(t, host, n)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	a, err := c.Attach(bounded(t), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	first, err := a.Next(bounded(t))
	if err != nil || first.Kind != kaval.FrameSnapshot {
		t.Fatalf("first %+v, %v", first, err)
	}
	stop := line.CutEvery(t, 5*time.Millisecond)
	if err := c.Write(bounded(t), id, kaval.Input{Data: []byte("\n")}); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	at := first.Offset
	for {
		f, err := a.Next(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == kaval.FrameExit {
			if f.ExitCode != 7 {
				t.Errorf("exit code %d", f.ExitCode)
			}
			break
		}
		if f.Kind != kaval.FrameData {
			t.Fatalf("a %s frame, though the ring holds everything", f.Kind)
		}
		got.Write(f.Data)
		if at += int64(len(f.Data)); at != f.Offset {
			t.Fatalf("offset %d after %d bytes", f.Offset, at)
		}
		if bytes.HasSuffix(got.Bytes(), []byte(strings.TrimSuffix(numberedLine(n-1), "\n")+"\r\n")) {
			if err := c.Write(bounded(t), id, kaval.Input{Data: []byte("\n")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if cuts := stop(); cuts < 2 {
		t.Errorf("%d cuts", cuts)
	}
	for i := range n {
		part, rest, _ := strings.Cut(string(got.Next(len(numberedLine(0))+1)), "\r\n")
		if part+"\n" != numberedLine(i) || rest != "" {
			t.Fatalf("line %d is %q", i, part)
		}
	}
}

// What the host no longer has comes as a snapshot, on the same attachment.
func TestLongCutGivesASnapshot(t *testing.T) {
	socket, host := serve(t)
	term, err := host.Spawn(bounded(t), kaval.SpawnRequest{Argv: []string{"sh", "-c", "stty -echo; read x; head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo over; cat"}})
	if err != nil {
		t.Fatal(err)
	}
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	a, err := c.Attach(bounded(t), term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Next(bounded(t)); err != nil {
		t.Fatal(err)
	}
	line.Cut()
	from := int64(0)
	if err := host.Write(bounded(t), term.ID, kaval.Input{Data: []byte("\n")}); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Wait(bounded(t), term.ID, kaval.WaitRequest{Match: "over", After: &from}); err != nil {
		t.Fatal(err)
	}
	line.Mend(t)
	f, err := a.Next(bounded(t))
	if err != nil || f.Kind != kaval.FrameSnapshot || !bytes.Contains(f.Data, []byte("over")) {
		t.Errorf("%s frame with %.40q, %v", f.Kind, f.Data, err)
	}
	if a, ok := a.(interface{ Redraw() }); ok {
		a.Redraw()
	} else {
		t.Error("no Redraw")
	}
	line.Cut()
	line.Mend(t)
	if f, err = a.Next(bounded(t)); err != nil || f.Kind != kaval.FrameSnapshot {
		t.Errorf("asked for a snapshot, got %s, %v", f.Kind, err)
	}
}

// telling is a line that says during a dial that it was lost, as one to a host does when that is found out then.
type telling struct {
	*stdiotest.Line
	told func()
}

func (l *telling) Dial(ctx context.Context) (net.Conn, error) {
	if l.told != nil {
		l.told()
	}
	return l.Line.Dial(ctx)
}

// TestRedrawAskedForDuringADial asks for a fresh snapshot while the attachment is on its way to the next line: it begins with one.
func TestRedrawAskedForDuringADial(t *testing.T) {
	socket, host := serve(t)
	id := talker(t, host, 3)
	line := &telling{Line: stdiotest.New(t, daemon.Unix(socket).Dial)}
	c := kavalrpc.NewClient(line)
	defer c.Close()
	a, err := c.Attach(bounded(t), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Next(bounded(t)); err != nil {
		t.Fatal(err)
	}
	line.told = sync.OnceFunc(a.(interface{ Redraw() }).Redraw)
	line.Cut()
	line.Mend(t)
	if f, err := a.Next(bounded(t)); err != nil || f.Kind != kaval.FrameSnapshot {
		t.Errorf("asked for a snapshot, got %s, %v", f.Kind, err)
	}
}

func TestTerminalThatEndedMeanwhile(t *testing.T) {
	socket, host := serve(t)
	id := talker(t, host, 3)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	a, err := c.Attach(bounded(t), id, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Next(bounded(t)); err != nil {
		t.Fatal(err)
	}
	waited := make(chan kaval.WaitResult, 1)
	go func() {
		res, err := c.Wait(bounded(t), id, kaval.WaitRequest{Match: "never"})
		if err != nil {
			t.Error(err)
		}
		waited <- res
	}()
	line.Cut()
	if err := host.Write(bounded(t), id, kaval.Input{Data: []byte("a\nb\n")}); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Wait(bounded(t), id, kaval.WaitRequest{Match: "never"}); err != nil {
		t.Fatal(err)
	}
	line.Mend(t)
	if f, err := a.Next(bounded(t)); err != nil || f.Kind != kaval.FrameExit || f.ExitCode != 7 {
		t.Errorf("frame %+v, %v", f, err)
	}
	if _, err := a.Next(bounded(t)); !errors.Is(err, io.EOF) {
		t.Errorf("after the exit: %v", err)
	}
	if res := <-waited; res.Result != kaval.Gone {
		t.Errorf("wait: %+v", res)
	}
}

func TestWaitOverACutLine(t *testing.T) {
	socket, host := serve(t)
	term, err := host.Spawn(bounded(t), kaval.SpawnRequest{Argv: []string{"sh", "-c", "stty -echo; echo ready; cat"}})
	if err != nil {
		t.Fatal(err)
	}
	from := int64(0)
	if _, err := host.Wait(bounded(t), term.ID, kaval.WaitRequest{Match: "ready", After: &from}); err != nil {
		t.Fatal(err)
	}
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	type outcome struct {
		res kaval.WaitResult
		err error
	}
	ask := func(req kaval.WaitRequest) chan outcome {
		ch := make(chan outcome, 1)
		go func() { res, err := c.Wait(bounded(t), term.ID, req); ch <- outcome{res, err} }()
		return ch
	}
	say := func(text string) {
		t.Helper()
		if err := host.Write(bounded(t), term.ID, kaval.Input{Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	at := func() int64 {
		list, err := host.List(bounded(t))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].Output
	}
	begun := at()
	match := ask(kaval.WaitRequest{Match: "sentinel", After: &begun})
	line.Cut()
	say("sentinel\n") // printed while nobody can hear it
	line.Mend(t)
	if o := <-match; o.err != nil || o.res.Result != kaval.Met || o.res.MatchedLine != "sentinel" {
		t.Errorf("match: %+v", o)
	}
	late := ask(kaval.WaitRequest{Match: "never", TimeoutMS: 300})
	line.Cut()
	if o := <-late; o.err != nil || o.res.Result != kaval.Timeout || o.res.ElapsedMS < 300 {
		t.Errorf("timeout with the line down: %+v", o)
	}
	line.Mend(t)
	stop := line.CutEvery(t, 50*time.Millisecond)
	quiet := ask(kaval.WaitRequest{IdleMS: 60_000, TimeoutMS: 500}) // a new line is no reason to call it quiet
	if o := <-quiet; o.err != nil || o.res.Result != kaval.Timeout {
		t.Errorf("silence: %+v", o)
	}
	stop()
	if o := <-ask(kaval.WaitRequest{IdleMS: 100}); o.err != nil || o.res.Result != kaval.Met || o.res.Fired != "idle" {
		t.Errorf("silence on a line that stands: %+v", o)
	}
}

func TestWatchOverACutLine(t *testing.T) {
	socket, host := serve(t)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	spawn := func() kaval.TerminalID {
		t.Helper()
		term, err := host.Spawn(bounded(t), kaval.SpawnRequest{Argv: []string{"cat"}})
		if err != nil {
			t.Fatal(err)
		}
		return term.ID
	}
	stays, goes := spawn(), spawn()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	var comes kaval.TerminalID
	var got []string
	for e, err := range c.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == kaval.EventActivity || e.Kind == kaval.EventChanged { // of the programs' own making
			continue
		}
		got = append(got, string(e.Kind)+" "+string(e.ID))
		switch len(got) {
		case 1:
			line.Cut()
			comes = spawn()
			if err := host.Kill(bounded(t), goes); err != nil {
				t.Fatal(err)
			}
			line.Mend(t)
		case 3:
			line.Cut()
			line.Mend(t)
			go func() { _ = host.Kill(bounded(t), stays) }() // after the new line, or before: either way it is said once
		case 4:
			cancel()
		}
	}
	want := []string{"snapshot ", "exited " + string(goes), "created " + string(comes), "exited " + string(stays)}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Two requests of one key overlap when the first line hangs: the second waits for the first, and it happens once.
func TestSpawnsOverACutLine(t *testing.T) {
	socket, host := serve(t)
	line := stdiotest.New(t, daemon.Unix(socket).Dial)
	c := kavalrpc.NewClient(line)
	defer c.Close()
	stop := line.CutEvery(t, 15*time.Millisecond)
	const n = 30
	for range n {
		if _, err := c.Spawn(bounded(t), kaval.SpawnRequest{Argv: []string{"cat"}}); err != nil {
			t.Fatal(err)
		}
	}
	if cuts := stop(); cuts == 0 {
		t.Error("the line was never cut")
	}
	list, err := host.List(bounded(t))
	if err != nil || len(list) != n {
		t.Errorf("%d terminals of %d spawns, %v", len(list), n, err)
	}
}
