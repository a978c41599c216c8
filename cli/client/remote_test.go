package client

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kolu/cli/clitest"
	"kolu/internal/fault"
)

// told is a stderr that can be waited for.
type told struct {
	mu   sync.Mutex
	text strings.Builder
	news chan struct{}
}

func (w *told) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	select {
	case w.news <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (w *told) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *told) await(t *testing.T, want string) {
	t.Helper()
	late := time.After(60 * time.Second)
	for !strings.Contains(w.String(), want) {
		select {
		case <-w.news:
		case <-late:
			t.Fatalf("want %q, got %q", want, w.String())
		}
	}
}

// What ssh asks of the user is on stderr while the dial waits for it; what it says as it gives up is in the error alone.
func TestNoticesOfSSHAreShown(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in *-G*) exit 0;; esac
echo 'To authenticate, visit: https://login.example/a1' >&2
while [ ! -e %[1]s/go ]; do sleep 0.05; done
echo 'me@h: Permission denied (publickey).' >&2
exit 255
`, dir)
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	vars := []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "KOLU_SSH_CONFIG=/dev/null", "PATH=" + dir + ":" + os.Getenv("PATH")}
	env, _, _ := clitest.Env("padi-tui", vars)
	stderr := &told{news: make(chan struct{}, 1)}
	env.Stderr = stderr
	ended := make(chan error, 1)
	go func() {
		_, err := Padi(t.Context(), env, Endpoint{Host: "h"})
		ended <- err
	}()
	stderr.await(t, "— h: To authenticate, visit: https://login.example/a1\n")
	select {
	case err := <-ended:
		t.Fatalf("the dial did not wait: %v", err)
	default:
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !fault.Is(err, fault.Auth) || strings.Contains(stderr.String(), "Permission denied") {
		t.Errorf("%v; on stderr %q", err, stderr.String())
	}
}
