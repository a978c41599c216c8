package paditui

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

const (
	idA = "aaaaaaaa-1111-4111-8111-111111111111"
	idB = "bbbbbbbb-2222-4222-8222-222222222222"
	idC = "cccccccc-3333-4333-8333-333333333333"
)

func fakePadi() *clitest.Workspace {
	return &clitest.Workspace{Records: []padi.Record{
		{
			ID: idB, State: padi.Active, PID: 7, Git: &padi.Git{RepoName: "kolu", Branch: "master"}, PR: padi.PR{Kind: "absent"},
			Agent: &padi.Agent{Kind: "codex", State: padi.Waiting}, Foreground: &padi.Foreground{Name: "/usr/bin/codex"},
			LastActivityAt: 1, IdleMS: 60_000,
		},
		{
			ID: idA, State: padi.Active, PID: 8, Git: &padi.Git{RepoName: "kolu", Branch: "feat/\x1bdial"},
			PR:    padi.PR{Kind: "ok", Number: 1412, State: "open", Checks: "pass"},
			Agent: &padi.Agent{Kind: "claude-code", State: padi.ToolUse}, Foreground: &padi.Foreground{Name: "node"},
			LastActivityAt: 1, IdleMS: 2_999,
		},
		{
			ID: idC, State: padi.Active, PR: padi.PR{Kind: "ok", Number: 9, State: "merged", Checks: "fail"},
			Foreground: &padi.Foreground{Name: "nvim"},
		},
	}}
}

func connectTo(ws *clitest.Workspace, dialled *client.Endpoint) Connect {
	return func(_ context.Context, _ *cli.Env, ep client.Endpoint) (*client.PadiClient, error) {
		if dialled != nil {
			*dialled = ep
		}
		return client.NewPadi(ws, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
	}
}

func run(t *testing.T, ws *clitest.Workspace, args ...string) clitest.Result {
	t.Helper()
	env, _, _ := clitest.Env("padi-tui", []string{"HOME=/home/me"}, args...)
	return clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connectTo(ws, nil)) }, env)
}

// all has every verb of a Face, as kolu does.
func all(ws *clitest.Workspace) func(*cli.Env) *cobra.Command {
	return func(e *cli.Env) *cobra.Command {
		f := NewFace(e, "kolu", connectTo(ws, nil))
		root := &cobra.Command{Use: "kolu"}
		f.Bind(root)
		root.AddCommand(f.Wait(WaitAll), f.Debrief())
		return root
	}
}

func TestBadUsageNeverDials(t *testing.T) {
	tests := []struct{ args, want string }{
		{"status --host h --socket /s", "--host and --socket exclude"},
		{"status --host h --state-root /s", "--host and --state-root exclude"},
		{"status --socket= --host h", "--socket is blank"},
		{"status --state-root=", "--state-root is blank"},
		{"status extra", "unexpected argument"},
		{"nosuch", "unknown command"},
		{"create", "--toplevel for a tile of its own, or --parent"},
		{"create -- sh", "--toplevel"},
		{"create --toplevel --parent aa", "--toplevel"},
		{"create --parent=", "--parent is blank"},
		{"create --toplevel --worktree=", "--worktree is blank"},
		{"create --toplevel --intent=", "--intent is blank"},
		{"create --toplevel --repo /r", "only for --worktree"},
		{"create --toplevel --cwd /r --worktree b", "exclude each other"},
		{"create --toplevel --worktree b --host h", "needs --repo"},
		{"create --toplevel --worktree b --repo r --host h", "must be absolute"},
		{"create --toplevel --cwd r --host h", "must be absolute"},
		{"wait aa", "--until is required"},
		{"wait aa --until=", "use a list of"},
		{"wait aa --until working,done", "use a list of"},
		{"wait aa --until working,", "use a list of"},
		{"wait aa --until idle:500", "use a list of"},
		{"wait aa --until working --timeout -1", "--timeout"},
		{"wait aa --until working --timeout 2147483648", "--timeout"},
		{"wait aa --until working --settled 5", "unknown flag"},
		{"send aa text --key Enter", "cannot go in one send"},
		{"send aa", "nothing to send"},
		{"snapshot aa --viewport --tail 3", "exclude each other"},
		{"watch a b", `unexpected argument "b"`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			env, _, _ := clitest.Env("padi-tui", nil, strings.Fields(tt.args)...)
			r := clitest.Run(func(e *cli.Env) *cobra.Command {
				return NewWith(e, func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
					t.Error("dialled")
					return nil, errors.New("dialled")
				})
			}, env)
			if r.Code != 1 || r.Stdout != "" || !strings.HasPrefix(r.Stderr, "padi-tui: ") || !strings.Contains(r.Stderr, tt.want) {
				t.Errorf("want exit 1 and %q: %v", tt.want, r)
			}
		})
	}
}

