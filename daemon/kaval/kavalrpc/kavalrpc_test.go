package kavalrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/kaval/kavaltest"
	"kolu/daemon/kaval/ptyhost"
)

// serve serves a host on a socket and gives its path and the host.
func serve(t *testing.T) (string, *ptyhost.Host) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	host := ptyhost.New(ptyhost.Options{Log: log, Socket: socket, ToolsDir: "/opt/tools/bin", RunDir: dir})
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: kavalrpc.Handler(host, log)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		host.Close()
		server.Close()
		<-ended
	})
	return socket, host
}

func open(t *testing.T) kaval.Host {
	socket, _ := serve(t)
	c := kavalrpc.NewClient(daemon.Unix(socket))
	t.Cleanup(func() { c.Close() })
	return c
}

func TestContractOverASocket(t *testing.T) { kavaltest.TestHost(t, open) }

// cutting is a dialer whose connections break after the request was sent and before an answer comes, as often as it says.
type cutting struct {
	daemon.Dialer
	left atomic.Int32
}

func (d *cutting) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.Dialer.Dial(ctx)
	if err != nil || d.left.Add(-1) < 0 {
		return conn, err
	}
	return &cutConn{Conn: conn}, nil
}

// cutConn waits for an answer and withholds it.
type cutConn struct{ net.Conn }

func (c *cutConn) Read(p []byte) (int, error) {
	if _, err := c.Conn.Read(p); err != nil {
		return 0, err
	}
	c.Conn.Close()
	return 0, io.ErrUnexpectedEOF
}

// A client that lost the answer asks again, and nothing happens twice.
func TestLostAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	socket, host := serve(t)
	dialer := &cutting{Dialer: daemon.Unix(socket)}
	cut := func(call func(c *kavalrpc.Client) error) {
		t.Helper()
		dialer.left.Store(1)
		c := kavalrpc.NewClient(dialer)
		defer c.Close()
		if err := call(c); err != nil {
			t.Error(err)
		}
	}
	var term kaval.Terminal
	cut(func(c *kavalrpc.Client) (err error) {
		term, err = c.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"sh", "-c", "stty raw -echo; echo ready; head -c 2; echo over; cat"}})
		return err
	})
	if list, err := host.List(ctx); err != nil || len(list) != 1 || list[0].ID != term.ID {
		t.Fatalf("spawned %v, listed %v, %v", term.ID, list, err)
	}
	from := int64(0)
	if _, err := host.Wait(ctx, term.ID, kaval.WaitRequest{Match: "ready", After: &from}); err != nil {
		t.Fatal(err)
	}
	cut(func(c *kavalrpc.Client) error { return c.Write(ctx, term.ID, kaval.Input{Data: []byte("a")}) })
	cut(func(c *kavalrpc.Client) error { return c.Write(ctx, term.ID, kaval.Input{Data: []byte("b")}) })
	r, err := host.Wait(ctx, term.ID, kaval.WaitRequest{Match: ".*over", After: &from})
	if err != nil || r.MatchedLine != "abover" {
		t.Errorf("the program read %q, %v", r.MatchedLine, err)
	}
	cut(func(c *kavalrpc.Client) error { return c.Kill(ctx, term.ID) })
}

func TestBadRequests(t *testing.T) {
	socket, _ := serve(t)
	client := daemon.HTTPClient(daemon.Unix(socket))
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/v1/terminals", "{", 400, "invalid"},
		{"POST", "/v1/terminals", `{"argv":"sh"}`, 400, "invalid"},
		{"GET", "/v1/terminals/x", "", 404, "no-terminal"},
		{"DELETE", "/v1/terminals/x", "", 404, "no-terminal"},
		{"GET", "/v1/terminals/x/screen?lines=many", "", 400, "invalid"},
		{"GET", "/v1/terminals/x/wait?match=x&after=1e3", "", 400, "invalid"},
		{"GET", "/v1/terminals/x/history?max=99999999999999999999", "", 400, "invalid"},
		{"GET", "/v1/terminals/x/attach", "", 400, "invalid"},
		{"POST", "/v1/terminals", `{"argv":["/nonexistent"],"later":true}`, 422, "spawn-failed"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://kaval"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var problem struct{ Code, Detail string }
		err = json.NewDecoder(resp.Body).Decode(&problem)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || problem.Code != c.code || problem.Detail == "" {
			t.Errorf("%s %s: %d %+v, %v; want %d %s", c.method, c.path, resp.StatusCode, problem, err, c.status, c.code)
		}
	}
}

// The end of the daemon under a live terminal is not the end of the terminal to who waits.
func TestDaemonEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	socket, host := serve(t)
	c := kavalrpc.NewClient(daemon.Unix(socket))
	defer c.Close()
	term, err := c.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Attach(ctx, term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Next(ctx); err != nil {
		t.Fatal(err)
	}
	waited := make(chan kaval.WaitResult, 1)
	go func() {
		r, err := c.Wait(ctx, term.ID, kaval.WaitRequest{Match: "never"})
		if err != nil {
			t.Error(err)
		}
		waited <- r
	}()
	// The wait is under way when a later call on the same terminal has been answered.
	if _, err := c.Wait(ctx, term.ID, kaval.WaitRequest{IdleMS: 200}); err != nil {
		t.Fatal(err)
	}
	host.Close()
	if r := <-waited; r.Result != kaval.Closed {
		t.Errorf("the wait ended with %+v", r)
	}
	if _, err := a.Next(ctx); !errors.Is(err, kaval.ErrClosing) {
		t.Errorf("the attachment ended with %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	for _, frame := range []kaval.Frame{
		{Kind: kaval.FrameSnapshot, Data: []byte("x"), Offset: 9, Size: kaval.Size{Cols: 80, Rows: 24}},
		{Kind: kaval.FrameOverflow, Lost: 1, Offset: 2}, {Kind: kaval.FrameExit, ExitCode: -1},
		{Kind: kaval.FrameResized, Size: kaval.Size{Cols: 1, Rows: 2}},
	} {
		f.Add(kavalrpc.AppendFrame(nil, frame))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		frame, known, err := kavalrpc.ParseFrame(msg, 0)
		if err != nil || !known {
			return
		}
		again := kavalrpc.AppendFrame(nil, frame)
		if !bytes.HasPrefix(msg, again) {
			t.Errorf("%q came back as %q", msg, again)
		}
	})
}
