package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVar makes the test binary a daemon: "serve" serves, "die" complains and ends, "mute" does nothing until it is told to end,
// "chatter" logs without end.
const roleVar = "DAEMON_TEST_ROLE"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[0] == "guard" {
		if err := Guard(context.Background(), os.Args[1], os.Stdin); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	switch os.Getenv(roleVar) {
	case "serve":
		os.Exit(serveRole())
	case "die":
		fmt.Fprintln(os.Stderr, "kaval: the moon is full")
		os.Exit(1)
	case "dial":
		err := dialAndClose(context.Background(), os.Args[1])
		fmt.Printf("absent=%v %v", Absent(err), err)
		os.Exit(0)
	case "chatter":
		os.Exit(chatterRole())
	case "full":
		os.Exit(fullRole())
	case "mute":
		waitForSignal()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// chatterRole writes numbered lines to its log, which it keeps bounded, and says on stdout when it is done.
func chatterRole() int {
	for i := range 100 {
		fmt.Fprintf(os.Stderr, "line %d\n", i)
		if err := boundLog(os.Args[1], 100); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

func waitForSignal() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
}

// serveRole is a kaval for the state root in its first argument; it says "ready" or "yield" on stdout.
func serveRole() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := Serve(ctx, ServeConfig{
		Home:      HomeFor(Kaval, os.Args[1], os.Getenv),
		Contract:  "1.0",
		LookupEnv: os.LookupEnv,
		Open:      func(context.Context, Hello) (http.Handler, error) { return http.HandlerFunc(about), nil },
		Ready:     func(Hello) { fmt.Println("ready") },
		Guard:     []string{"guard"},
		Log:       slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	})
	switch {
	case errors.Is(err, ErrRunning):
		fmt.Println("yield")
		fmt.Fprintln(os.Stderr, "gave way")
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "kaval:", err)
		return 1
	}
	return 0
}

// about tells how the process was started.
func about(w http.ResponseWriter, _ *http.Request) {
	dir, _ := os.Getwd()
	sid, _ := unix.Getsid(0)
	in, _ := os.Stdin.Stat()
	ignored, _ := exec.Command("/bin/sh", "-c", `while read -r line; do case $line in SigIgn*) echo "$line" ;; esac; done </proc/self/status`).Output()
	WriteJSON(w, http.StatusOK, aboutProcess{Dir: dir, Session: sid, PID: os.Getpid(), Environ: os.Environ(), StdinNull: in.Mode()&os.ModeDevice != 0, Args: os.Args, ChildIgnores: string(ignored)})
}

type aboutProcess struct {
	Dir       string
	Session   int
	PID       int
	Environ   []string
	StdinNull bool
	Args      []string
	// ChildIgnores is the line of /proc on the signals that a program started by the daemon ignores.
	ChildIgnores string
}

// world is a private fleet: a runtime directory, a state root, and an environment that names them.
type world struct {
	t       *testing.T
	runtime string
	root    string
	env     map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{t: t, runtime: filepath.Join(dir, "run"), root: filepath.Join(dir, "state")}
	for _, d := range []string{w.runtime, w.root} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.env = map[string]string{RuntimeVar: w.runtime, StateRootVar: w.root, "HOME": dir, BindVar: fmt.Sprint(os.Getpid())}
	return w
}

func (w *world) getenv(key string) string { return w.env[key] }

func (w *world) lookup(key string) (string, bool) {
	v, ok := w.env[key]
	return v, ok && key != BindVar
}

func (w *world) environ(more ...string) []string {
	var env []string
	for k, v := range w.env {
		env = append(env, k+"="+v)
	}
	return append(env, more...)
}

func (w *world) home() Home { return HomeFor(Kaval, w.root, w.getenv) }

func (w *world) log() *slog.Logger { return slog.New(slog.NewTextHandler(w.t.Output(), nil)) }

// config is a tenure in this process.
func (w *world) config() ServeConfig {
	return ServeConfig{
		Home: w.home(), Contract: "1.0", Build: "b", Commit: "c", LookupEnv: w.lookup, Log: w.log(),
		Open: func(context.Context, Hello) (http.Handler, error) { return http.HandlerFunc(about), nil },
	}
}

// serve runs a tenure until stop, which gives its error.
func (w *world) serve(c ServeConfig) (hello Hello, stop func() error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ready, done := make(chan Hello, 1), make(chan error, 1)
	c.Ready = func(h Hello) { ready <- h }
	go func() { done <- Serve(ctx, c) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	w.t.Cleanup(func() { stop() })
	select {
	case h := <-ready:
		return h, stop
	case err := <-done:
		w.t.Fatalf("serve: %v", err)
	}
	panic("unreachable")
}

// spawn starts the test binary in a role, with the state root as its argument.
func (w *world) spawn(role string) (*exec.Cmd, *strings.Builder) {
	w.t.Helper()
	cmd := exec.Command(os.Args[0], w.root)
	cmd.Env = w.environ(roleVar + "=" + role)
	out := &strings.Builder{}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	return cmd, out
}

// eventually polls until f is true; the bound only catches a hang.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		poll := time.NewTimer(2 * time.Millisecond)
		<-poll.C
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func slogTo(w io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(w, nil)) }