func TestBareAndVersion(t *testing.T) {
	if r := run(t, fakePadi()); r.Code != 1 || r.Stderr != "" || !strings.Contains(r.Stdout, "Usage:") {
		t.Errorf("bare: %v", r)
	}
	if r := run(t, fakePadi(), "--version"); r.Code != 0 || r.Stdout != padi.Contract+"\n" {
		t.Errorf("version: %v", r)
	}
	env, _, _ := clitest.Env("pulam-tui", nil, "create", "--toplevel")
	r := clitest.Run(func(e *cli.Env) *cobra.Command { return NewPulamWith(e, connectTo(fakePadi(), nil)) }, env)
	if r.Code != 1 || !strings.Contains(r.Stderr, "unknown") {
		t.Errorf("pulam-tui has more than status, watch and wait: %v", r)
	}
}

func TestStatus(t *testing.T) {
	r := run(t, fakePadi(), "status")
	want := `ID        REPO·BRANCH      PR              AGENT             FOREGROUND  IDLE
aaaaaaaa  kolu·feat/ dial  #1412 ✓         claude · working  node        2s
bbbbbbbb  kolu·master      —               codex · waiting   codex       1m
cccccccc  —                #9 merged ✗     —                 nvim        —
`
	if got := squeeze(r.Stdout); r.Code != 0 || got != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", got, squeeze(want))
	}
	ws := fakePadi()
	ws.Records[0].State = padi.Parked
	if r = run(t, ws, "status"); !strings.Contains(squeeze(r.Stdout), "bbbbbbbb parked kolu·master — — — —\n") {
		t.Errorf("%s", r.Stdout)
	}
	if r := run(t, &clitest.Workspace{}, "status"); r.Stdout != "no terminals.\n" {
		t.Errorf("empty: %v", r)
	}
	if r := run(t, &clitest.Workspace{}, "status", "--json"); r.Stdout != "[]\n" {
		t.Errorf("empty: %v", r)
	}
	r = run(t, fakePadi(), "status", "--json")
	var got []padi.Record
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fakePadi().Records, got); diff != "" {
		t.Errorf("the records are not whole, or not in registry order: %s", diff)
	}
	ws = fakePadi()
	ws.KavalIs = padi.KavalStatus{State: "degraded", Detail: "connection refused"}
	if r := run(t, ws, "status"); r.Code != 0 || r.Stderr != "— kaval is degraded (connection refused): its terminals are shown as they were last known\n" || !strings.Contains(r.Stdout, "aaaaaaaa") {
		t.Errorf("a kaval that is down: %v", r)
	}
	if r := run(t, &clitest.Workspace{Err: errors.New("the line broke")}, "status"); r.Code != 1 || r.Stdout != "" {
		t.Errorf("a failed read printed something: %v", r)
	}
}

