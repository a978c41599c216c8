package kavalrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
)

// An attachment that nobody reads, behind a flood, holds up none of its client's calls.
func TestFullAttachmentHoldsUpNoCall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	socket, _ := serve(t)
	c := kavalrpc.NewClient(daemon.Unix(socket))
	defer c.Close()
	term, err := c.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c", "stty -echo; echo ready; read x; yes | head -c 20000000; echo over; cat"}})
	if err != nil {
		t.Fatal(err)
	}
	from := int64(0)
	a, err := c.Attach(ctx, term.ID, kaval.AttachRequest{From: &from})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Write(ctx, []byte("\n")); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Wait(ctx, term.ID, kaval.WaitRequest{Match: "over", After: &from}); err != nil || r.Result != kaval.Met {
		t.Fatalf("%+v, %v", r, err)
	}
	for range 20 {
		if _, err := c.List(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Write(ctx, term.ID, kaval.Input{Data: []byte("x\n")}); err != nil {
			t.Fatal(err)
		}
		if err := c.Resize(ctx, term.ID, kaval.Size{Cols: 90, Rows: 30}); err != nil {
			t.Fatal(err)
		}
	}
}

// What is absent has no name in the JSON: null would not decode everywhere.
func TestAbsentIsLeftOut(t *testing.T) {
	for _, v := range []any{
		kaval.Terminal{}, kaval.Info{}, kaval.SpawnRequest{}, kaval.Input{Data: []byte{}}, kaval.ScreenRequest{}, kaval.Screen{}, kaval.HistoryRequest{},
		kaval.HistoryPage{}, kaval.WaitRequest{}, kaval.WaitResult{}, kaval.AttachRequest{}, kaval.Frame{}, kaval.Event{}, kaval.ProgramStatus{}, kaval.Size{},
	} {
		data, err := json.Marshal(v)
		if err != nil || strings.Contains(string(data), "null") {
			t.Errorf("%T: %s, %v", v, data, err)
		}
	}
	socket, _ := serve(t)
	client := daemon.HTTPClient(daemon.Unix(socket))
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://kaval/v1/terminals")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || strings.TrimSpace(string(body)) != `{"terminals":[]}` {
		t.Errorf("no terminals: %s, %v", body, err)
	}
}

// Every route that the package's comment names is served, and no other.
func TestDocumentedRoutesAreServed(t *testing.T) {
	source, err := os.ReadFile("routes.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(GET|POST|DELETE) +(\S+) `).FindAllStringSubmatch(string(source), -1) {
		named[m[1]+" "+m[2]] = true
	}
	delete(named, "POST /v1/upgrade") // the daemon's own, as the comment says
	served := map[string]bool{}
	for _, m := range regexp.MustCompile(`"((?:GET|POST|DELETE) /v1/\S*)": `).FindAllStringSubmatch(string(source), -1) {
		served[m[1]] = true
	}
	socket, _ := serve(t)
	client := daemon.HTTPClient(daemon.Unix(socket))
	defer client.CloseIdleConnections()
	for route := range named {
		if !served[route] {
			t.Errorf("%s is named and not served", route)
		}
		if route == "GET /v1/watch" {
			continue // it has no end
		}
		method, path, _ := strings.Cut(route, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://kaval"+strings.ReplaceAll(path, "{id}", "nobody"), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		code := "ok"
		if resp.StatusCode != http.StatusOK {
			code, _ = daemon.ReadProblem(resp)
		}
		resp.Body.Close()
		if code == "no-route" || resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotFound && code != "no-terminal" {
			t.Errorf("%s: %d %s", route, resp.StatusCode, code)
		}
	}
	if len(named) == 0 || len(named) != len(served) {
		t.Errorf("%d routes are named, %d served", len(named), len(served))
	}
}

// counted counts the connections that are open.
type counted struct {
	daemon.Dialer
	open  atomic.Int32
	hold  chan struct{} // a dial waits for it; nil for none
	dials chan struct{} // one for each dial that waits
}

func (d *counted) Dial(ctx context.Context) (net.Conn, error) {
	if d.hold != nil {
		d.dials <- struct{}{}
		<-d.hold
		ctx = context.WithoutCancel(ctx) // the line came just as it was no longer wanted
	}
	conn, err := d.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &countedConn{Conn: conn, d: d}, nil
}

type countedConn struct {
	net.Conn
	d      *counted
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.d.open.Add(-1)
	}
	return c.Conn.Close()
}

// Who closes an attachment in the moment that its line is made leaves no line behind.
func TestClosedWhileTheLineIsMade(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	socket, host := serve(t)
	term, err := host.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	d := &counted{Dialer: daemon.Unix(socket)}
	c := kavalrpc.NewClient(d)
	a, err := c.Attach(ctx, term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Next(ctx); err != nil {
		t.Fatal(err)
	}
	f, err := host.Freeze(ctx) // another build takes over, and then does not
	if err != nil {
		t.Fatal(err)
	}
	d.hold, d.dials = make(chan struct{}), make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() { _, err := a.Next(ctx); ended <- err }()
	if _, err := f.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	f.Thaw()
	<-d.dials
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	close(d.hold)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Next ended with %v", err)
	}
	c.Close()
	for d.open.Load() > 0 {
		if ctx.Err() != nil {
			t.Fatalf("%d lines are left", d.open.Load())
		}
		poll := time.NewTimer(time.Millisecond)
		<-poll.C
	}
}

// short is a dialer whose connections break after their first answers.
type short struct {
	daemon.Dialer
	dials atomic.Int32
}

func (d *short) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	d.dials.Add(1)
	return &shortConn{Conn: conn}, nil
}

// shortConn gives what comes in its first reads.
type shortConn struct {
	net.Conn
	reads int
}

func (c *shortConn) Read(p []byte) (int, error) {
	if c.reads++; c.reads > 3 {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return c.Conn.Read(p)
}

// A daemon that breaks every attachment off after its first frame is not asked for ever without a word.
func TestAttachmentsThatKeepBreaking(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	socket, host := serve(t)
	term, err := host.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c", "while :; do echo x; sleep 0.02; done"}})
	if err != nil {
		t.Fatal(err)
	}
	d := &short{Dialer: daemon.Unix(socket)}
	c := kavalrpc.NewClient(d)
	defer c.Close()
	a, err := c.Attach(ctx, term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	frames := 0
	for err == nil {
		_, err = a.Next(ctx)
		frames++
	}
	if !errors.Is(err, kaval.ErrRefused) || !strings.Contains(err.Error(), "9 times") || frames < 8 || d.dials.Load() > 10 {
		t.Errorf("after %d frames of %d lines: %v", frames, d.dials.Load(), err)
	}
}
