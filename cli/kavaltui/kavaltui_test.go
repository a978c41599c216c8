package kavaltui

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/internal/keys"
)

const (
	idA = "aaaaaaaa-1111-4111-8111-111111111111"
	idB = "bbbbbbbb-2222-4222-8222-222222222222"
)

func fakeHost() *clitest.Host {
	return &clitest.Host{Live: []kaval.Terminal{
		{ID: idA, PID: 100, CWD: "/home/me/src", Title: "vim \x1b[2Jfile", IdleMS: 2_500},
		{ID: idB, PID: 9, CWD: "/home/men", ForegroundProcess: "/usr/bin/node", IdleMS: 3_700_000},
	}}
}

var environ = []string{"HOME=/home/me", "SHELL=/bin/zsh", "PATH=/bin::/usr/bin", "CLAUDECODE=1", "LANG=C.UTF-8", "SSH_AUTH_SOCK=/s"}

// run runs kaval-tui against a fake. ep, where it is not nil, gets the endpoint that was dialled.
func run(t *testing.T, h *clitest.Host, env *cli.Env) (clitest.Result, client.Endpoint) {
	t.Helper()
	var dialled client.Endpoint
	connect := func(_ context.Context, _ *cli.Env, ep client.Endpoint, _ bool) (*client.KavalClient, error) {
		dialled = ep
		return client.NewKaval(h, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
	}
	return clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connect) }, env), dialled
}

func runArgs(t *testing.T, h *clitest.Host, args ...string) clitest.Result {
	t.Helper()
	env, _, _ := clitest.Env("kaval-tui", environ, args...)
	r, _ := run(t, h, env)
	return r
}

// What is wrong with a command line is found before anything is dialled.
func TestBadUsageNeverDials(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ args, want string }{
		{"list --host h --socket /s", "exclude each other"},
		{"list --host=", "--host is blank"},
		{"list --socket= --host h", "--socket is blank"},
		{"list --host -oProxyCommand=x", "does not begin with a dash"},
		{"list --host h --ssh pigeon", "auto, master or native"},
		{"list --ssh native", "only for --host"},
		{"list --state-root /x", "unknown flag: --state-root"},
		{"list extra", "unexpected argument"},
		{"nosuch", "unknown command"},
		{"create --env FOO", `--env expects K=V, got "FOO"`},
		{"create --env =x", `--env expects K=V, got "=x"`},
		{"create --env KAVAL_SOCKET=x", "the daemon sets it"},
		{"create --env KAVAL_TERMINAL_ID=x", "the daemon sets it"},
		{"send aa", "nothing to send"},
		{"send aa text --key Enter", "cannot go in one send"},
		{"send aa --file " + empty + " --key Enter", "cannot go in one send"},
		{"send aa text --file " + empty, "pass exactly one source"},
		{"send aa --file " + empty, "is empty"},
		{"send aa --file /no/such", `--file "/no/such": no such file`},
		{"send aa text --paste --no-paste", "exclude each other"},
		{"send aa --key Foo --key Enter", `unknown --key "Foo"`},
		{"send aa --key C-constructor", "unknown --key"},
		{"send aa --submit", "--submit is gone"},
		{"send aa --submit --bogus", "--submit is gone"},
		{"send aa --bogus", "unknown flag: --bogus"},
		{"wait aa", "--until is required"},
		{"wait aa --until working", "use idle:<ms> or match:<regex>"},
		{"wait aa --until idle:0", "want milliseconds"},
		{"wait aa --until idle:-1", "want milliseconds"},
		{"wait aa --until idle:+5", "want milliseconds"},
		{"wait aa --until idle:1e3", "want milliseconds"},
		{"wait aa --until idle:2147483648", "want milliseconds"},
		{"wait aa --until match:", "needs a regular expression"},
		{"wait aa --until match:(", "missing closing"},
		{"wait aa --until match:x*", "matches the empty string"},
		{"wait aa --until idle:5 --timeout 0", "--timeout"},
		{"wait aa --until idle:5 --timeout -3", "--timeout"},
		{"wait aa --until idle:5 --timeout=", "--timeout"},
		{"wait aa --until idle:5 --timeout 2147483648", "--timeout"},
		{"snapshot aa --viewport --tail 3", "exclude each other"},
		{"snapshot aa --tail 3 --lines 3", "exclude each other"},
		{"snapshot aa --tail -1", "whole number"},
		{"snapshot aa --tail x", "invalid argument"},
		{"history aa --lines 0", "above 0"},
		{"attach aa", "needs a terminal"},
		{"attach aa --escape ab", "one printable"},
		{"attach aa --escape=", "one printable"},
		{"kill", "an argument is missing — usage: kaval-tui kill <id>"},
	}
	connect := func(context.Context, *cli.Env, client.Endpoint, bool) (*client.KavalClient, error) {
		t.Error("dialled")
		return nil, errors.New("dialled")
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			env, _, _ := clitest.Env("kaval-tui", environ, strings.Fields(tt.args)...)
			r := clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connect) }, env)
			if r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, tt.want) || !strings.HasPrefix(r.Stderr, "kaval-tui: ") {
				t.Errorf("want exit 1 and %q: %v", tt.want, r)
			}
		})
	}
}