func squeeze(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

func events(ws *clitest.Workspace) []padi.Event {
	changed := ws.Records[1]
	return []padi.Event{
		{Kind: padi.EventSnapshot, Records: ws.Records[:2]},
		{Kind: padi.EventActivity, ID: idA, Live: true},
		{Kind: padi.EventActivity, ID: idA, Live: true},
		{Kind: padi.EventChanged, ID: idA, Record: &changed},
		{Kind: padi.EventActivity, ID: idA},
		{Kind: "tomorrow", ID: idA},
		{Kind: padi.EventRemoved, ID: idB},
	}
}

func TestWatch(t *testing.T) {
	ws := fakePadi()
	ws.Events, ws.WatchErr = events(ws), errors.New("the line broke")
	r := run(t, ws, "watch")
	var lines []string
	for line := range strings.Lines(r.Stdout) {
		lines = append(lines, strings.TrimSpace(line[len("15:04:05"):]))
	}
	want := []string{
		"bbbbbbbb  active  kolu·master  codex · waiting",
		"aaaaaaaa  active  kolu·feat/ dial  claude · working",
		"aaaaaaaa  ● busy",
		"aaaaaaaa  active  kolu·feat/ dial  claude · working  ●",
		"aaaaaaaa  ○ idle",
		"bbbbbbbb  (gone)",
	}
	if diff := cmp.Diff(want, lines); diff != "" || r.Code != 1 || !strings.Contains(r.Stderr, "padi-tui: watch: the line broke") {
		t.Errorf("%s\n%v", diff, r)
	}
	r = run(t, ws, "watch", "bb", "--json")
	var kinds []string
	for line := range strings.Lines(r.Stdout) {
		var ev map[string]any
		if err := json.Unmarshal([]byte(line), &ev); err != nil || ev["id"] != idB {
			t.Fatalf("%v %s", err, line)
		}
		kinds = append(kinds, ev["kind"].(string))
	}
	if !slices.Equal(kinds, []string{"terminal", "removed"}) || !strings.Contains(r.Stdout, `"live":false`) {
		t.Errorf("%v\n%s", kinds, r.Stdout)
	}
}

// Whoever stops a watch has what they wanted.
func TestWatchStops(t *testing.T) {
	ws := fakePadi()
	ws.Events = events(ws)
	stop := make(chan struct{})
	env, _, _ := clitest.Env("padi-tui", nil, "watch")
	env.Stdout = onWrite{"(gone)", func() { close(stop) }}
	go func() { // ends with the signal, which the test waits for
		<-stop
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}()
	if code := cli.Main(func(e *cli.Env) *cobra.Command { return NewWith(e, connectTo(ws, nil)) }, env); code != 0 {
		t.Errorf("exit %d", code)
	}
}

type onWrite struct {
	text string
	do   func()
}

func (o onWrite) Write(p []byte) (int, error) {
	if strings.Contains(string(p), o.text) {
		o.do()
	}
	return len(p), nil
}

func TestWaitOutcomes(t *testing.T) {
	agent := &padi.Agent{Kind: "claude-code", State: padi.AwaitingUser, Source: "status"}
	tests := []struct {
		name   string
		res    kaval.WaitResult
		agent  *padi.Agent
		err    error
		code   int
		json   string
		stderr string
	}{
		{"met", kaval.WaitResult{Result: kaval.Met}, agent, nil, 0, `"agent"`, "— aaaaaaaa reached awaiting · claude awaiting_user\n"},
		{"timeout", kaval.WaitResult{Result: kaval.Timeout, ElapsedMS: 9}, nil, nil, 2, `"timeout"`,
			"padi-tui: timed out after 9ms waiting for aaaaaaaa (its agent never was awaiting or waiting)\n"},
		{"gone", kaval.WaitResult{Result: kaval.Gone}, nil, nil, 3, `"gone"`, "padi-tui: aaaaaaaa exited"},
		{"vanished", kaval.WaitResult{}, nil, kaval.ErrNoTerminal, 3, `"gone"`, "padi-tui: aaaaaaaa exited"},
		{"closed", kaval.WaitResult{Result: kaval.Closed}, nil, nil, 1, `"closed"`, "padi-tui: the daemon is going away"},
		{"kaval down", kaval.WaitResult{}, nil, padi.ErrKavalDown, 1, `"result": "closed"`, "padi-tui: wait for aaaaaaaa: kaval is down\n"},
		{"error", kaval.WaitResult{}, nil, errors.New("the line broke"), 1,
			`"error": "wait for aaaaaaaa: the line broke"`, "padi-tui: wait for aaaaaaaa: the line broke\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ws := fakePadi()
			ws.OnWait = func(_ context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
				want := padi.WaitRequest{Until: []padi.Bucket{padi.BucketAwaiting, padi.BucketWaiting}, TimeoutMS: 100}
				if diff := cmp.Diff(want, req); diff != "" || id != idA {
					t.Errorf("asked %s: %s", id, diff)
				}
				tt.res.ID = id
				return padi.WaitResult{WaitResult: tt.res, Agent: tt.agent}, tt.err
			}
			args := []string{"wait", "aa", "--until", " Awaiting,waiting,awaiting", "--timeout", "100"}
			if r := run(t, ws, args...); r.Code != tt.code || r.Stdout != "" || !strings.HasPrefix(r.Stderr, tt.stderr) {
				t.Errorf("want exit %d and %q: %v", tt.code, tt.stderr, r)
			}
			if r := run(t, ws, append(args, "--json")...); r.Code != tt.code || !strings.Contains(r.Stdout, tt.json) {
				t.Errorf("want exit %d and %s: %v", tt.code, tt.json, r)
			}
		})
	}
}

