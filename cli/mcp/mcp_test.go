package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/cli/clitest"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

const (
	idA = "aaaaaaaa-1111-4111-8111-111111111111"
	idB = "bbbbbbbb-2222-4222-8222-222222222222"
	idC = "cccccccc-3333-4333-8333-333333333333"
)

// conn is a fake padi on a line that can be broken.
type conn struct {
	*clitest.Workspace
	closed chan struct{}
	once   sync.Once
}

func newConn(ws *clitest.Workspace) *conn { return &conn{Workspace: ws, closed: make(chan struct{})} }

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func fakePadi() *clitest.Workspace {
	return &clitest.Workspace{Records: []padi.Record{
		{ID: idA, State: padi.Active, Intent: "first", PID: 100, Agent: &padi.Agent{Kind: "claude-code", State: padi.Waiting}},
		{ID: idB, State: padi.Active, ParentID: idA},
	}}
}

// session starts a server over what dial gives, and a client for it.
func session(t *testing.T, dial func(context.Context) (Conn, error), opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	near, far := sdk.NewInMemoryTransports()
	var wg sync.WaitGroup
	wg.Go(func() {
		err := serve(context.Background(), far, Options{Dial: dial, Version: "1", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		wg.Wait()
	})
	return s
}

func open(t *testing.T, ws *clitest.Workspace) *sdk.ClientSession {
	t.Helper()
	return session(t, func(context.Context) (Conn, error) { return newConn(ws), nil }, nil)
}

// call calls a tool and gives its text, its structured content and whether it failed.
func call(t *testing.T, s *sdk.ClientSession, tool string, args any) (string, map[string]any, bool) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: a protocol error: %v", tool, err)
	}
	if len(res.Content) != 1 {
		t.Fatalf("%s: %d contents", tool, len(res.Content))
	}
	facts, _ := res.StructuredContent.(map[string]any)
	return res.Content[0].(*sdk.TextContent).Text, facts, res.IsError
}

type args = map[string]any

