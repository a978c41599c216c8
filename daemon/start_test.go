package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func pidString(pid int) string { return fmt.Sprint(pid) }

// start is a StartConfig for the test binary in a role.
func (w *world) start(role string) StartConfig {
	return StartConfig{
		Home: w.home(), Exe: os.Args[0], Name: "kaval", Args: []string{w.root}, Log: w.log(),
		Environ: w.environ(roleVar+"="+role, "SSH_CONNECTION=a b", "SSH_AUTH_SOCK=/dead", "KAVAL_SOCKET=/outer", "LANG=C.UTF-8"),
	}
}

// end asks a daemon that Start made to end and waits for it.
func end(t *testing.T, h Hello) {
	t.Helper()
	if h.PID <= 1 { // a start that failed; 0 would mean this test and all around it
		t.Errorf("no daemon to end: %+v", h)
		return
	}
	if err := syscall.Kill(h.PID, syscall.SIGTERM); err != nil {
		t.Error(err)
		return
	}
	eventually(t, "the end of the daemon", func() bool { return !exists(h.Socket) })
}

func TestStart(t *testing.T) {
	w := newWorld(t)
	hello, err := Start(t.Context(), w.start("serve"))
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, hello)
	resp, err := HTTPClient(Unix(hello.Socket)).Get("http://kaval/about")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got aboutProcess
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Dir != "/" || got.Session != hello.PID || !got.StdinNull || !slices.Equal(got.Args, []string{"kaval", w.root}) {
		t.Errorf("started as %+v", got)
	}
	for _, kv := range got.Environ {
		if strings.HasPrefix(kv, "SSH_") || strings.HasPrefix(kv, "KAVAL_SOCKET") {
			t.Errorf("environment has %s", kv)
		}
	}
	if !slices.Contains(got.Environ, "LANG=C.UTF-8") {
		t.Errorf("environment lost LANG: %v", got.Environ)
	}
	if info, err := os.Stat(w.home().Log()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("log: %v, %v", info, err)
	}

	again, err := Start(t.Context(), w.start("die"))
	if err != nil || again != hello {
		t.Errorf("second start: %v, %v; want the one that runs", again, err)
	}
}

func TestStartsAtOnceGiveOneDaemon(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	hellos := make([]Hello, 8)
	for i := range hellos {
		all.Go(func() {
			var err error
			if hellos[i], err = Start(t.Context(), w.start("serve")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	defer end(t, hellos[0])
	for _, h := range hellos {
		if h != hellos[0] {
			t.Errorf("got %v and %v", h, hellos[0])
		}
	}
}

func TestStartOfOneThatDies(t *testing.T) {
	w := newWorld(t)
	if err := OpenHome(w.home()); err != nil {
		t.Fatal(err)
	}
	write(t, w.home().Log(), "what was before")
	_, err := Start(t.Context(), w.start("die"))
	if err == nil || !strings.Contains(err.Error(), "the moon is full") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(w.home().Log() + ".old"); string(b) != "what was before" {
		t.Errorf("old log: %q", b)
	}
}

func TestStartInABadHome(t *testing.T) {
	w := newWorld(t)
	if err := mkdirMode(w.home().Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), w.start("serve")); err == nil || !strings.Contains(err.Error(), "must be 0700") {
		t.Errorf("got %v", err)
	}
}

func TestStartGivesUp(t *testing.T) {
	w := newWorld(t)
	c := w.start("mute")
	c.Timeout = 500 * time.Millisecond
	var started bytes.Buffer
	c.Log = slogTo(&started)
	_, err := Start(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "did not answer within 500ms") {
		t.Errorf("got %v", err)
	}
	var line struct{ PID int }
	if err := json.Unmarshal(started.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(line.PID, syscall.SIGTERM); err != nil {
		t.Errorf("it was ended: %v", err)
	}
}

func TestStartBesideOneThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	h := w.home()
	plant(t, h, ownGate(t)) // listens and never answers
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Start(ctx, w.start("serve"))
	if err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
	if exists(h.Log()) {
		t.Error("a second one was started")
	}
}

func TestDetachedEnvKeepsALocalAgent(t *testing.T) {
	env := DetachedEnv([]string{"SSH_AUTH_SOCK=/mine", "PADI_SOCKET=/x", "A=b"})
	if want := []string{"SSH_AUTH_SOCK=/mine", "A=b"}; !slices.Equal(env, want) {
		t.Errorf("got %v, want %v", env, want)
	}
}

func TestDialErrors(t *testing.T) {
	w := newWorld(t)
	h := w.home()
	if err := OpenHome(h); err != nil {
		t.Fatal(err)
	}
	dial := func() error {
		_, err := Unix(h.Socket()).Dial(t.Context())
		return err
	}
	err := dial()
	if !Absent(err) || !strings.Contains(err.Error(), h.Socket()) || !strings.Contains(err.Error(), "no daemon runs there") {
		t.Errorf("absent: %v", err)
	}
	makeSocket(t, h.Socket(), "dead")
	write(t, h.Gate(), ownGate(t))
	err = dial()
	if !Absent(err) || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "kaval runs there as pid "+pidString(os.Getpid())) {
		t.Errorf("dead, gate held: %v", err)
	}
	if Absent(&DialError{Err: syscall.EACCES}) {
		t.Error("no permission counts as absence")
	}
}

func TestLogFileRolls(t *testing.T) {
	path := t.TempDir() + "/padi.log"
	l, err := OpenLogFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.limit = 10
	for i := range 5 {
		fmt.Fprintf(l, "record %d\n", i)
	}
	for file, want := range map[string]string{"": "record 4\n", ".1": "record 3\n", ".2": "record 2\n"} {
		if b, err := os.ReadFile(path + file); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	if exists(path + ".3") {
		t.Error("a fourth file was kept")
	}
}

func TestReadProblem(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		WriteProblem(w, 404, "no-terminal", "no such terminal: <a>")
	})
	resp := post(h, "GET", "/", "", "").Result()
	if code, detail := ReadProblem(resp); code != "no-terminal" || detail != "no such terminal: <a>" || resp.StatusCode != 404 {
		t.Errorf("got %q %q", code, detail)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("content type %s", ct)
	}
}