func TestBareAndHelpAndVersion(t *testing.T) {
	h := fakeHost()
	if r := runArgs(t, h); r.Code != 1 || !strings.Contains(r.Stdout, "Usage:") || r.Stderr != "" {
		t.Errorf("bare: %v", r)
	}
	if r := runArgs(t, h, "--help"); r.Code != 0 || !strings.Contains(r.Stdout, "EXIT STATUS") {
		t.Errorf("help: %v", r)
	}
	if r := runArgs(t, h, "--version"); r.Code != 0 || r.Stdout != kaval.Contract+"\n" {
		t.Errorf("version: %v", r)
	}
	if r := runArgs(t, h, "send", "--help"); !strings.Contains(r.Stdout, keys.Help()) {
		t.Errorf("send's help lacks the keys: %v", r)
	}
}

func TestEndpointOnEitherSide(t *testing.T) {
	for _, args := range [][]string{{"--socket", "/s", "list"}, {"list", "--socket", "/s"}, {"list", "--socket=/s"}} {
		env, _, _ := clitest.Env("kaval-tui", environ, args...)
		if r, ep := run(t, fakeHost(), env); r.Code != 0 || ep.Socket != "/s" {
			t.Errorf("%v: endpoint %+v, %v", args, ep, r)
		}
	}
}

func TestList(t *testing.T) {
	r := runArgs(t, fakeHost(), "list")
	want := "ID        PID  IDLE  CMD            CWD\n" +
		"aaaaaaaa  100    2s  vim [2Jfile    ~/src\n" +
		"bbbbbbbb    9    1h  node           /home/men\n"
	want = regexp.MustCompile(` +`).ReplaceAllString(want, " ")
	if got := regexp.MustCompile(` +`).ReplaceAllString(r.Stdout, " "); r.Code != 0 || got != want {
		t.Errorf("got %v\nwant %s", r, want)
	}
	if r := runArgs(t, &clitest.Host{}, "list"); r.Stdout != "no live terminals.\n" {
		t.Errorf("empty: %v", r)
	}
	if r := runArgs(t, &clitest.Host{}, "list", "--json"); r.Stdout != "[]\n" {
		t.Errorf("empty: %v", r)
	}
	r = runArgs(t, fakeHost(), "list", "--json")
	var got []map[string]any
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || len(got) != 2 {
		t.Fatalf("%v: %v", err, r)
	}
	if _, there := got[1]["title"]; there || got[0]["id"] != idA || got[0]["pid"] != 100.0 || !strings.HasPrefix(r.Stdout, "[\n  {\n") {
		t.Errorf("records: %v", r.Stdout)
	}
}