func TestHandshake(t *testing.T) {
	s := open(t, fakePadi())
	init := s.InitializeResult()
	if init.ServerInfo.Name != "kolu-mcp" || !strings.Contains(init.Instructions, "lifecycle_sendInput") {
		t.Errorf("server %+v, instructions %q", init.ServerInfo, init.Instructions)
	}
	if r := init.Capabilities.Resources; init.Capabilities.Tools == nil || r == nil || !r.Subscribe {
		t.Errorf("capabilities %+v", init.Capabilities)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]bool{ // read-only, destructive
		"lifecycle_create": {false, false}, "lifecycle_sendInput": {false, false}, "lifecycle_prompt": {false, false}, "lifecycle_kill": {false, true},
		"screen_text": {true, false}, "screen_history": {true, false}, "wait_outputSettled": {true, false}, "wait_agentState": {true, false},
		"git_getStatus": {true, false}, "git_getDiff": {true, false}, "fs_listAll": {true, false}, "fs_readFile": {true, false},
	}
	for _, tool := range list.Tools {
		hints, ok := want[tool.Name]
		if !ok || tool.OutputSchema != nil || tool.Description == "" {
			t.Errorf("tool %+v", tool)
		}
		if a := tool.Annotations; a.ReadOnlyHint != hints[0] || *a.DestructiveHint != hints[1] {
			t.Errorf("%s: annotations %+v", tool.Name, a)
		}
		delete(want, tool.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing tools: %v", want)
	}
}

// Nothing is offered when there is no padi.
func TestUnreachableEndsBeforeTheHandshake(t *testing.T) {
	in, w := io.Pipe()
	defer w.Close()
	var out strings.Builder
	err := Serve(t.Context(), in, nopCloser{&out}, Options{
		Dial: func(context.Context) (Conn, error) { return nil, errors.New("no padi is running") },
		Log:  slog.New(slog.DiscardHandler),
	})
	if err == nil || err.Error() != "no padi is running" || out.Len() > 0 {
		t.Errorf("err %v, out %q", err, out.String())
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestCreate(t *testing.T) {
	tests := []struct {
		name string
		args args
		want padi.CreateRequest
	}{
		{"bare is a tile", args{}, padi.CreateRequest{Placement: padi.Placement{Toplevel: true}}},
		{"older spelling", args{"parentId": idA, "intent": "x", "cwd": "/d"}, padi.CreateRequest{Placement: padi.Placement{Parent: idA}, Intent: "x", CWD: "/d"}},
		{"toplevel", args{"placement": args{"kind": "toplevel"}, "unknown": 1}, padi.CreateRequest{Placement: padi.Placement{Toplevel: true}}},
		{"child", args{"placement": args{"kind": "child-of", "parentId": idB}}, padi.CreateRequest{Placement: padi.Placement{Parent: idB}}},
		{"worktree", args{"repo": "/r", "worktree": "b", "run": []string{"a b", "c"}},
			padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Repo: "/r", Worktree: "b", Run: []string{"a b", "c"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ws := fakePadi()
			text, facts, failed := call(t, open(t, ws), "lifecycle_create", tt.args)
			if failed || facts["pid"] != 42.0 || !strings.Contains(text, "\n  \"id\": \"0badcafe") {
				t.Errorf("failed %v: %s", failed, text)
			}
			if diff := cmp.Diff([]padi.CreateRequest{tt.want}, ws.Created); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCreateStoppedPartway(t *testing.T) {
	ws := fakePadi()
	ws.OnCreate = func(padi.CreateRequest) (padi.Created, error) {
		return padi.Created{}, &padi.PartialError{Landed: padi.Created{ID: idC, Worktree: &padi.Worktree{Path: "/w", Branch: "b"}}, Err: kaval.ErrStalled}
	}
	text, facts, failed := call(t, open(t, ws), "lifecycle_create", args{})
	landed, _ := facts["landed"].(map[string]any)
	if !failed || facts["kind"] != "stopped-partway" || landed["id"] != idC || !strings.Contains(text, idC) {
		t.Errorf("%v %v", text, facts)
	}
}

// Every refusal is a result that the model reads, and none reaches padi.
func TestRefusals(t *testing.T) {
	tests := []struct {
		tool string
		args any
		kind string
		text string
	}{
		{"lifecycle_create", args{"cwd": " "}, "blank-field", "cwd is blank"},
		{"lifecycle_create", args{"intent": ""}, "blank-field", "intent"},
		{"lifecycle_create", args{"parentId": ""}, "blank-field", "parentId"},
		{"lifecycle_create", args{"cwd": "/a", "repo": "/r", "worktree": "b"}, "cwd-and-worktree", "exclude"},
		{"lifecycle_create", args{"repo": "/r"}, "repo-without-worktree", "worktree"},
		{"lifecycle_create", args{"worktree": "b"}, "worktree-needs-repo", "repo"},
		{"lifecycle_create", args{"worktree": "b", "repo": "r"}, "relative-repo", `"r"`},
		{"lifecycle_create", args{"cwd": "r"}, "relative-cwd", `"r"`},
		{"lifecycle_create", args{"placement": args{"kind": "beside"}}, "", "child-of"},
		{"lifecycle_create", args{"placement": args{"kind": "child-of"}}, "", "placement.parentId: is missing"},
		{"lifecycle_create", args{"placement": "toplevel"}, "", "placement: want an object"},
		{"lifecycle_create", args{"parentId": idA, "placement": args{"kind": "toplevel"}}, "placement-and-parent", "different"},
		{"lifecycle_create", args{"parentId": "aaaa"}, "", "full id"},
		{"lifecycle_create", args{"run": "claude"}, "", "run: want an array of strings"},
		{"lifecycle_sendInput", args{"id": idA, "text": "x", "key": "Enter"}, "text-and-key", "as its own call"},
		{"lifecycle_sendInput", args{"id": idA, "key": "Foo"}, "key-refused", "Foo"},
		{"lifecycle_sendInput", args{"id": idA, "key": "__proto__"}, "key-refused", "__proto__"},
		{"lifecycle_sendInput", args{"id": idA, "text": ""}, "text-refused", "empty"},
		{"lifecycle_sendInput", args{"id": idA}, "no-input", "nothing to send"},
		{"lifecycle_sendInput", args{"id": "aaaaaaaa", "text": "x"}, "", "full id"},
		{"lifecycle_sendInput", args{"text": "x"}, "", "full id"},
		{"lifecycle_kill", args{"id": ""}, "", "full id"},
		{"lifecycle_kill", args{"id": idC}, "no-terminal", idC},
		{"screen_text", args{"id": idA, "tail": 0}, "", "tail"},
		{"screen_text", args{"id": idA, "tail": 1.5}, "", "tail: want a whole number"},
		{"screen_history", args{"id": idA}, "", "max"},
		{"screen_history", args{"id": idA, "max": 0}, "", "max"},
		{"wait_outputSettled", args{"id": idA}, "", "idleMs: is missing"},
		{"wait_outputSettled", args{"id": idA, "idleMs": 0}, "", "idleMs"},
		{"wait_outputSettled", args{"id": idA, "idleMs": 2147483648}, "", "idleMs"},
		{"wait_outputSettled", args{"id": idA, "idleMs": 1, "timeoutMs": -1}, "", "timeoutMs"},
		{"wait_agentState", args{"id": idA}, "", "until"},
		{"wait_agentState", args{"id": idA, "until": []string{}}, "", "until"},
		{"wait_agentState", args{"id": idA, "until": []string{"waiting", "done"}}, "", `"done"`},
		{"wait_agentState", args{"id": idA, "until": "waiting"}, "", "until: want an array of strings"},
		{"lifecycle_killAll", args{}, "", `unknown tool "lifecycle_killAll"`},
		{"git_worktreeCreate", args{}, "", "unknown tool"},
	}
	ws := fakePadi()
	s := open(t, ws)
	for _, tt := range tests {
		text, facts, failed := call(t, s, tt.tool, tt.args)
		kind, _ := facts["kind"].(string)
		if !failed || kind != tt.kind || !strings.Contains(text, tt.text) {
			t.Errorf("%s %v: failed %v, kind %q, text %q; want kind %q and %q", tt.tool, tt.args, failed, kind, text, tt.kind, tt.text)
		}
	}
	if len(ws.Created) > 0 || len(ws.Written(idA)) > 0 || len(ws.Killed) > 0 {
		t.Errorf("something reached padi: %+v", ws)
	}
}

func TestSendInput(t *testing.T) {
	ws := fakePadi()
	s := open(t, ws)
	for _, a := range []args{{"id": idA, "text": "é"}, {"id": idA, "text": "a\nb"}, {"id": idA, "key": "Enter"}} {
		if text, _, failed := call(t, s, "lifecycle_sendInput", a); failed {
			t.Error(text)
		}
	}
	if got := ws.Written(idA); !slices.Equal(got, []string{"é", "\x1b[200~a\nb\x1b[201~", "\r"}) {
		t.Errorf("wrote %q", got)
	}
	text, _, _ := call(t, s, "lifecycle_sendInput", args{"id": idA, "text": "é"})
	if text != "{\n  \"sent\": {\n    \"textBytes\": 2\n  }\n}" {
		t.Errorf("got %s", text)
	}
	text, _, _ = call(t, s, "lifecycle_sendInput", args{"id": idA, "key": "C-c"})
	if text != "{\n  \"sent\": {\n    \"key\": \"C-c\"\n  }\n}" {
		t.Errorf("got %s", text)
	}
}

func TestScreen(t *testing.T) {
	ws := fakePadi()
	ws.Text = "line one\nline two"
	s := open(t, ws)
	text, facts, _ := call(t, s, "screen_text", args{"id": idA, "tail": 40})
	if text != ws.Text || facts["value"] != ws.Text {
		t.Errorf("%q %v", text, facts)
	}
	call(t, s, "screen_text", args{"id": idA})
	want := []kaval.ScreenRequest{{Extent: kaval.Tail, Lines: 40, Trim: true}, {Extent: kaval.Full}}
	if diff := cmp.Diff(want, ws.Screens); diff != "" {
		t.Error(diff)
	}
	ws.Pages = []kaval.HistoryPage{{Chunk: "old", Lines: 1, TopLine: 7, Epoch: 2}, {Stale: true}}
	_, facts, _ = call(t, s, "screen_history", args{"id": idA, "max": 10})
	if facts["kind"] != "chunk" || facts["topLine"] != 7.0 || facts["exhausted"] != false || facts["epoch"] != 2.0 {
		t.Errorf("page %v", facts)
	}
	if _, facts, _ = call(t, s, "screen_history", args{"id": idA, "max": 10, "before": 7, "epoch": 2}); facts["kind"] != "stale" {
		t.Errorf("page %v", facts)
	}
}

func TestWaitFrames(t *testing.T) {
	agent := &padi.Agent{Kind: "codex", State: padi.Waiting}
	tests := []struct {
		name string
		tool string
		args args
		res  padi.WaitResult
		want string
	}{
		{"idle", "wait_outputSettled", args{"idleMs": 300}, result(kaval.Met, "idle", nil),
			`{"id":"` + idA + `","result":"met","met":{"fired":"idle","elapsedMs":9}}`},
		{"idle with screen", "wait_outputSettled", args{"idleMs": 300, "screenTail": 5}, result(kaval.Met, "idle", nil),
			`{"id":"` + idA + `","result":"met","met":{"fired":"idle","elapsedMs":9,"screen":"shown"}}`},
		{"state", "wait_agentState", args{"until": []string{"waiting"}}, result(kaval.Met, "", agent),
			`{"id":"` + idA + `","result":"met","met":{"agent":{"kind":"codex","state":"waiting"},"elapsedMs":9}}`},
		{"timeout", "wait_outputSettled", args{"idleMs": 300}, result(kaval.Timeout, "", nil), `{"id":"` + idA + `","result":"timeout","elapsedMs":9}`},
		{"gone", "wait_agentState", args{"until": []string{"waiting"}}, result(kaval.Gone, "", nil), `{"id":"` + idA + `","result":"gone","elapsedMs":9}`},
		{"closed", "wait_outputSettled", args{"idleMs": 300}, result(kaval.Closed, "", nil),
			`{"id":"` + idA + `","result":"closed","error":"padi is going away under a live terminal; wait again"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ws := fakePadi()
			ws.Text = "shown"
			ws.OnWait = func(_ context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
				if id != idA || req.TimeoutMS != 5000 {
					t.Errorf("asked %s for %+v", id, req)
				}
				return tt.res, nil
			}
			tt.args["id"], tt.args["timeoutMs"] = idA, 5000
			text, _, failed := call(t, open(t, ws), tt.tool, tt.args)
			var b strings.Builder
			for line := range strings.Lines(text) {
				b.WriteString(strings.Replace(strings.TrimSpace(line), `": `, `":`, 1))
			}
			if failed || b.String() != tt.want {
				t.Errorf("got %s, want %s", b.String(), tt.want)
			}
		})
	}
}

func result(outcome kaval.Outcome, fired string, agent *padi.Agent) padi.WaitResult {
	return padi.WaitResult{WaitResult: kaval.WaitResult{ID: idA, Result: outcome, Fired: fired, ElapsedMS: 9}, Agent: agent}
}

// Every call is bounded, also one without a timeout.
func TestWaitHasABound(t *testing.T) {
	ws := fakePadi()
	ws.OnWait = func(ctx context.Context, _ padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
		deadline, ok := ctx.Deadline()
		if !ok || req.TimeoutMS != defaultWaitMS || time.Until(deadline) > 2*time.Minute {
			t.Errorf("timeout %d, deadline %v", req.TimeoutMS, deadline)
		}
		return result(kaval.Timeout, "", nil), nil
	}
	call(t, open(t, ws), "wait_outputSettled", args{"id": idA, "idleMs": 1})
}

// A wait for a settled state is the daemon's; one that is too old for it is named instead of believed.
func TestSettledState(t *testing.T) {
	ws := fakePadi()
	old := false
	ws.OnWait = func(_ context.Context, _ padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
		if req.SettledMS != 10 || !slices.Equal(req.Until, []padi.Bucket{padi.BucketWaiting}) {
			t.Errorf("asked %+v", req)
		}
		res := result(kaval.Met, "", &padi.Agent{Kind: "codex", State: padi.Waiting})
		res.Settled = !old
		return res, nil
	}
	ask := args{"id": idA, "until": []string{"waiting"}, "settledMs": 10, "timeoutMs": 60000}
	if _, facts, _ := call(t, open(t, ws), "wait_agentState", ask); facts["result"] != "met" {
		t.Errorf("%v", facts)
	}
	old = true
	if _, facts, failed := call(t, open(t, ws), "wait_agentState", ask); facts["result"] == "met" {
		t.Errorf("an old padi: %v, %v", facts, failed)
	}
}

// A prompt is handed over once, and its receipt is the answer whatever became of it.
func TestPrompt(t *testing.T) {
	ws := fakePadi()
	ws.OnPrompt = func(padi.PromptRequest) (padi.Receipt, error) {
		return padi.Receipt{Result: padi.Blocked, Reason: "it asks for permission"}, nil
	}
	_, facts, _ := call(t, open(t, ws), "lifecycle_prompt", args{"id": idA, "text": "two\nlines"})
	if facts["result"] != "blocked" || facts["reason"] != "it asks for permission" {
		t.Errorf("%v", facts)
	}
	if len(ws.Prompts) != 1 || string(ws.Prompts[0].Data) != "two\nlines" || ws.Prompts[0].TimeoutMS != defaultPromptMS {
		t.Errorf("asked %+v", ws.Prompts)
	}
	for _, bad := range []args{{"id": idA}, {"id": idA, "text": "\x1b[201~"}, {"text": "x"}, {"id": idA, "text": "x", "timeoutMs": 0}} {
		call(t, open(t, ws), "lifecycle_prompt", bad)
	}
	if len(ws.Prompts) != 1 {
		t.Errorf("asked %d times", len(ws.Prompts))
	}
}

// The connection is shared, a refusal keeps it, a break drops it, and the next call dials again.
func TestRedial(t *testing.T) {
	ws := fakePadi()
	var mu sync.Mutex
	var conns []*conn
	s := session(t, func(context.Context) (Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		c := newConn(ws)
		conns = append(conns, c)
		return c, nil
	}, nil)
	dials := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(conns)
	}
	call(t, s, "lifecycle_sendInput", args{"id": idA, "text": "x"})
	ws.OnWrite = func(context.Context, string) error { return kaval.ErrGone }
	if _, facts, failed := call(t, s, "lifecycle_sendInput", args{"id": idA, "text": "x"}); !failed || facts["kind"] != "gone" || dials() != 1 {
		t.Errorf("a refusal: %v, %d dials", facts, dials())
	}
	ws.OnWrite = func(context.Context, string) error { return &net.OpError{Op: "read", Err: io.EOF} }
	text, _, failed := call(t, s, "lifecycle_sendInput", args{"id": idA, "text": "x"})
	if !failed || !strings.Contains(text, "whether it took effect is not known") {
		t.Errorf("a break: %q", text)
	}
	<-conns[0].closed
	ws.OnWrite = nil
	if text, _, failed := call(t, s, "lifecycle_sendInput", args{"id": idA, "text": "y"}); failed || dials() != 2 {
		t.Errorf("after the break: %q, %d dials", text, dials())
	}
	if got := ws.Written(idA); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("wrote %q: something was lost or sent again", got)
	}
}

// First calls that come together share one dial.
func TestOneDialForAll(t *testing.T) {
	dials := 0
	l := newLink(func(context.Context) (Conn, error) {
		dials++ // the race detector sees a second one at the same time
		return newConn(fakePadi()), nil
	})
	defer l.close()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := l.use(t.Context(), func(context.Context, Conn) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if dials != 1 {
		t.Errorf("%d dials", dials)
	}
}

func TestResources(t *testing.T) {
	s := open(t, fakePadi())
	read := func(uri string) (string, error) {
		res, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil {
			return "", err
		}
		if c := res.Contents[0]; c.MIMEType != "application/json" || c.URI != uri {
			t.Errorf("%+v", c)
		}
		return res.Contents[0].Text, nil
	}
	text, err := read("surface://collections/terminals")
	var ids []string
	if err != nil || json.Unmarshal([]byte(text), &ids) != nil || !slices.Equal(ids, []string{idA, idB}) {
		t.Errorf("%v %s", err, text)
	}
	text, err = read("surface://collections/terminals/" + idA)
	var rec padi.Record
	if err != nil || json.Unmarshal([]byte(text), &rec) != nil || rec.Intent != "first" || rec.Agent.State != padi.Waiting {
		t.Errorf("%v %s", err, text)
	}
	for _, uri := range []string{"surface://collections/terminals/" + idC, "surface://cells/session"} {
		if text, err := read(uri); err == nil || !strings.Contains(strings.ToLower(err.Error()), "not found") {
			t.Errorf("%s: %v %s", uri, err, text)
		}
	}
}

func TestSubscribeRefusesWhatIsNotThere(t *testing.T) {
	s := &server{watch: newWatcher(newLink(nil), nil)}
	defer s.watch.wait()
	for _, uri := range []string{"surface://cells/session", terminalURI, ""} {
		err := s.subscribe(t.Context(), &sdk.SubscribeRequest{Params: &sdk.SubscribeParams{URI: uri}})
		if err == nil {
			t.Errorf("%q can be subscribed to", uri)
		}
	}
}

// A subscriber hears of what it subscribed to, once for many changes.
func TestSubscription(t *testing.T) {
	ws := fakePadi()
	rec := padi.Record{ID: idC, State: padi.Active}
	ws.Events = []padi.Event{
		{Kind: padi.EventSnapshot, Records: ws.Records},
		{Kind: padi.EventChanged, ID: idC, Record: &rec},
		{Kind: padi.EventChanged, ID: idC, Record: &rec},
		{Kind: padi.EventChanged, ID: idC, Record: &rec},
	}
	heard := make(chan string, 100)
	s := session(t, func(context.Context) (Conn, error) { return newConn(ws), nil }, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *sdk.ResourceUpdatedNotificationRequest) { heard <- req.Params.URI },
	})
	want := "surface://collections/terminals/" + idC
	if err := s.Subscribe(t.Context(), &sdk.SubscribeParams{URI: want}); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != want {
		t.Errorf("heard %s", got)
	}
	if len(heard) > 0 {
		t.Errorf("heard %s too", <-heard)
	}
}

// A model reads the prompt of a program as it is on the screen, not as JSON for a web page has it.
func TestTextIsNotEscapedForHTML(t *testing.T) {
	text, err := encode(map[string]string{"screen": "> a && b <c>"})
	if want := "{\n  \"screen\": \"> a && b <c>\"\n}"; err != nil || text != want {
		t.Errorf("%v, got %s, want %s", err, text, want)
	}
}
