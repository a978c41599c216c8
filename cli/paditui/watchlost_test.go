package paditui

import (
	"context"
	"errors"
	"testing"

	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
)

// A watch whose line is lost says so once, with the host and what to do.
func TestLostWatchSaysWhere(t *testing.T) {
	ws := &clitest.Workspace{WatchErr: errors.New("watch: link lost")}
	env, _, _ := clitest.Env("padi-tui", nil)
	c := client.NewPadi(ws, daemon.Hello{}, client.Where{Host: "h2"}, func() error { return nil })
	err := NewFace(env, "padi-tui", nil).followOne(context.Background(), c, &watchPrinter{out: env.Stdout})
	if err == nil || err.Error() != "h2: watch: link lost — run it again" {
		t.Error(err)
	}
}