func TestResolve(t *testing.T) {
	h := &clitest.Host{Live: []kaval.Terminal{{ID: "abc"}, {ID: "abcd"}, {ID: "ABX"}}}
	for query, want := range map[string]kaval.TerminalID{"abc": "abc", "abcd": "abcd", "abx": "ABX"} {
		h.Killed = nil
		if r := runArgs(t, h, "kill", query); r.Code != 0 || !slices.Equal(h.Killed, []kaval.TerminalID{want}) {
			t.Errorf("kill %s killed %v: %v", query, h.Killed, r)
		}
	}
	h.Killed = nil
	for query, want := range map[string]string{"": `no terminal matching ""`, "zz": "`kaval-tui list` shows", "ab": "matches 3 terminals"} {
		if r := runArgs(t, h, "kill", query); r.Code != 1 || !strings.Contains(r.Stderr, want) || len(h.Killed) > 0 {
			t.Errorf("kill %q: killed %v, %v", query, h.Killed, r)
		}
	}
	if r := runArgs(t, &clitest.Host{Live: []kaval.Terminal{{ID: "only"}}}, "kill", ""); r.Code != 1 {
		t.Errorf("an empty id named the only terminal: %v", r)
	}
}

func TestCreateHere(t *testing.T) {
	h := fakeHost()
	r := runArgs(t, h, "create", "--env", "A=b=c", "--env", "__proto__=x", "--env", "LANG=other", "--", "htop", "--tree")
	want := kaval.SpawnRequest{
		Argv: []string{"htop", "--tree"}, CommandRooted: true, CWD: "/the/dir",
		Env: map[string]string{
			"HOME": "/home/me", "SHELL": "/bin/zsh", "PATH": "/bin:/usr/bin", "LANG": "other", "SSH_AUTH_SOCK": "/s", "A": "b=c",
			"__proto__": "x",
		},
	}
	if diff := cmp.Diff([]kaval.SpawnRequest{want}, h.Spawned); diff != "" {
		t.Error(diff)
	}
	if r.Stdout != "spawned 0badcafe · htop · /the/dir (pid 42)\n" || r.Stderr != "— attach with `kaval-tui attach 0badcafe`\n" {
		t.Errorf("%v", r)
	}
	h = fakeHost()
	r = runArgs(t, h, "create", "--socket", "/a b", "--json")
	if got := h.Spawned[0]; !slices.Equal(got.Argv, []string{"/bin/zsh"}) || got.CommandRooted {
		t.Errorf("a shell was asked for as %+v", got)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || len(got) != 3 || got["pid"] != 42.0 || r.Stderr != "" {
		t.Errorf("%v %v", err, r)
	}
	if r = runArgs(t, fakeHost(), "kill", "--host", "box", "nosuch"); !strings.Contains(r.Stderr, "`kaval-tui list --host box` shows") {
		t.Errorf("the hint does not name the host: %v", r)
	}
	if r = runArgs(t, fakeHost(), "create", "--socket", "/a b"); !strings.Contains(r.Stderr, "attach 0badcafe --socket '/a b'") {
		t.Errorf("the hint does not name the endpoint: %v", r)
	}
}

func TestCreateFromADirectoryThatIsGone(t *testing.T) {
	for _, host := range []string{"", "box"} {
		h := fakeHost()
		h.About = kaval.Info{Home: "/home/there"}
		env, _, _ := clitest.Env("kaval-tui", environ, "create")
		if host != "" {
			env.Args = append(env.Args, "--host", host)
		}
		env.Dir, env.LostDir = "/", "/was/here"
		r, _ := run(t, h, env)
		here := strings.Contains(r.Stderr, "the current directory is gone (/was/here) — cd somewhere")
		if here == (host != "") || here == (len(h.Spawned) > 0) || (r.Code == 0) == here {
			t.Errorf("host %q: spawned %v, %v", host, h.Spawned, r)
		}
	}
}

func TestCreateThere(t *testing.T) {
	h := fakeHost()
	h.About = kaval.Info{Home: "/home/there", Shell: "/bin/fish", User: "you"}
	runArgs(t, h, "create", "--host", "box")
	want := kaval.SpawnRequest{
		Argv: []string{"/bin/fish"}, CWD: "/home/there",
		Env: map[string]string{
			"HOME": "/home/there", "SHELL": "/bin/fish", "PATH": kaval.BasePath, "USER": "you", "LOGNAME": "you", "LANG": "C.UTF-8",
		},
	}
	if diff := cmp.Diff([]kaval.SpawnRequest{want}, h.Spawned); diff != "" {
		t.Error(diff)
	}
}

func TestSend(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(file, []byte("a `b`\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, stdin string
		args        []string
		want        string
		trailer     string
	}{
		{name: "words", args: []string{"two", "words"}, want: "two words", trailer: "— sent 9 byte(s) to aaaaaaaa\n"},
		{name: "several lines", args: []string{"a\nb"}, want: "\x1b[200~a\nb\x1b[201~", trailer: "— sent 15 byte(s) to aaaaaaaa · pasted\n"},
		{name: "lines unmarked", args: []string{"a\nb", "--no-paste"}, want: "a\nb", trailer: "— sent 3 byte(s) to aaaaaaaa\n"},
		{name: "one line marked", args: []string{"é", "--paste"}, want: "\x1b[200~é\x1b[201~", trailer: "— sent 14 byte(s) to aaaaaaaa · pasted\n"},
		{name: "file as it is", args: []string{"--file", file}, want: "\x1b[200~a `b`\n\n\x1b[201~", trailer: "— sent 19 byte(s) to aaaaaaaa · pasted\n"},
		{name: "stdin", stdin: "piped", want: "\x1b[200~piped\x1b[201~", trailer: "— sent 17 byte(s) to aaaaaaaa · pasted\n"},
		{name: "keys", args: []string{"--key", "Up", "--key", "c-c"}, want: "\x1b[A\x03", trailer: "— sent 4 byte(s) to aaaaaaaa · keys: Up, c-c\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := fakeHost()
			env, _, _ := clitest.Env("kaval-tui", environ, append([]string{"send", "aa"}, tt.args...)...)
			if tt.stdin != "" {
				in, err := clitest.Pipe(tt.stdin)
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				env.Stdin = in
			}
			r, _ := run(t, h, env)
			if got := h.Written(idA); r.Code != 0 || !slices.Equal(got, []string{tt.want}) || r.Stderr != tt.trailer || r.Stdout != "" {
				t.Errorf("wrote %q, want %q; %v", got, tt.want, r)
			}
		})
	}
}

func TestSendJSON(t *testing.T) {
	r := runArgs(t, fakeHost(), "send", "aa", "é", "--json")
	if want := "{\n  \"id\": \"" + idA + "\",\n  \"bytes\": 2,\n  \"paste\": false,\n  \"keys\": []\n}\n"; r.Stdout != want {
		t.Errorf("got %s", r.Stdout)
	}
}

// An ambient pipe counts as text even when it is empty; nothing else on stdin does.
func TestSendAmbientStdin(t *testing.T) {
	empty, err := clitest.Pipe("")
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, tt := range []struct {
		name  string
		stdin *os.File
		args  []string
		code  int
	}{
		{"empty pipe and key", empty, []string{"--key", "Enter"}, 1},
		{"empty pipe and text", empty, []string{"x"}, 1},
		{"empty pipe alone", empty, nil, 1},
		{"/dev/null and key", null, []string{"--key", "Enter"}, 0},
		{"/dev/null alone", null, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := fakeHost()
			env, _, _ := clitest.Env("kaval-tui", environ, append([]string{"send", "aa"}, tt.args...)...)
			env.Stdin = tt.stdin
			if r, _ := run(t, h, env); r.Code != tt.code || (tt.code == 1) != (len(h.Written(idA)) == 0) {
				t.Errorf("wrote %q, %v", h.Written(idA), r)
			}
		})
	}
}

