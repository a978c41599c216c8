package padirpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/ptyhost"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
	"kolu/daemon/padi/paditest"
	"kolu/daemon/padi/workspace"
)

// serve serves a workspace on a unix socket and gives its path.
func serve(t *testing.T, ws padi.Workspace) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "padi.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	srv := &http.Server{Handler: padirpc.Handler(ws, log)}
	var wg sync.WaitGroup
	wg.Go(func() { srv.Serve(l) })
	t.Cleanup(func() {
		srv.Close()
		wg.Wait()
	})
	return socket
}

func client(t *testing.T, d daemon.Dialer) *padirpc.Client {
	c := padirpc.NewClient(d)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestWorkspaceOverASocket(t *testing.T) {
	home := t.TempDir()
	paditest.TestWorkspace(t, func(t *testing.T) padi.Workspace {
		log := slog.New(slog.NewTextHandler(t.Output(), nil))
		host := ptyhost.New(ptyhost.Options{Log: log, RunDir: t.TempDir()})
		t.Cleanup(host.Close)
		ws := workspace.New(workspace.Options{Kaval: host, Log: log, Environ: append(os.Environ(), "HOME="+home, "SHELL=/bin/bash")})
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // it lives while the test cleans up
		var wg sync.WaitGroup
		wg.Go(func() { ws.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			wg.Wait()
		})
		return client(t, daemon.Unix(serve(t, ws)))
	})
}

// told is a workspace that keeps what it was asked and answers as it is told.
type told struct {
	padi.Workspace
	creates, writes atomic.Int64
	err             error
	wait            padi.WaitRequest
	screen          kaval.ScreenRequest
	history         kaval.HistoryRequest
	events          []padi.Event
}

func (w *told) Create(context.Context, padi.CreateRequest) (padi.Created, error) {
	w.creates.Add(1)
	return padi.Created{ID: "made", PID: 7}, w.err
}

func (w *told) Write(context.Context, padi.TerminalID, kaval.Input) error {
	w.writes.Add(1)
	return w.err
}

func (w *told) Terminals(context.Context) ([]padi.Record, error) { return nil, w.err }

func (w *told) Wait(_ context.Context, _ padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
	w.wait = req
	return padi.WaitResult{}, w.err
}

func (w *told) Screen(_ context.Context, _ padi.TerminalID, req kaval.ScreenRequest) (kaval.Screen, error) {
	w.screen = req
	return kaval.Screen{}, w.err
}

func (w *told) History(_ context.Context, _ padi.TerminalID, req kaval.HistoryRequest) (kaval.HistoryPage, error) {
	w.history = req
	return kaval.HistoryPage{}, w.err
}

func (w *told) Watch(context.Context) iter.Seq2[padi.Event, error] {
	return func(yield func(padi.Event, error) bool) {
		for _, ev := range w.events {
			if !yield(ev, nil) {
				return
			}
		}
		yield(padi.Event{}, kaval.ErrClosing)
	}
}

func TestEveryErrorCrossesTheWire(t *testing.T) {
	ws := &told{}
	c := client(t, daemon.Unix(serve(t, ws)))
	for _, want := range []error{
		kaval.ErrNoTerminal, kaval.ErrGone, kaval.ErrExists, kaval.ErrInvalid, kaval.ErrSpawn, kaval.ErrLimit, kaval.ErrStalled,
		kaval.ErrSurvivors, kaval.ErrRefused, kaval.ErrClosing, padi.ErrNoParent, padi.ErrWorktree, padi.ErrKavalDown,
	} {
		ws.err = &wrapped{want}
		if _, err := c.Terminals(t.Context()); !errors.Is(err, want) || err.Error() != ws.err.Error() {
			t.Errorf("%v came as %v", ws.err, err)
		}
		if err := c.Write(t.Context(), "x", kaval.Input{}); !errors.Is(err, want) {
			t.Errorf("%v came as %v", want, err)
		}
	}
	ws.err = errors.New("something of its own")
	if _, err := c.Terminals(t.Context()); err == nil || err.Error() != "something of its own" {
		t.Errorf("came as %v", err)
	}
}

type wrapped struct{ error }

func (w *wrapped) Error() string { return "do it: " + w.error.Error() }
func (w *wrapped) Unwrap() error { return w.error }

func TestAPartialCreateCrossesTheWire(t *testing.T) {
	landed := padi.Created{ID: "half", PID: 3, Worktree: &padi.Worktree{Path: "/r/.worktrees/b", Branch: "b"}}
	for _, cause := range []error{kaval.ErrStalled, padi.ErrKavalDown, errors.New("no code")} {
		ws := &told{err: &padi.PartialError{Landed: landed, Err: cause}}
		_, err := client(t, daemon.Unix(serve(t, ws))).Create(t.Context(), padi.CreateRequest{})
		partial, ok := errors.AsType[*padi.PartialError](err)
		if !ok || !cmp.Equal(partial.Landed, landed) || err.Error() != ws.err.Error() || padi.Code(err) != padi.Code(cause) {
			t.Errorf("%v came as %v", ws.err, err)
		}
	}
}

func TestQuestionsCrossTheWire(t *testing.T) {
	ws := &told{}
	c := client(t, daemon.Unix(serve(t, ws)))
	zero, big := int64(0), int64(1)<<40
	wait := padi.WaitRequest{Match: `a&b=\x1b+ %`, After: &zero, TimeoutMS: 5}
	agent := padi.WaitRequest{Until: []padi.Bucket{padi.BucketAwaiting, padi.BucketWaiting}}
	screen := kaval.ScreenRequest{Extent: kaval.Tail, Lines: 4, Trim: true, ANSI: true}
	history := kaval.HistoryRequest{Before: &big, Max: 3, Epoch: &zero}
	for _, err := range []error{
		second(c.Wait(t.Context(), "x", wait)), second(c.Screen(t.Context(), "x", screen)), second(c.History(t.Context(), "x", history)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !cmp.Equal(ws.wait, wait) || !cmp.Equal(ws.screen, screen) || !cmp.Equal(ws.history, history) {
		t.Errorf("arrived: %+v %+v %+v", ws.wait, ws.screen, ws.history)
	}
	if _, err := c.Wait(t.Context(), "x", agent); err != nil || !cmp.Equal(ws.wait, agent) {
		t.Errorf("arrived: %+v, %v", ws.wait, err)
	}
}

func second[T any](_ T, err error) error { return err }

// cutting dials a socket and cuts each of the first connections once the daemon has answered on it, before the client sees it.
func cutting(socket string, cuts *atomic.Int64) daemon.Dialer {
	return daemon.DialFunc(func(ctx context.Context) (net.Conn, error) {
		conn, err := daemon.Unix(socket).Dial(ctx)
		if err != nil {
			return nil, err
		}
		return &cutConn{Conn: conn, cuts: cuts}, nil
	})
}

type cutConn struct {
	net.Conn
	cuts *atomic.Int64
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.cuts.Add(-1) >= 0 {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func TestALostAnswerDoesNothingTwice(t *testing.T) {
	ws := &told{}
	var cuts atomic.Int64
	c := client(t, cutting(serve(t, ws), &cuts))
	cuts.Store(1)
	made, err := c.Create(t.Context(), padi.CreateRequest{})
	if err != nil || made.ID != "made" || ws.creates.Load() != 1 {
		t.Errorf("made %+v, %v, %d times", made, err, ws.creates.Load())
	}
	for range 50 {
		cuts.Store(1)
		if err := c.Write(t.Context(), "x", kaval.Input{Data: []byte("y")}); err != nil {
			t.Fatal(err)
		}
	}
	if got := ws.writes.Load(); got != 50 {
		t.Errorf("%d writes for 50", got)
	}
	cuts.Store(1 << 30)
	if err := c.Write(t.Context(), "x", kaval.Input{}); err == nil {
		t.Error("a line that always breaks gave no error")
	}
}

func TestWatchEndsWithAnError(t *testing.T) {
	ws := &told{events: []padi.Event{{Kind: padi.EventSnapshot, Seq: 3}, {Kind: padi.EventRemoved, ID: "a", Seq: 4}}}
	var kinds []padi.EventKind
	var last error
	for ev, err := range client(t, daemon.Unix(serve(t, ws))).Watch(t.Context()) {
		if err != nil {
			last = err
			continue
		}
		kinds = append(kinds, ev.Kind)
	}
	if last == nil || len(kinds) != 2 {
		t.Errorf("events %v, then %v", kinds, last)
	}
	ws.events = nil
	for _, err := range client(t, daemon.Unix(serve(t, ws))).Watch(t.Context()) {
		if !errors.Is(err, kaval.ErrClosing) {
			t.Errorf("a watch that cannot begin gave %v", err)
		}
	}
}

func TestAnAbsentDaemonIsNamed(t *testing.T) {
	_, err := client(t, daemon.Unix("/tmp/no-such-dir/padi.sock")).Terminals(t.Context())
	if !daemon.Absent(err) || !strings.Contains(err.Error(), "/tmp/no-such-dir/padi.sock") {
		t.Errorf("got %v", err)
	}
}

// The wire as a client without ours sees it.
func TestTheWireIsPlainHTTP(t *testing.T) {
	socket := serve(t, &told{})
	for _, tc := range []struct {
		request, status, contains string
	}{
		{"GET /v1/terminals", "200", `{"terminals":[]}`},
		{"GET /v1/terminals/x/wait?timeoutMs=soon", "400", `"code":"invalid"`},
		{"GET /v1/terminals/x/screen?trim=perhaps", "400", `"code":"invalid"`},
		{"POST /v1/terminals", "400", `"code":"invalid"`},
		{"PUT /v1/terminals", "405", ``},
	} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		method, path, _ := strings.Cut(tc.request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://padi"+path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		if err := req.Write(conn); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), req)
		if err != nil {
			t.Fatal(err)
		}
		var body json.RawMessage
		json.NewDecoder(resp.Body).Decode(&body)
		conn.Close()
		if !strings.HasPrefix(resp.Status, tc.status) || !strings.Contains(string(body), tc.contains) {
			t.Errorf("%s: %s %s", tc.request, resp.Status, body)
		}
	}
}
