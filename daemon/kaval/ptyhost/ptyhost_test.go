package ptyhost_test

import (
	"log/slog"
	"testing"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavaltest"
	"kolu/daemon/kaval/ptyhost"
)

func open(t *testing.T) kaval.Host {
	h := ptyhost.New(ptyhost.Options{
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Socket: "/run/test/pty-host.sock", PadiSocket: "/run/test/padi.sock",
		ToolsDir: "/opt/tools/bin", RunDir: t.TempDir(),
	})
	t.Cleanup(h.Close)
	return h
}

func TestContract(t *testing.T) { kavaltest.TestHost(t, open) }