func TestSendStalled(t *testing.T) {
	h := fakeHost()
	h.OnWrite = func(context.Context, string) error { return kaval.ErrStalled }
	r := runArgs(t, h, "send", "aa", "text")
	if r.Code != 1 || !strings.Contains(r.Stderr, "write to terminal aaaaaaaa stalled — no acknowledgement within 8000ms") ||
		strings.Contains(r.Stderr, "may have arrived") {
		t.Errorf("%v", r)
	}
}

func TestWaitOutcomes(t *testing.T) {
	code := 7
	tests := []struct {
		name   string
		res    kaval.WaitResult
		err    error
		code   int
		json   string
		stderr string
	}{
		{"idle", kaval.WaitResult{Result: kaval.Met, Fired: "idle", ElapsedMS: 12, Offset: 99}, nil, 0,
			`{"id":"` + idA + `","result":"met","fired":"idle","elapsedMs":12,"offset":99}`, "— aaaaaaaa output idle after 12ms\n"},
		{"match", kaval.WaitResult{Result: kaval.Met, Fired: "match", ElapsedMS: 12, MatchedLine: "done <ok>"}, nil, 0,
			`{"id":"` + idA + `","result":"met","fired":"match","elapsedMs":12,"matchedLine":"done <ok>","offset":0}`,
			"— aaaaaaaa matched \"done <ok>\" after 12ms\n"},
		{"timeout", kaval.WaitResult{Result: kaval.Timeout, ElapsedMS: 50}, nil, 2,
			`{"id":"` + idA + `","result":"timeout","elapsedMs":50}`, "kaval-tui: timed out after 50ms waiting for aaaaaaaa (output never met the condition)\n"},
		{"gone", kaval.WaitResult{Result: kaval.Gone, ElapsedMS: 50, ExitCode: &code}, nil, 3,
			`{"id":"` + idA + `","result":"gone","elapsedMs":50,"exitCode":7}`, "kaval-tui: aaaaaaaa exited before the condition was met — its terminal is gone\n"},
		{"gone before", kaval.WaitResult{}, kaval.ErrGone, 3, `{"id":"` + idA + `","result":"gone"}`, "kaval-tui: aaaaaaaa exited before"},
		{"closed", kaval.WaitResult{Result: kaval.Closed}, nil, 1,
			`{"id":"` + idA + `","result":"closed","error":"the daemon is going away under aaaaaaaa, which still runs — wait again"}`,
			"kaval-tui: the daemon is going away"},
		{"refused", kaval.WaitResult{}, kaval.Invalidf("no such wait"), 1,
			`{"id":"` + idA + `","result":"failed","error":"wait for aaaaaaaa: no such wait"}`, "kaval-tui: wait for aaaaaaaa: no such wait\n"},
		{"error", kaval.WaitResult{}, errors.New("the line broke"), 1,
			`{"id":"` + idA + `","result":"closed","error":"wait for aaaaaaaa: the line broke"}`, "kaval-tui: wait for aaaaaaaa: the line broke\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := fakeHost()
			h.OnWait = func(_ context.Context, id kaval.TerminalID, req kaval.WaitRequest) (kaval.WaitResult, error) {
				if req.IdleMS != 5 || req.TimeoutMS != 100 || id != idA {
					t.Errorf("asked %s for %+v", id, req)
				}
				tt.res.ID = id
				return tt.res, tt.err
			}
			r := runArgs(t, h, "wait", "aa", "--until", "idle:5", "--timeout", "100")
			if r.Code != tt.code || r.Stdout != "" || !strings.HasPrefix(r.Stderr, tt.stderr) {
				t.Errorf("want exit %d and %q: %v", tt.code, tt.stderr, r)
			}
			r = runArgs(t, h, "wait", "aa", "--until", "idle:5", "--timeout", "100", "--json")
			if got := compact(t, r.Stdout); r.Code != tt.code || got != tt.json {
				t.Errorf("want exit %d and %s: %v", tt.code, tt.json, r)
			}
		})
	}
}

