package paditui

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/fleet"
	"kolu/internal/fault"
)

// TestStatusNamesTheRung has a host whose store refused the build: --json of one host and of several names the way and the refusal in
// each row, and what is asked of this machine has no such thing.
func TestStatusNamesTheRung(t *testing.T) {
	link := &client.Link{Transport: "native", Rung: "upload", Refused: []fleet.Refusal{{Rung: "nix", Place: "/nix/store", Code: fault.NixRefused, Detail: "no"}}}
	connect := func(_ context.Context, _ *cli.Env, ep client.Endpoint) (*client.PadiClient, error) {
		where := client.Where{Host: ep.Host, Link: link}
		if ep.Host == "" {
			where.Link = nil
		}
		return client.NewPadi(fakePadi(), daemon.Hello{}, where, func() error { return nil }), nil
	}
	for name, tt := range map[string]struct {
		args   []string
		remote bool
	}{"one": {[]string{"--host", "a"}, true}, "several": {[]string{"--host", "a,b"}, true}, "here": {nil, false}} {
		env, _, _ := clitest.Env("padi-tui", []string{"HOME=" + t.TempDir(), "PATH=/nowhere", "KOLU_SSH_CONFIG=/dev/null"}, append([]string{"status", "--json"}, tt.args...)...)
		r := clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connect) }, env)
		var rows []struct {
			ID   string
			Link *client.Link
		}
		if err := json.Unmarshal([]byte(r.Stdout), &rows); err != nil || len(rows) == 0 {
			t.Fatalf("%s: %v: %v", name, err, r)
		}
		for _, row := range rows {
			if (row.Link != nil) != tt.remote || row.ID == "" {
				t.Errorf("%s: got %+v", name, row)
			}
			if row.Link != nil && (row.Link.Rung != "upload" || len(row.Link.Refused) != 1 || row.Link.Refused[0].Code != fault.NixRefused) {
				t.Errorf("%s: got %+v", name, row.Link)
			}
		}
	}
}
