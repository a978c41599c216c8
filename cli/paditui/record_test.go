package paditui

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/padi"
)

// archive is a padi in memory with a record.
type archive struct {
	*clitest.Workspace
	found padi.Recorded
	asked padi.RecordedRequest
	kept  []bool
}

func (a *archive) Recorded(_ context.Context, req padi.RecordedRequest) (padi.Recorded, error) {
	a.asked = req
	return a.found, nil
}

func (a *archive) RecordText(_ context.Context, keep bool) error {
	a.kept = append(a.kept, keep)
	return nil
}

func runArchive(a *archive, args ...string) clitest.Result {
	env, _, _ := clitest.Env("padi-tui", []string{"HOME=/home/me"}, args...)
	return clitest.Run(func(e *cli.Env) *cobra.Command {
		return NewWith(e, func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
			return client.NewPadi(a, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
		})
	}, env)
}

func TestRecord(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	a := &archive{found: padi.Recorded{Sendings: []padi.Sending{
		{At: at.UnixMilli(), Kind: padi.SendInput, To: idB, From: padi.Sender{Face: "kolu mcp", Terminal: idA, Host: "far"}, Bytes: 12, Text: "hi\r"},
		{At: at.UnixMilli(), Kind: padi.SendKill, To: idC, From: padi.Sender{Face: "padi-tui"}, Code: "gone"},
	}}}
	want := "TIME                 FROM          TO        WITH      WHAT   BYTES  RESULT\n" +
		"2026-01-02 03:04:05  far/aaaaaaaa  bbbbbbbb  kolu mcp  input  12     ok\n" +
		"2026-01-02 03:04:05  —             cccccccc  padi-tui  kill   0      gone\n"
	if res := runArchive(a, "record"); res.Code != 0 || res.Stdout != want || a.asked != (padi.RecordedRequest{Limit: padi.DefaultRecorded}) {
		t.Errorf("asked %+v: %s", a.asked, res)
	}
	res := runArchive(a, "record", "AAAA", "--last", "7", "--since", "10m", "--text")
	if since := time.Since(time.UnixMilli(a.asked.Since)); res.Code != 0 || a.asked.Terminal != "AAAA" || a.asked.Limit != 7 || since < 10*time.Minute || since > time.Hour {
		t.Errorf("asked %+v: %s", a.asked, res)
	}
	if !strings.Contains(res.Stdout, "TEXT\n") || strings.Contains(res.Stdout, "\r") || !strings.Contains(res.Stdout, "  hi") {
		t.Errorf("%q", res.Stdout)
	}
	a.found.More = true
	if res := runArchive(a, "record", "--json"); !strings.HasPrefix(res.Stdout, "[\n") || !strings.Contains(res.Stdout, `"text": "hi\r"`) {
		t.Errorf("%s", res)
	}
	if res := runArchive(a, "record"); !strings.Contains(res.Stderr, "there is more") {
		t.Errorf("%s", res)
	}
	a.found = padi.Recorded{Sendings: []padi.Sending{}}
	if res := runArchive(a, "record"); res.Code != 0 || res.Stdout != "" || !strings.Contains(res.Stderr, "nothing was sent") {
		t.Errorf("%s", res)
	}
}

func TestRecordText(t *testing.T) {
	a := &archive{}
	for _, word := range []string{"on", "off"} {
		if res := runArchive(a, "record", "--keep-text", word); res.Code != 0 || res.Stdout != "" || !strings.Contains(res.Stderr, "kept") {
			t.Errorf("%s", res)
		}
	}
	if len(a.kept) != 2 || !a.kept[0] || a.kept[1] {
		t.Errorf("kept %v", a.kept)
	}
	for _, args := range [][]string{{"record", "--keep-text", "maybe"}, {"record", "--keep-text", ""}, {"record", "a", "--keep-text", "on"}, {"record", " "}, {"record", "--last", "0"}, {"record", "--last", "9999"}, {"record", "--since", "-1s"}, {"record", "a", "b"}} {
		a.asked = padi.RecordedRequest{}
		if res := runArchive(a, args...); res.Code != 1 || a.asked.Limit != 0 || len(a.kept) != 2 {
			t.Errorf("%v: %s", args, res)
		}
	}
	if res := run(t, fakePadi(), "record"); res.Code != 1 || !strings.Contains(res.Stderr, "keeps no record") {
		t.Errorf("a padi that cannot: %s", res)
	}
}
