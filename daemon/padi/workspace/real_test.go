package workspace_test

import (
	"log/slog"
	"os"
	"testing"

	"kolu/daemon/kaval/ptyhost"
	"kolu/daemon/padi"
	"kolu/daemon/padi/paditest"
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/workspace"
)

// open gives a workspace over real terminals.
func open(t *testing.T, environ ...string) *workspace.Workspace {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	store, err := session.Open(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	host := ptyhost.New(ptyhost.Options{Log: log, RunDir: t.TempDir()})
	t.Cleanup(host.Close)
	w, stop := run(t, workspace.Options{Kaval: host, Store: store, Environ: append(os.Environ(), environ...)})
	t.Cleanup(stop)
	return w
}

func TestWorkspaceInProcess(t *testing.T) {
	for _, shell := range []string{"/bin/bash", "/bin/zsh", "/usr/bin/fish"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(shell); err != nil {
				t.Fatalf("the tests need %s: %v", shell, err)
			}
			home := t.TempDir()
			paditest.TestWorkspace(t, func(t *testing.T) padi.Workspace { return open(t, "SHELL="+shell, "HOME="+home) })
		})
	}
}