// What is met is printed as the id and the agent, and nothing else.
func TestWaitJSON(t *testing.T) {
	ws := fakePadi()
	ws.OnWait = func(_ context.Context, id padi.TerminalID, _ padi.WaitRequest) (padi.WaitResult, error) {
		return padi.WaitResult{WaitResult: kaval.WaitResult{ID: id, Result: kaval.Met}, Agent: &padi.Agent{Kind: "codex", State: padi.Waiting}}, nil
	}
	r := run(t, ws, "wait", "aa", "--until", "waiting", "--json")
	want := "{\n  \"id\": \"" + idA + "\",\n  \"agent\": {\n    \"kind\": \"codex\",\n    \"state\": \"waiting\"\n  }\n}\n"
	if r.Stdout != want {
		t.Errorf("got %s", r.Stdout)
	}
}

func TestWaitAll(t *testing.T) {
	ws := fakePadi()
	ws.Text = "the screen"
	var asked []padi.WaitRequest
	ws.OnWait = func(_ context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
		asked = append(asked, req)
		return padi.WaitResult{WaitResult: kaval.WaitResult{ID: id, Result: kaval.Met, Fired: "idle", ElapsedMS: 3}}, nil
	}
	env, _, _ := clitest.Env("kolu", nil, "wait", "aa", "--until", "idle:5", "--snapshot", "9")
	r := clitest.Run(all(ws), env)
	if r.Code != 0 || r.Stdout != "the screen\n" || r.Stderr != "— aaaaaaaa output idle after 3ms\n" {
		t.Errorf("%v", r)
	}
	want := []kaval.ScreenRequest{{Extent: kaval.Tail, Lines: 9, Trim: true}}
	if diff := cmp.Diff(want, ws.Screens); diff != "" || asked[0].IdleMS != 5 {
		t.Errorf("%s %+v", diff, asked)
	}
	for _, bad := range []string{"--until idle:5 --settled 3", "--until waiting --settled x", "--until waiting --snapshot 0", "--until match:a*"} {
		env, _, _ := clitest.Env("kolu", nil, append([]string{"wait", "aa"}, strings.Fields(bad)...)...)
		if r := clitest.Run(all(ws), env); r.Code != 1 {
			t.Errorf("%s: %v", bad, r)
		}
	}
}

func TestCreate(t *testing.T) {
	tests := []struct {
		args    string
		want    padi.CreateRequest
		trailer string
	}{
		{"create --toplevel", padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: "/the/dir"}, "— created 0badcafe · top-level\n"},
		{"create --parent BBB --intent x -- claude --flag", padi.CreateRequest{Placement: padi.Placement{Parent: idB}, CWD: "/the/dir", Intent: "x", Run: []string{"claude", "--flag"}},
			"— created 0badcafe · split of bbbbbbbb\n"},
		{"create --toplevel --cwd sub", padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: "/the/dir/sub"}, "— created 0badcafe · top-level\n"},
		{"create --toplevel --worktree b", padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Worktree: "b", Repo: "/the/dir"}, "— created 0badcafe · top-level\n"},
		{"create --toplevel --worktree b --repo /r", padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Worktree: "b", Repo: "/r"}, "— created 0badcafe · top-level\n"},
		{"create --toplevel --host h", padi.CreateRequest{Placement: padi.Placement{Toplevel: true}}, "— created 0badcafe · top-level\n"},
		{"--host h create --toplevel --worktree b --repo /r", padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Worktree: "b", Repo: "/r"}, "— created 0badcafe · top-level\n"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			ws := fakePadi()
			r := run(t, ws, strings.Fields(tt.args)...)
			if diff := cmp.Diff([]padi.CreateRequest{tt.want}, ws.Created, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if r.Code != 0 || r.Stdout != "0badcafe-0000-4000-8000-000000000000\n" || r.Stderr != tt.trailer {
				t.Errorf("%v", r)
			}
		})
	}
	ws := fakePadi()
	if r := run(t, ws, "create", "--parent", "zz"); r.Code != 1 || len(ws.Created) > 0 || !strings.Contains(r.Stderr, "`padi-tui status` shows") {
		t.Errorf("an unknown parent: %v", r)
	}
}

