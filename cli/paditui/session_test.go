package paditui

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/padi"
)

// rememberer is a padi in memory that remembers what a test says.
type rememberer struct {
	*clitest.Workspace
	session  padi.Session
	restored padi.Restored
	asked    []string
	err      error
}

func (r *rememberer) note(format string, args ...any) error {
	r.asked = append(r.asked, fmt.Sprintf(format, args...))
	return r.err
}

func (r *rememberer) Session(context.Context) (padi.Session, error) { return r.session, r.err }
func (r *rememberer) Restore(_ context.Context, req padi.RestoreRequest) (padi.Restored, error) {
	return r.restored, r.note("restore %v %v %v", req.IDs, req.NoResume, req.OptOut)
}
func (r *rememberer) Forget(context.Context) (padi.Forgotten, error) {
	return padi.Forgotten{Count: 2, Backup: "session-1.json"}, r.note("forget")
}
func (r *rememberer) Backups(context.Context) ([]padi.Backup, error) {
	return []padi.Backup{{Name: "session-1.json", Kind: "session", Terminals: 3}, {Name: "session-0.json", Kind: "unreadable"}}, r.err
}
func (r *rememberer) Recall(_ context.Context, name string) (padi.Recalled, error) {
	return padi.Recalled{Parked: []padi.Record{{ID: idA}}, Known: 1}, r.note("recall %s", name)
}
func (r *rememberer) Sleep(_ context.Context, id padi.TerminalID) (padi.Record, error) {
	return padi.Record{ID: id, State: padi.Sleeping}, r.note("sleep %s", id.Short())
}
func (r *rememberer) Wake(_ context.Context, id padi.TerminalID, req padi.WakeRequest) (padi.Restart, error) {
	return padi.Restart{ID: id, PID: 7, Resumed: "claude --resume s\x1b"}, r.note("wake %s %v", id.Short(), req.NoResume)
}
func (r *rememberer) Rename(_ context.Context, id padi.TerminalID, req padi.RenameRequest) (padi.Record, error) {
	return padi.Record{ID: id, Intent: req.Intent}, r.note("rename %s %q", id.Short(), req.Intent)
}
func (r *rememberer) RestartKaval(context.Context) (padi.KavalStatus, error) {
	return padi.KavalStatus{State: "connected", PID: 9, Parked: 4}, r.note("restart")
}

func (r *rememberer) run(args ...string) clitest.Result {
	r.asked = nil
	env, _, _ := clitest.Env("padi-tui", []string{"HOME=/home/me"}, args...)
	return clitest.Run(func(e *cli.Env) *cobra.Command {
		return NewWith(e, func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
			return client.NewPadi(r, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
		})
	}, env)
}

func TestSessionVerbs(t *testing.T) {
	ws := &clitest.Workspace{Records: []padi.Record{{ID: idA, State: padi.Parked}, {ID: idB, State: padi.Sleeping}}}
	r := &rememberer{Workspace: ws, restored: padi.Restored{Terminals: []padi.Restart{{ID: idA, PID: 5, Resumed: "codex resume 1", Notes: []string{"its folder is gone: /x"}}}, Failed: []padi.RestoreFailure{}}}
	for _, tt := range []struct {
		args, asked, stdout, stderr string
	}{
		{"restore", "restore [] false []", "", "— restored aaaaaaaa · running `codex resume 1` · its folder is gone: /x\n"},
		{"restore aaaa --opt-out aaaa", fmt.Sprintf("restore [%s] false [%s]", idA, idA), "", "— restored aaaaaaaa"},
		{"restore --no-resume --json", "restore [] true []", `"resumed": "codex resume 1"`, ""},
		{"session forget", "forget", "", "forgot 2 parked terminal(s); session-1.json has them"},
		{"backups", "", "NAME            SAVED", ""},
		{"backups --json", "", `"terminals": 3`, ""},
		{"backups recall session-1.json", "recall session-1.json", "", "— 1 parked, 1 were there already; padi-tui restore starts"},
		{"sleep bbbb", "sleep bbbbbbbb", "", "— bbbbbbbb is sleeping\n"},
		{"sleep bbbb --json", "sleep bbbbbbbb", `"state": "sleeping"`, ""},
		{"wake bbbb --no-resume", "wake bbbbbbbb true", "", "— woke bbbbbbbb · running `claude --resume s `\n"},
		{"rename aaaa fix-it", `rename aaaaaaaa "fix-it"`, "", "— aaaaaaaa is for: fix-it\n"},
		{"kaval restart", "restart", "", "— kaval runs anew (pid 9); 4 terminal(s) parked: padi-tui restore brings them back\n"},
	} {
		res := r.run(strings.Fields(tt.args)...)
		if res.Code != 0 || strings.Join(r.asked, ";") != tt.asked || !strings.Contains(res.Stdout, tt.stdout) || !strings.Contains(res.Stderr, tt.stderr) || tt.stdout == "" && res.Stdout != "" {
			t.Errorf("%s asked %q: %s", tt.args, r.asked, res)
		}
	}
}

