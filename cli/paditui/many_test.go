package paditui

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/internal/fault"
)

// machines are padis by what ssh is given. One that has no workspace cannot be reached.
type machines struct {
	mu       sync.Mutex
	ws       map[string]*clitest.Workspace
	identity map[string]string
	dialled  []string // targets, and "" for this machine
}

func (m *machines) connect(_ context.Context, _ *cli.Env, ep client.Endpoint) (*client.PadiClient, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	target := target(ep.Host)
	if ep.Target != "" {
		target = ep.Target
	}
	m.dialled = append(m.dialled, target)
	if ws := m.ws[target]; ws != nil {
		return client.NewPadi(ws, daemon.Hello{}, client.Where{Host: ep.Host, Identity: m.identity[target]}, func() error { return nil }), nil
	}
	return nil, &fault.Error{Code: fault.Unreachable, Host: target, Detail: "connection refused", Remedy: "see `ssh " + target + " true`"}
}

// target is what ssh is given for a host of the list, as one that dials looks it up.
func target(host string) string {
	if t, ok := map[string]string{"b": "me@b", "alias": "other-way-to-a"}[host]; ok {
		return t
	}
	return host
}

const hostsFile = `[hosts.a]
groups = ["prod"]
[hosts.b]
ssh = "me@b"
groups = ["prod"]
[hosts.down]
[hosts.alias]
ssh = "other-way-to-a"
`

// newMachines are a and b with one terminal each, and this one with another; down cannot be reached.
func newMachines() *machines {
	one := func(i int) *clitest.Workspace { return &clitest.Workspace{Records: fakePadi().Records[i : i+1]} }
	a := one(1)
	return &machines{
		ws:       map[string]*clitest.Workspace{"a": a, "me@b": one(0), "other-way-to-a": a, "": one(2), "empty": {}},
		identity: map[string]string{"a": "A", "me@b": "B", "other-way-to-a": "A"},
	}
}

func (m *machines) run(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".config", "kolu"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".config", "kolu", "hosts.toml"), []byte(hostsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	// Without an ssh program on the PATH the configuration below is read by ourselves.
	env, _, _ := clitest.Env("padi-tui", []string{"HOME=" + home, "PATH=" + home, "KOLU_SSH_CONFIG=/dev/null"}, args...)
	return clitest.Run(func(e *cli.Env) *cobra.Command {
		root := NewWith(e, m.connect)
		f := NewFace(e, "padi-tui", m.connect)
		kolu := &cobra.Command{Use: "kolu"}
		f.Bind(kolu)
		kolu.AddCommand(f.Wait(WaitAll))
		root.AddCommand(kolu)
		return root
	}, env)
}

func TestStatusOfSeveral(t *testing.T) {
	m := newMachines()
	r := m.run(t, "status", "--host", "a,b", "--host", "b", "--host", "empty")
	for _, want := range []string{
		"HOST ID REPO·BRANCH PR AGENT FOREGROUND IDLE\n", "a aaaaaaaa kolu·feat/ dial #1412 ✓ claude · working node 2s\n",
		"b bbbbbbbb kolu·master — codex · waiting codex 1m\n", "empty no terminals.\n",
	} {
		if strings.Count(squeeze(r.Stdout), want) != 1 {
			t.Errorf("want %q once:\n%s", want, r.Stdout)
		}
	}
	if r.Code != 0 || r.Stderr != "" || !slices.Equal(slices.Sorted(slices.Values(m.dialled)), []string{"a", "empty", "me@b"}) {
		t.Errorf("dialled %v: %v", m.dialled, r)
	}
	if r := m.run(t, "status", "--group", "prod", "--json"); r.Code != 0 || !slices.Equal(hostsIn(t, r), []string{"a", "b"}) {
		t.Errorf("%v", r)
	}
	if r := m.run(t, "status", "--host", "empty", "--host", "empty", "--json"); r.Code != 0 || r.Stdout != "[]\n" {
		t.Errorf("%v", r)
	}
}

