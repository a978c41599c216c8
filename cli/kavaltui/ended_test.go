package kavaltui

import (
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/ptyhost"
)

// A terminal that has ended is no longer listed, but by its whole id the daemon still says how it ended.
func TestEndedByWholeID(t *testing.T) {
	host := ptyhost.New(ptyhost.Options{RunDir: t.TempDir()})
	defer host.Close()
	term, err := host.Spawn(t.Context(), kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", "read x; exit 7"}, CWD: t.TempDir(), CommandRooted: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Write(t.Context(), term.ID, kaval.Input{Data: []byte("\r")}); err != nil {
		t.Fatal(err)
	}
	res, err := host.Wait(t.Context(), term.ID, kaval.WaitRequest{Match: "never printed", TimeoutMS: 60_000})
	if err != nil || res.Result != kaval.Gone {
		t.Fatalf("the program did not end: %+v, %v", res, err)
	}
	connect := func(context.Context, *cli.Env, client.Endpoint, bool) (*client.KavalClient, error) {
		return client.NewKaval(host, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
	}
	id, short := string(term.ID), term.ID.Short()
	const never = "dddddddd-1111-4111-8111-111111111111"
	for _, tt := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{"wait " + id + " --until idle:5 --json", `{"id":"` + id + `","result":"gone","elapsedMs":0,"exitCode":7}`, short + " exited before", 3},
		{"wait " + strings.ToUpper(id) + " --until idle:5", "", short + " exited before", 3},
		{"snapshot " + id, "", "has ended with exit code 7", 1},
		{"history " + id, "", "has ended with exit code 7", 1},
		{"snapshot " + short, "", "no terminal matching", 1},
		{"wait " + never + " --until idle:5 --json", "", "no terminal matching", 1},
		{"snapshot " + never, "", "no terminal matching", 1},
		{"snapshot " + never + "0", "", "no terminal matching", 1},
	} {
		t.Run(tt.args, func(t *testing.T) {
			env, _, _ := clitest.Env("kaval-tui", environ, strings.Fields(tt.args)...)
			r := clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connect) }, env)
			if r.Code != tt.code || compact(t, r.Stdout) != tt.stdout || !strings.Contains(r.Stderr, tt.stderr) {
				t.Errorf("want exit %d, %s and %q: %v", tt.code, tt.stdout, tt.stderr, r)
			}
		})
	}
}
