package kolucmd

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/internal/version"
)

func run(ws *clitest.Workspace, where client.Where, args ...string) clitest.Result {
	env, _, _ := clitest.Env("kolu", nil, args...)
	connect := func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
		if ws == nil {
			return nil, errors.New("no padi is running")
		}
		hello := daemon.Hello{PID: 77, Build: "abcdef", Socket: "/run/padi.sock", Executable: "/opt/kolu/bin/kolu"}
		return client.NewPadi(ws, hello, where, func() error { return nil }), nil
	}
	return clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connect, nil) }, env)
}

const made = padi.TerminalID("0badcafe-0000-4000-8000-000000000000")

var command = regexp.MustCompile(`^echo kolu-"(\d+)"-"(\d+)"$`)

// shell is a padi with one terminal whose shell does what says does with a command line.
func shell(says func(line string) string) *clitest.Workspace {
	ws := &clitest.Workspace{}
	typed := ""
	ws.OnCreate = func(padi.CreateRequest) (padi.Created, error) {
		ws.Records = append(ws.Records, padi.Record{ID: made, State: padi.Active, PID: 42})
		return padi.Created{ID: made, PID: 42}, nil
	}
	ws.OnWrite = func(_ context.Context, data string) error {
		if data != "\r" {
			typed, ws.Text = data, "$ "+data
			return nil
		}
		ws.Text += "\n" + says(typed) + "\n$"
		return nil
	}
	ws.OnWait = func(_ context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
		res := padi.WaitResult{WaitResult: kaval.WaitResult{ID: id, Result: kaval.Met, Fired: "idle"}}
		if req.Match != "" {
			_, after, _ := strings.Cut(ws.Text, "\n")
			if !strings.Contains(after, req.Match) {
				res.Result = kaval.Timeout
			}
		}
		return res, nil
	}
	return ws
}

func works(line string) string {
	m := command.FindStringSubmatch(line)
	if m == nil {
		return "what?"
	}
	return "kolu-" + m[1] + "-" + m[2]
}

func TestTry(t *testing.T) {
	ws := shell(works)
	r := run(ws, client.Where{Started: true}, "try")
	for _, want := range []string{
		"started padi on this machine", "$ id=$(padi-tui create --toplevel", "$ kaval-tui send \"$id\" 'echo kolu-", "$ kaval-tui wait \"$id\" --until idle:300",
		"$ kaval-tui send \"$id\" --key Enter", "$ kaval-tui snapshot \"$id\" --viewport", "$ kaval-tui kill \"$id\"", "It works.",
		"PATH=/opt/kolu/bin:$PATH",
	} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("try does not print %q:\n%v", want, r)
		}
	}
	if r.Code != 0 || !slices.Equal(ws.Killed, []padi.TerminalID{made}) {
		t.Errorf("killed %v, %v", ws.Killed, r)
	}
	if sent := ws.Written(made); len(sent) != 2 || sent[1] != "\r" {
		t.Errorf("wrote %q: Enter goes alone", sent)
	}
}

func TestTryOnAHost(t *testing.T) {
	r := run(shell(works), client.Where{Host: "box", Link: &client.Link{Transport: "master", Rung: "nix"}}, "try", "--host", "box")
	if r.Code != 0 || !strings.Contains(r.Stdout, "on box (master transport; build: nix)") || !strings.Contains(r.Stdout, "kaval-tui send --host box") ||
		strings.Contains(r.Stdout, "PATH=") {
		t.Errorf("%v", r)
	}
}

// An echo is no answer, and whatever fails, the terminal that was made is killed and no other.
func TestTryFails(t *testing.T) {
	other := padi.Record{ID: "another", State: padi.Active}
	for name, tt := range map[string]struct {
		ws   *clitest.Workspace
		want string
	}{
		"only an echo":     {shell(func(line string) string { return line }), `the outcome is "timeout"`},
		"a dead shell":     {shell(func(string) string { return "" }), `the outcome is "timeout"`},
		"in another line":  {shell(func(line string) string { return "x" + works(line) }), "the screen does not show"},
		"refuses to write": {refusing(), "send: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.ws.Records = append(tt.ws.Records, other)
			r := run(tt.ws, client.Where{}, "try")
			if r.Code != 1 || !strings.Contains(r.Stderr, tt.want) || strings.Contains(r.Stdout, "It works") {
				t.Errorf("want exit 1 and %q: %v", tt.want, r)
			}
			if !slices.Equal(tt.ws.Killed, []padi.TerminalID{made}) {
				t.Errorf("killed %v", tt.ws.Killed)
			}
		})
	}
	if r := run(nil, client.Where{}, "try"); r.Code != 1 || r.Stderr != "kolu: no padi is running\n" {
		t.Errorf("%v", r)
	}
}

func refusing() *clitest.Workspace {
	ws := shell(works)
	ws.OnWrite = func(context.Context, string) error { return errors.New("gone") }
	return ws
}

func TestVerbs(t *testing.T) {
	ws := shell(works)
	ws.Records = []padi.Record{{ID: made, State: padi.Active}}
	for _, args := range []string{"ls", "status", "ls --json", "padi-tui status", "pulam-tui status", "--socket /s ls", "snapshot 0bad", "wait 0bad --until idle:5", "send 0bad x"} {
		if r := run(ws, client.Where{}, strings.Fields(args)...); r.Code != 0 {
			t.Errorf("%s: %v", args, r)
		}
	}
	if r := run(ws, client.Where{}); r.Code != 1 || r.Stderr != "" || !strings.Contains(r.Stdout, "try") {
		t.Errorf("bare: %v", r)
	}
	if r := run(ws, client.Where{}, "nosuch"); r.Code != 1 || !strings.HasPrefix(r.Stderr, "kolu: unknown command") {
		t.Errorf("%v", r)
	}
	if r := run(ws, client.Where{}, "version"); r.Code != 0 || !strings.HasPrefix(r.Stdout, "kolu "+version.Version+"\n") {
		t.Errorf("%v", r)
	}
	if r := run(ws, client.Where{}, "kill", "zz"); r.Code != 1 || !strings.Contains(r.Stderr, "`kolu ls` shows") {
		t.Errorf("%v", r)
	}
}

// Without a padi no handshake is answered.
func TestMCPUnreachable(t *testing.T) {
	r := run(nil, client.Where{}, "mcp")
	if r.Code != 1 || r.Stdout != "" || r.Stderr != "kolu mcp: no padi is running\n" {
		t.Errorf("%v", r)
	}
	r = run(nil, client.Where{}, "mcp", "--host", "h", "--socket", "/s")
	if r.Code != 1 || !strings.HasPrefix(r.Stderr, "kolu mcp: --host and --socket exclude") {
		t.Errorf("%v", r)
	}
}