func compact(t *testing.T, s string) string {
	t.Helper()
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.Replace(strings.TrimSpace(lines[i]), `": `, `":`, 1)
	}
	return strings.Join(lines, "")
}

// A signal is an outcome: a frame, a line, and 130 whichever signal it was.
func TestWaitInterrupted(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, sigterm, sighup} {
		if signal.Ignored(sig) {
			continue // these tests run under nohup, and what was ignored stays so
		}
		h := fakeHost()
		h.OnWait = func(ctx context.Context, _ kaval.TerminalID, _ kaval.WaitRequest) (kaval.WaitResult, error) {
			me, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = me.Signal(sig)
			}
			if err != nil {
				return kaval.WaitResult{}, err
			}
			<-ctx.Done()
			return kaval.WaitResult{}, ctx.Err()
		}
		r := runArgs(t, h, "wait", "aa", "--until", "idle:5", "--json")
		if r.Code != 130 || compact(t, r.Stdout) != `{"id":"`+idA+`","result":"interrupted"}` || r.Stderr != "— interrupted; aaaaaaaa left running\n" {
			t.Errorf("%v: %v", sig, r)
		}
	}
}

func TestSnapshot(t *testing.T) {
	for args, want := range map[string]kaval.ScreenRequest{
		"":           {Extent: kaval.Full},
		"--viewport": {Extent: kaval.Viewport},
		"--tail 3":   {Extent: kaval.Tail, Lines: 3},
		"--lines 0":  {Extent: kaval.Tail},
	} {
		h := fakeHost()
		h.Text = "one\ntwo\n\n"
		r := runArgs(t, h, append([]string{"snapshot", "aa"}, strings.Fields(args)...)...)
		if r.Stdout != "one\ntwo\n\n" || r.Stderr != "— aaaaaaaa · 2 line(s)\n" || !slices.Equal(h.Screens, []kaval.ScreenRequest{want}) {
			t.Errorf("%s: asked for %+v: %v", args, h.Screens, r)
		}
	}
	h := fakeHost()
	h.Text = "no newline"
	if r := runArgs(t, h, "snapshot", "aa"); r.Stdout != "no newline\n" {
		t.Errorf("%v", r)
	}
}