// hostsIn are the hosts of the rows of a JSON array.
func hostsIn(t *testing.T, r clitest.Result) []string {
	t.Helper()
	var rows []struct {
		Host string          `json:"host"`
		ID   padi.TerminalID `json:"id"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &rows); err != nil {
		t.Fatalf("%v in %v", err, r)
	}
	var hosts []string
	for _, row := range rows {
		if len(row.ID) != len(idA) {
			t.Errorf("row %+v", row)
		}
		hosts = append(hosts, row.Host)
	}
	return hosts
}

// One host is what it always was, by whichever name.
func TestOneHostIsAsBefore(t *testing.T) {
	m := newMachines()
	want := m.run(t, "status").Stdout
	for _, args := range [][]string{{"--host", "empty"}, {"--host", "b,b"}} {
		r := m.run(t, append([]string{"status"}, args...)...)
		if r.Code != 0 || strings.Contains(r.Stdout, "HOST") || strings.Contains(want, "HOST") {
			t.Errorf("%v: %v", args, r)
		}
	}
	if r := m.run(t, "status", "--json", "--host", "b"); strings.Contains(r.Stdout, `"host"`) {
		t.Errorf("%v", r)
	}
}

func TestPartialAnswers(t *testing.T) {
	m := newMachines()
	refused := "padi-tui: down: connection refused — see `ssh -F /dev/null down true`\n" +
		`{"code":"unreachable","host":"down","detail":"connection refused","remedy":"see ` + "`ssh -F /dev/null down true`" + `"}` + "\n"
	r := m.run(t, "status", "--host", "a,down", "--json")
	if r.Code != 4 || !slices.Equal(hostsIn(t, r), []string{"a"}) || r.Stderr != refused+"padi-tui: 1 of 2 hosts did not answer: down\n" {
		t.Errorf("%v", r)
	}
	r = m.run(t, "status", "--host", "down,nosuch", "--json")
	if r.Code != 1 || r.Stdout != "[]\n" || !strings.HasSuffix(r.Stderr, "padi-tui: 2 of 2 hosts did not answer: down, nosuch\n") {
		t.Errorf("%v", r)
	}
	m.ws["me@b"].Err = errors.New("the line\nbroke")
	if r = m.run(t, "status", "--all"); r.Code != 4 || !strings.Contains(r.Stderr, "padi-tui: b: the line broke\n") || !strings.Contains(r.Stdout, "aaaaaaaa") {
		t.Errorf("%v", r)
	}
}

// One machine by two names has its rows once.
func TestOneMachineByTwoNames(t *testing.T) {
	m := newMachines()
	r := m.run(t, "status", "--host", "alias,a,b", "--json")
	if r.Code != 0 || !slices.Equal(hostsIn(t, r), []string{"alias", "b"}) || !strings.Contains(squeeze(r.Stdout), "\"names\": [\n\"alias\",\n\"a\"\n]") {
		t.Errorf("%v", r)
	}
	r = m.run(t, "status", "--host", "alias,a")
	// Both names stand in the row, or are told after it where the second one was known too late.
	if both := strings.Contains(r.Stdout, "alias,a "); r.Code != 0 || strings.Count(r.Stdout, "aaaaaaaa") != 1 || both != (r.Stderr == "") ||
		!both && r.Stderr != "— alias, a is one machine\n" {
		t.Errorf("%v", r)
	}
}

func TestSeveralAreRefusedBeforeADial(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"create --toplevel --host a,b", "takes one host; --host a,b"},
		{"send aa text --group prod", "takes one host; --group prod"},
		{"kill aa --all", "takes one host; --all"},
		{"snapshot aa --host a --host b", "takes one host; --host a,b"},
		{"history aa --host a,b", "takes one host"},
		{"watch aa --host a,b", "write host/id"},
		{"watch a/aa --host a,b", "write host/id"},
		{"wait aa --until working --host a,b", "takes one host"},
		{"wait a/aa --until working --host b", "which is not what --host b says"},
		{"kill a/", "written host/id"},
		{"kill /aa", "written host/id"},
		{"kill -- -x/aa", "dash"},
		{"kill a/aa --socket /s", "names a host"},
		{"status --all --socket /s", "--all and --socket exclude"},
		{"status --group prod --state-root /s", "--group and --state-root exclude"},
		{"status --group=", "--group is blank"},
		{"status --host a --host=", "--host is blank"},
		{"status --host a,,b", "empty"},
		{"status --host a,-oProxyCommand=x", "dash"},
		{"status --group nosuch", "there are prod"},
		{"status --all --timeout-host 0", "--timeout-host"},
		{"wait aa bb --until working", "--any or --all"},
		{"wait aa bb --until working --any --all", "exclude each other"},
		{"wait a/aa b/bb -x/c --until working --any", "unknown shorthand"},
	} {
		m := newMachines()
		if r := m.run(t, strings.Fields(tt.args)...); r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, tt.want) || len(m.dialled) > 0 {
			t.Errorf("%s: dialled %q, want exit 1 and %q: %v", tt.args, m.dialled, tt.want, r)
		}
	}
}

// A terminal on a host needs no flag.
func TestHostSlashID(t *testing.T) {
	m := newMachines()
	if r := m.run(t, "send", "b/bbb", "hello"); r.Code != 0 || !slices.Equal(m.ws["me@b"].Written(idB), []string{"hello"}) {
		t.Errorf("%v", r)
	}
	if r := m.run(t, "kill", "a/AAAA", "--host", "a"); r.Code != 0 || !slices.Equal(m.ws["a"].Killed, []padi.TerminalID{idA}) {
		t.Errorf("%v", r)
	}
	if r := m.run(t, "create", "--parent", "b/bb"); r.Code != 0 || len(m.ws["me@b"].Created) != 1 || m.ws["me@b"].Created[0].Placement.Parent != idB || m.ws["me@b"].Created[0].CWD != "" {
		t.Errorf("%v %+v", r, m.ws["me@b"].Created)
	}
	if r := m.run(t, "create", "--parent", "b/bb", "--worktree", "x"); r.Code != 1 || !strings.Contains(r.Stderr, "needs --repo") {
		t.Errorf("%v", r)
	}
	if r := m.run(t, "kill", "ssh://x@y:2/aa"); r.Code != 1 || m.dialled[len(m.dialled)-1] != "ssh://x@y:2" {
		t.Errorf("dialled %v: %v", m.dialled, r)
	}
}

func TestWatchSeveral(t *testing.T) {
	m := newMachines()
	for _, ws := range m.ws {
		if len(ws.Records) > 0 {
			ws.Events, ws.WatchErr = []padi.Event{{Kind: padi.EventSnapshot, Records: ws.Records}, {Kind: padi.EventRemoved, ID: ws.Records[0].ID}}, errors.New("the line broke")
		}
	}
	r := m.run(t, "watch", "--host", "a,b")
	for _, want := range []string{"  a/aaaaaaaa  active  kolu·feat/ dial  claude · working\n", "  a/aaaaaaaa  (gone)\n", "  b/bbbbbbbb  (gone)\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("want %q: %v", want, r)
		}
	}
	if r.Code != 1 || !strings.Contains(r.Stderr, "padi-tui: a: watch: the line broke\n") {
		t.Errorf("%v", r)
	}
	r = m.run(t, "watch", "--host", "a,b", "--json")
	by := map[string][]string{}
	for line := range strings.Lines(r.Stdout) {
		var ev struct{ Host, Kind string }
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		by[ev.Host] = append(by[ev.Host], ev.Kind)
	}
	want := map[string][]string{"a": {"terminal", "removed"}, "b": {"terminal", "removed"}}
	if diff := cmp.Diff(want, by); diff != "" {
		t.Error(diff)
	}
}

// Stopping a watch is no failure, but what never answered is.
func TestWatchSeveralStops(t *testing.T) {
	for host, code := range map[string]int{"empty": 0, "down": 4} {
		m := newMachines()
		m.ws["a"].Events = []padi.Event{{Kind: padi.EventSnapshot, Records: m.ws["a"].Records}}
		var once sync.Once
		stop := make(chan struct{})
		down := make(chan struct{})
		env, _, _ := clitest.Env("padi-tui", []string{"KOLU_SSH_CONFIG=/dev/null", "PATH=/nosuch", "HOME=/nosuch"}, "watch", "--host", "a,"+host)
		env.Stdout = onWrite{"aaaaaaaa", func() { once.Do(func() { close(stop) }) }}
		env.Stderr = onWrite{"down: ", sync.OnceFunc(func() { close(down) })}
		if host == "empty" {
			close(down)
		}
		go func() { // ends with the signal, which the test waits for
			<-stop
			<-down
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}()
		if got := cli.Main(func(e *cli.Env) *cobra.Command { return NewWith(e, m.connect) }, env); got != code {
			t.Errorf("a and %s: exit %d, want %d", host, got, code)
		}
	}
}

// outcome makes the waits of a workspace end in one way, or never.
func outcome(ws *clitest.Workspace, how kaval.Outcome) {
	ws.OnWait = func(ctx context.Context, id padi.TerminalID, _ padi.WaitRequest) (padi.WaitResult, error) {
		if how == "" {
			<-ctx.Done()
			return padi.WaitResult{}, ctx.Err()
		}
		res := padi.WaitResult{WaitResult: kaval.WaitResult{ID: id, Result: how, Fired: "idle"}}
		if how == kaval.Met {
			res.Agent = &padi.Agent{Kind: "codex", State: padi.Waiting}
		}
		return res, nil
	}
}

func TestWaitForSeveral(t *testing.T) {
	for _, tt := range []struct {
		name       string
		words      string
		a, b, here kaval.Outcome
		code       int
		stderr     []string
		results    string
	}{
		{"any", "a/aa b/bb --any", kaval.Met, "", "", 0, []string{"— a/aaaaaaaa reached waiting · codex waiting"}, "met pending"},
		{"any, here too", "a/aa cc --any", "", "", kaval.Met, 0, []string{"— cccccccc reached waiting"}, "pending met"},
		{"any although one is down", "down/aa b/bb --any", "", kaval.Met, "", 0, []string{"— b/bbbbbbbb reached waiting"}, ""},
		{"any of none", "a/aa b/bb --any", kaval.Timeout, kaval.Gone, "", 2, []string{"timed out waiting for a/aaaaaaaa", "b/bbbbbbbb exited", "0 of 2 met"}, "timeout gone"},
		{"all", "a/aa b/bb cc --all", kaval.Met, kaval.Met, kaval.Met, 0, []string{"— a/aaaaaaaa", "— b/bbbbbbbb", "— cccccccc"}, "met met met"},
		{"all but one late", "a/aa b/bb --all", kaval.Met, kaval.Timeout, "", 2, []string{"1 of 2 met"}, "met timeout"},
		{"all but one gone", "a/aa b/bb --all", kaval.Met, kaval.Gone, "", 3, []string{"b/bbbbbbbb exited", "1 of 2 met"}, "met gone"},
		{"all but one down", "a/aa down/bb --all", kaval.Met, "", "", 4, []string{"down: connection refused", "1 of 2 met, 1 could not be waited for"}, "met failed"},
		{"all but one unknown", "a/aa b/zz --all", kaval.Met, "", "", 4, []string{"b/zz: no terminal matching"}, "met failed"},
		{"none", "down/aa nosuch/bb --all", "", "", "", 1, []string{"down: connection refused", "nosuch: connection refused", "0 of 2 met"}, "failed failed"},
		{"one twice", "a/aa a/aa b/bb --all", kaval.Met, kaval.Met, "", 0, nil, "met met"},
		{"a machine by two names", "a/aa alias/aaa --all", kaval.Met, "", "", 0, []string{"— a/aaaaaaaa", "— alias/aaaaaaaa"}, "met met"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachines()
			outcome(m.ws["a"], tt.a)
			outcome(m.ws["me@b"], tt.b)
			outcome(m.ws[""], tt.here)
			args := append(append([]string{"wait"}, strings.Fields(tt.words)...), "--until", "waiting")
			r := m.run(t, args...)
			for _, want := range tt.stderr {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("want %q: %v", want, r)
				}
			}
			if r.Code != tt.code || r.Stdout != "" {
				t.Errorf("want exit %d: %v", tt.code, r)
			}
			r = m.run(t, append(args, "--json")...)
			var frames []struct{ Host, ID, Result, Code string }
			if err := json.Unmarshal([]byte(r.Stdout), &frames); err != nil {
				t.Fatalf("%v in %v", err, r)
			}
			var results []string
			for _, f := range frames {
				results = append(results, f.Result)
				if f.ID == "" || (f.Host == "") != strings.HasPrefix(f.ID, "cc") {
					t.Errorf("frame %+v", f)
				}
				if down := f.Result == "failed" && m.ws[target(f.Host)] == nil; (f.Code == string(fault.Unreachable)) != down {
					t.Errorf("frame %+v: a host that was not reached has its code, and no other", f)
				}
			}
			if got := strings.Join(results, " "); r.Code != tt.code || (tt.results != "" && got != tt.results) {
				t.Errorf("want exit %d and %q, got %q: %v", tt.code, tt.results, got, r)
			}
		})
	}
}