func TestSessionVerbsThatFail(t *testing.T) {
	ws := &clitest.Workspace{Records: []padi.Record{{ID: idA, State: padi.Parked}}}
	r := &rememberer{Workspace: ws, restored: padi.Restored{Failed: []padi.RestoreFailure{{ID: idA, Reason: "no space"}}}}
	if res := r.run("restore"); res.Code != 1 || !strings.Contains(res.Stderr, "aaaaaaaa stays parked: no space") || !strings.Contains(res.Stderr, "1 of 1 could not be restored") {
		t.Errorf("%s", res)
	}
	r.restored = padi.Restored{}
	if res := r.run("restore"); res.Code != 0 || !strings.Contains(res.Stderr, "nothing is parked") {
		t.Errorf("%s", res)
	}
	for _, args := range [][]string{{"restore", ""}, {"restore", "--opt-out", " "}, {"restore", "zz"}, {"sleep"}, {"sleep", "zz"}, {"rename", "aaaa"}, {"rename", "aaaa", strings.Repeat("x", padi.MaxIntent+1)}} {
		if res := r.run(args...); res.Code != 1 || len(r.asked) != 0 {
			t.Errorf("%.40q asked %q: %d %s", args, r.asked, res.Code, res.Stderr)
		}
	}
	r.err = padi.ErrNoBackup
	if res := r.run("backups", "recall", "x"); res.Code != 1 || !strings.Contains(res.Stderr, "padi-tui backups lists them") {
		t.Errorf("%s", res)
	}
}

func TestSessionTable(t *testing.T) {
	r := &rememberer{session: padi.Session{Active: 1, Sleeping: 2, Problem: "no space", Parked: []padi.Record{
		{ID: idA, State: padi.Parked, Intent: "first\nsecond", CWD: "/w", Resume: &padi.Resume{Kind: "claude-code"}}, {ID: idB, State: padi.Parked},
	}}}
	want := "ID        STATE   INTENT  AGENT   FOLDER\naaaaaaaa  parked  first   claude  /w\nbbbbbbbb  parked  —       —       —\n"
	if res := r.run("session"); res.Code != 0 || res.Stdout != want || res.Stderr != "— 1 run, 2 sleep, 2 parked; not saved yet; now it can't be: no space\n" {
		t.Errorf("%s\nwant %s", res, want)
	}
}

// What became of kaval is told apart on the next verb, and is no colour alone.
func TestTheOutcomesOfKavalAreToldApart(t *testing.T) {
	ws := &clitest.Workspace{Records: []padi.Record{{ID: idA, State: padi.Active}}}
	for name, tt := range map[string]struct {
		is   padi.KavalStatus
		want string
	}{
		"well":              {padi.KavalStatus{State: "connected", At: 1000}, ""},
		"degraded":          {padi.KavalStatus{State: "degraded", Detail: "connection refused", RestartedAt: 1, Parked: 1}, "kaval is degraded (connection refused)"},
		"only the line":     {padi.KavalStatus{State: "connected", LineRestoredAt: 100_000, At: 130_000}, "terminals and agents kept running, nothing to restore"},
		"long ago":          {padi.KavalStatus{State: "connected", LineRestoredAt: 100_000, At: 230_000}, ""},
		"restarted":         {padi.KavalStatus{State: "connected", LineRestoredAt: 100_000, At: 130_000, RestartedAt: 90_000, Parked: 3}, "kaval was unresponsive — kolu restarted it; your session is ready to restore: padi-tui restore (3 parked)"},
		"and restored then": {padi.KavalStatus{State: "connected", At: 130_000, RestartedAt: 90_000}, ""},
	} {
		ws.KavalIs = tt.is
		for _, args := range [][]string{{"status"}, {"snapshot", "aaaa"}} {
			res := (&rememberer{Workspace: ws}).run(args...)
			if tt.want == "" && strings.Contains(res.Stderr, "kaval") || !strings.Contains(res.Stderr, tt.want) {
				t.Errorf("%s: %v: %s", name, args, res)
			}
		}
	}
}