func TestHistory(t *testing.T) {
	h := fakeHost()
	h.Pages = []kaval.HistoryPage{
		{Chunk: "", Lines: 0, TopLine: 30},
		{Chunk: "newer", Lines: 1, TopLine: 20},
		{Chunk: "", Lines: 2, TopLine: 10},
		{Chunk: "\x1b[31molder\x1b[0m\n", Lines: 1, TopLine: 0, Exhausted: true},
	}
	r := runArgs(t, h, "history", "aa")
	if r.Stdout != "\x1b[31molder\x1b[0m\n\n\nnewer\n" || r.Stderr != "— aaaaaaaa · 3 older page(s)\n" {
		t.Errorf("%q", r)
	}
	h.Pages = []kaval.HistoryPage{{Chunk: "just above", Lines: 1, TopLine: 5}}
	if r := runArgs(t, h, "history", "aa", "--lines", "7"); r.Stdout != "just above\n" || r.Stderr != "— aaaaaaaa · older history (≤7 lines)\n" {
		t.Errorf("%q", r)
	}
	h.Pages = []kaval.HistoryPage{{Chunk: "x", Lines: 1, TopLine: 5}, {Stale: true}}
	if r := runArgs(t, h, "history", "aa"); r.Code != 1 || r.Stdout != "" {
		t.Errorf("a reflow in the middle printed something: %v", r)
	}
}

func TestKill(t *testing.T) {
	h := fakeHost()
	if r := runArgs(t, h, "kill", "aa"); r.Code != 0 || r.Stdout != "" || r.Stderr != "— killed aaaaaaaa\n" {
		t.Errorf("%v", r)
	}
}

// A reader that has enough is no failure.
func TestClosedStdout(t *testing.T) {
	env, _, _ := clitest.Env("kaval-tui", environ, "list")
	env.Stdout = closedWriter{}
	code := cli.Main(func(e *cli.Env) *cobra.Command {
		return NewWith(e, func(context.Context, *cli.Env, client.Endpoint, bool) (*client.KavalClient, error) {
			return client.NewKaval(fakeHost(), daemon.Hello{}, client.Where{}, func() error { return nil }), nil
		})
	}, env)
	if code != 0 {
		t.Errorf("exit %d", code)
	}
}

// patience bounds a hang; nothing is measured by it.
const patience = 30 * time.Second