func TestCreateReports(t *testing.T) {
	ws := fakePadi()
	made := padi.Created{ID: idC, PID: 3, Worktree: &padi.Worktree{Path: "/w", Branch: "b"}, Ran: "claude"}
	ws.OnCreate = func(padi.CreateRequest) (padi.Created, error) { return made, nil }
	if r := run(t, ws, "create", "--toplevel", "--worktree", "b"); r.Stderr != "— created cccccccc · top-level · worktree b at /w · running `claude`\n" {
		t.Errorf("%v", r)
	}
	r := run(t, ws, "create", "--toplevel", "--json")
	var got padi.Created
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || r.Stderr != "" || cmp.Diff(made, got) != "" {
		t.Errorf("%v: %v", err, r)
	}
	ws.OnCreate = func(padi.CreateRequest) (padi.Created, error) {
		return padi.Created{}, &padi.PartialError{Landed: padi.Created{ID: idC}, Err: errors.New("typing failed")}
	}
	if r := run(t, ws, "create", "--toplevel"); r.Code != 1 || r.Stdout != idC+"\n" || !strings.Contains(r.Stderr, "typing failed") {
		t.Errorf("what a failed create made is not named: %v", r)
	}
	const unlisted = "dddddddd-4444-4444-8444-444444444444"
	for _, tt := range []struct {
		id   padi.TerminalID
		err  error
		want string
	}{
		{idC, errors.New("typing failed"), "cccccccc was made and is there"},
		{idC, &kaval.GoneError{ID: idC, ExitCode: 3}, "cccccccc was made and has ended already"},
		{unlisted, errors.New("typing failed"), "dddddddd was made and has ended already"},
	} {
		ws.OnCreate = func(padi.CreateRequest) (padi.Created, error) {
			return padi.Created{}, &padi.PartialError{Landed: padi.Created{ID: tt.id}, Err: tt.err}
		}
		if r := run(t, ws, "create", "--toplevel"); !strings.Contains(r.Stderr, tt.want) {
			t.Errorf("%s, %v: want %q: %v", tt.id, tt.err, tt.want, r)
		}
	}
}

// Nothing is made, or dialled, for a caller whose directory is gone, unless a path says where.
func TestCreateFromADirectoryThatIsGone(t *testing.T) {
	for args, want := range map[string]string{
		"create --toplevel":                           "the current directory is gone (/was/here) — cd somewhere, or pass --cwd",
		"create --toplevel --cwd sub":                 "or pass --cwd",
		"create --toplevel --worktree b":              "or pass --repo",
		"create --toplevel --cwd /abs":                "",
		"create --toplevel --worktree b --repo /abs":  "",
		"create --toplevel --host h":                  "",
		"create --toplevel --host h --cwd /elsewhere": "",
	} {
		ws := fakePadi()
		env, _, _ := clitest.Env("padi-tui", nil, strings.Fields(args)...)
		env.Dir, env.LostDir = "/", "/was/here"
		r := clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connectTo(ws, nil)) }, env)
		if made := len(ws.Created) > 0; made != (want == "") || made != (r.Code == 0) || !strings.Contains(r.Stderr, want) {
			t.Errorf("%s: made %v, want %q: %v", args, ws.Created, want, r)
		}
	}
}

func TestDriving(t *testing.T) {
	ws := fakePadi()
	ws.Text = "one\ntwo"
	if r := run(t, ws, "send", "aa", "a", "b"); r.Code != 0 || r.Stderr != "— sent 3 byte(s) to aaaaaaaa\n" || !slices.Equal(ws.Written(idA), []string{"a b"}) {
		t.Errorf("send: wrote %q, %v", ws.Written(idA), r)
	}
	if r := run(t, ws, "snapshot", "aa", "--tail", "3"); r.Stdout != "one\ntwo\n" || r.Stderr != "— aaaaaaaa · 2 line(s)\n" || !ws.Screens[0].Trim {
		t.Errorf("snapshot: %+v, %v", ws.Screens, r)
	}
	if r := run(t, ws, "kill", "aa"); r.Code != 0 || r.Stderr != "— killed aaaaaaaa (pid 8)\n" || r.Stdout != "" {
		t.Errorf("kill: %v", r)
	}
	if r := run(t, ws, "kill", ""); r.Code != 1 {
		t.Errorf("an empty id was taken for a terminal: %v", r)
	}
}

func TestEndpointOnEitherSide(t *testing.T) {
	for _, args := range [][]string{{"--state-root", "sub", "status"}, {"status", "--state-root", "sub"}} {
		var dialled client.Endpoint
		env, _, _ := clitest.Env("padi-tui", nil, args...)
		r := clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connectTo(fakePadi(), &dialled)) }, env)
		if r.Code != 0 || dialled.StateRoot != "/the/dir/sub" {
			t.Errorf("%v: %+v, %v", args, dialled, r)
		}
	}
}
