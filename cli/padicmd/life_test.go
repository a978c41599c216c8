package padicmd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/stdio"
)

// padiHome is where the padi of this host lives.
func (h *host) padiHome() daemon.Home {
	return daemon.HomeFor(daemon.Padi, h.dir+"/.local/state/padi", func(k string) string {
		return map[string]string{daemon.RuntimeVar: h.dir + "/run"}[k]
	})
}

func (h *host) signal(pid int, sig syscall.Signal) {
	h.t.Helper()
	if pid <= 1 {
		h.t.Fatalf("pid %d", pid)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		h.t.Fatalf("%v to %d: %v", sig, pid, err)
	}
}

type kavalStatus struct {
	State, Socket string
	PID           int
	StartedAt     int64
}

// connected waits until a padi has its kaval.
func (h *host) connected(padi string) (k kavalStatus) {
	h.t.Helper()
	h.until("kaval", func() bool {
		get(h.t, daemon.Unix(padi).Dial, "/v1/kaval", &k)
		return k.State == "connected"
	})
	return k
}

// banner runs a front that is expected to say no, with the environment as edit leaves it.
func (h *host) banner(program string, edit func(env []string) []string) (stdio.Banner, error) {
	h.t.Helper()
	cmd := h.command(program, "--stdio", "--nonce", "abcd1234")
	if edit != nil {
		cmd.Env = edit(cmd.Env)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.Output()
	pre, perr := stdio.ReadPreamble(h.t.Context(), bytes.NewReader(out), "abcd1234")
	if perr != nil || pre.Banner == nil {
		h.t.Fatalf("preamble %+v, %v; the front ended with %v", pre, perr, err)
	}
	return *pre.Banner, err
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestFrontEndsWithItsInput(t *testing.T) {
	h := newHost(t)
	cmd := h.command("padi", "--stdio", "--nonce", "abcd1234")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	var errs bytes.Buffer
	cmd.Stderr = &errs // its end shows that no daemon holds it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pre, err := stdio.ReadPreamble(t.Context(), out, "abcd1234")
	if err != nil || pre.Banner == nil {
		t.Fatalf("%+v, %v, %s", pre, err, &errs)
	}
	asked := time.Now()
	in.Close() // as when ssh is killed
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 4096 {
		t.Errorf("then %d bytes, %v", len(rest), err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, &errs)
	}
	if took := time.Since(asked); took > 5*time.Second { // a second, on a machine that is not busy
		t.Errorf("it ended after %v", took)
	}
	hello, err := daemon.ReadHello(t.Context(), daemon.Unix(pre.Banner.Socket))
	if err != nil || hello.PID != pre.Banner.PID {
		t.Errorf("the daemon says %+v, %v", hello, err)
	}
}

func TestFrontsThatRaceStartOneDaemon(t *testing.T) {
	h := newHost(t)
	var all sync.WaitGroup
	pids := make([]int, 4)
	for i := range pids {
		all.Go(func() {
			banner, mux, end := h.front("padi")
			if mux == nil {
				t.Errorf("refused: %s", banner.Detail)
				return
			}
			var hello daemon.Hello
			get(t, mux.Dial, "/v1/hello", &hello)
			if hello.PID != banner.PID {
				t.Errorf("the banner says %d, the daemon %d", banner.PID, hello.PID)
			}
			pids[i] = hello.PID
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left, err := filepath.Glob(h.padiHome().Dir + "/bin/*.*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if slices.Min(pids) != slices.Max(pids) || pids[0] == 0 {
		t.Errorf("they lead to %v", pids)
	}
}

func TestFrontWhoseDaemonHasGone(t *testing.T) {
	h := newHost(t)
	banner, mux, end := h.front("padi")
	was := h.connected(banner.Socket)
	h.signal(banner.PID, syscall.SIGKILL)
	h.until("the end of padi", func() bool {
		conn, err := daemon.Unix(banner.Socket).Dial(t.Context())
		if err == nil {
			conn.Close()
		}
		return daemon.Absent(err)
	})
	var hello daemon.Hello
	get(t, mux.Dial, "/v1/hello", &hello)
	if hello.PID == banner.PID || hello.StateRoot != h.dir+"/.local/state/padi" {
		t.Errorf("the next connection leads to %+v", hello)
	}
	if now := h.connected(hello.Socket); now.PID != was.PID || now.StartedAt != was.StartedAt {
		t.Errorf("kaval was %+v, is %+v", was, now)
	}

	// Where it can't be reached again the connection says why, and the front still ends with its input.
	h.signal(hello.PID, syscall.SIGTERM)
	h.until("the end of padi", func() bool {
		_, err := os.Lstat(hello.Socket)
		return errors.Is(err, os.ErrNotExist)
	})
	home := h.padiHome().Dir
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := daemon.ReadHello(t.Context(), daemon.DialFunc(mux.Dial))
	if err == nil || !strings.Contains(err.Error(), "could not be reached again") || !strings.Contains(err.Error(), "must be 0700") {
		t.Errorf("got %v", err)
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// serveAs is a padi of another contract in this process.
func (h *host) serveAs(contract string) (hello daemon.Hello) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	ready, done := make(chan daemon.Hello, 1), make(chan error, 1)
	go func() {
		done <- daemon.Serve(ctx, daemon.ServeConfig{
			Home: h.padiHome(), Contract: contract, Build: "0ther", Log: discard(),
			LookupEnv: func(string) (string, bool) { return "", false },
			Open: func(context.Context, daemon.Hello) (http.Handler, error) {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.t.Errorf("it was asked for %s", r.URL) }), nil
			},
			Drain: func(context.Context) error { h.t.Error("it was drained"); return nil },
			Ready: func(h daemon.Hello) { ready <- h },
		})
	}()
	h.t.Cleanup(func() { cancel(); <-done })
	select {
	case hello = <-ready:
	case err := <-done:
		h.t.Fatal(err)
	}
	return hello
}

func TestFrontRefusesAnotherContract(t *testing.T) {
	for _, contract := range []string{"0.9", "2.0", "soon"} {
		t.Run(contract, func(t *testing.T) {
			h := newHost(t)
			hello := h.serveAs(contract)
			banner, err := h.banner("padi", nil)
			if err == nil || banner.Verdict != stdio.Refused || banner.Code != "contract" {
				t.Errorf("banner %+v, ended with %v", banner, err)
			}
			for _, want := range []string{"0ther", "contract " + contract, "speaks 1.0", fmt.Sprintf("pid %d", hello.PID), "left alone"} {
				if !strings.Contains(banner.Detail, want) {
					t.Errorf("%q is not in %q", want, banner.Detail)
				}
			}
			if banner.Build != "0ther" || banner.Contract != contract {
				t.Errorf("banner %+v", banner)
			}
			if again, err := daemon.ReadHello(t.Context(), daemon.Unix(hello.Socket)); err != nil || again != hello {
				t.Errorf("it says %+v, %v", again, err)
			}
		})
	}
	t.Run("a newer minor version", func(t *testing.T) {
		h := newHost(t)
		hello := h.serveAs("1.7")
		banner, _, end := h.front("padi")
		if banner.PID != hello.PID || banner.Contract != "1.7" {
			t.Errorf("banner %+v", banner)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

func TestFrontOfADaemonThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	first, _, end := h.front("padi")
	end()
	h.signal(first.PID, syscall.SIGSTOP)
	asked := time.Now()
	banner, err := h.banner("padi", nil)
	h.signal(first.PID, syscall.SIGCONT)
	if err == nil || banner.Verdict != stdio.Refused || !strings.Contains(banner.Detail, fmt.Sprintf("pid %d", first.PID)) {
		t.Errorf("banner %+v, ended with %v", banner, err)
	}
	if took := time.Since(asked); took > 25*time.Second { // before a client gives a silent host up
		t.Errorf("it was refused after %v", took)
	}
	again, _, end := h.front("padi")
	end()
	if again.PID != first.PID || again.StartedAt != first.StartedAt {
		t.Errorf("then the front leads to %+v, before to %+v", again, first)
	}
}

func TestFrontOfASocketThatIsNotOurs(t *testing.T) {
	h := newHost(t)
	home := h.padiHome()
	if err := daemon.OpenHome(home); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home.Socket(), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	banner, err := h.banner("padi", nil)
	if err == nil || banner.Verdict != stdio.Refused || !strings.Contains(banner.Detail, "no socket") {
		t.Errorf("banner %+v, ended with %v", banner, err)
	}
	if b, err := os.ReadFile(home.Socket()); string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

func TestFrontWithoutAHomeToWriteTo(t *testing.T) {
	h := newHost(t)
	without := func(env []string) []string {
		return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "HOME=") })
	}
	file := h.dir + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		edit  func([]string) []string
		wants string
	}{
		"unset":             {without, "HOME is not set"},
		"a file":            {func(env []string) []string { return append(without(env), "HOME="+file) }, "make state root"},
		"not to be written": {func(env []string) []string { return append(without(env), "HOME=/proc") }, "make state root"},
	} {
		t.Run(name, func(t *testing.T) {
			banner, err := h.banner("padi", tt.edit)
			if err == nil || banner.Verdict != stdio.Refused || !strings.Contains(banner.Detail, tt.wants) {
				t.Errorf("banner %+v, ended with %v", banner, err)
			}
		})
	}
}

// A padi that another process keeps says so, and who dials it is a client like any other: it has the same pid before and after.
func TestPadiOfAnotherSupervisor(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	padi := h.command("padi", "--state-root", h.dir+"/.local/state/padi")
	if err := padi.Start(); err != nil {
		t.Fatal(err)
	}
	defer padi.Wait()
	defer padi.Process.Signal(syscall.SIGTERM)
	h.until("padi", func() bool {
		_, err := daemon.ReadHello(t.Context(), daemon.Unix(h.padiHome().Socket()))
		return err == nil
	})
	for range 2 {
		banner, mux, end := h.front("padi")
		if mux == nil || banner.PID != padi.Process.Pid {
			t.Fatalf("the front leads to %+v, padi is %d", banner, padi.Process.Pid)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	want := fmt.Sprintf("process %d (cat)\n", h.bind.Process.Pid)
	if text, err := os.ReadFile(h.padiHome().Dir + "/owner"); err != nil || string(text) != want {
		t.Errorf("its owner is %q, %v; want %q", text, err, want)
	}
	if hello, err := daemon.ReadHello(t.Context(), daemon.Unix(h.padiHome().Socket())); err != nil || hello.PID != padi.Process.Pid {
		t.Errorf("padi was %d, is %+v, %v", padi.Process.Pid, hello, err)
	}
}

func TestDaemonsHoldNothingOfTheLogin(t *testing.T) {
	h := newHost(t)
	banner, _, end := h.front("padi")
	end()
	kaval := h.connected(banner.Socket)
	for name, pid := range map[string]int{"padi": banner.PID, "kaval": kaval.PID} {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(environ), "SSH_") {
			t.Errorf("%s has %q", name, environ)
		}
		for fd := range 2 {
			if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || to != "/dev/null" {
				t.Errorf("%s has %s, %v, as its file %d", name, to, err, fd)
			}
		}
		if log, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pid)); err != nil || filepath.Base(log) != name+".log" {
			t.Errorf("%s logs to %s, %v", name, log, err)
		}
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || dir != "/" {
			t.Errorf("%s is in %s, %v", name, dir, err)
		}
	}
}

func TestStoppedKavalOutlivesAPadi(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	banner, _, end := h.front("padi")
	end()
	was := h.connected(banner.Socket)
	client := kavalrpc.NewClient(daemon.Unix(was.Socket))
	defer client.Close()
	term, err := client.Spawn(t.Context(), kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", "read x"}})
	if err != nil {
		t.Fatal(err)
	}
	h.signal(was.PID, syscall.SIGSTOP)
	h.signal(banner.PID, syscall.SIGTERM)
	h.until("the end of padi", func() bool { _, err := os.Lstat(banner.Socket); return errors.Is(err, os.ErrNotExist) })
	next, _, end := h.front("padi")
	end()
	// The new padi has asked it and got no answer.
	var k kavalStatus
	h.until("a verdict on kaval", func() bool {
		get(t, daemon.Unix(next.Socket).Dial, "/v1/kaval", &k)
		return k.State == "dead"
	})
	h.signal(was.PID, syscall.SIGCONT)
	if now := h.connected(next.Socket); now.PID != was.PID || now.StartedAt != was.StartedAt {
		t.Errorf("kaval was %+v, is %+v", was, now)
	}
	if list, err := client.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != term.ID || list[0].PID != term.PID {
		t.Errorf("terminals are %+v, %v; there was %+v", list, err, term)
	}
}

// serveKaval runs a kaval in the foreground at a socket of its own.
func (h *host) serveKaval(env ...string) (*exec.Cmd, string) {
	h.t.Helper()
	socket := h.dir + "/own/k.sock"
	cmd := h.command("kaval", "--socket", socket)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.until("kaval", func() bool {
		_, err := daemon.ReadHello(h.t.Context(), daemon.Unix(socket))
		return err == nil
	})
	return cmd, socket
}

func TestKavalNeedsNoLocale(t *testing.T) {
	h := newHost(t)
	cmd, socket := h.serveKaval("LC_ALL=POSIX")
	client := kavalrpc.NewClient(daemon.Unix(socket))
	defer client.Close()
	term, err := client.Spawn(t.Context(), kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", `printf 'h\303\251llo \346\274\242\n'; read x`}})
	if err != nil {
		t.Fatal(err)
	}
	from := int64(0)
	if _, err := client.Wait(t.Context(), term.ID, kaval.WaitRequest{Match: "llo .*\n", After: &from, TimeoutMS: 20_000}); err != nil {
		t.Fatal(err)
	}
	screen, err := client.Screen(t.Context(), term.ID, kaval.ScreenRequest{})
	if err != nil || !strings.Contains(screen.Text, "héllo 漢") {
		t.Errorf("screen %+v, %v", screen, err)
	}
	h.signal(cmd.Process.Pid, syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStoppedKavalGoesWithTheProcessItIsBoundTo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	bound := exec.Command("cat")
	hold, err := bound.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bound.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, _ := h.serveKaval(fmt.Sprintf("%s=%d", daemon.BindVar, bound.Process.Pid))
	h.signal(cmd.Process.Pid, syscall.SIGSTOP)
	hold.Close()
	bound.Wait()
	err = cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
	os.RemoveAll(h.dir + "/own")
}

func TestPadiWithABindingThatIsNoPid(t *testing.T) {
	h := newHost(t)
	cmd := h.command("padi")
	cmd.Env = append(cmd.Env, daemon.BindVar+"=")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), daemon.BindVar) {
		t.Errorf("got %v, %s", err, out)
	}
	if _, err := os.Stat(h.dir + "/.local"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it made its state root: %v", err)
	}
}

// A connection that is accepted and then closed at once is no daemon, and nothing is started beside it.
func TestFrontOfAStranger(t *testing.T) {
	h := newHost(t)
	home := h.padiHome()
	if err := daemon.OpenHome(home); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", home.Socket())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "220 mail.example.org\r\n")
			c.Close()
		}
	}()
	defer func() { ln.Close(); <-served }()
	banner, err := h.banner("padi", nil)
	if err == nil || banner.Verdict != stdio.Refused || !strings.Contains(banner.Detail, "does not answer") {
		t.Errorf("banner %+v, ended with %v", banner, err)
	}
	if len(h.gates()) != 0 {
		t.Errorf("a daemon was started beside it: %v", h.gates())
	}
}

func TestDaemonsGoWithTheirStateRoot(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	banner, _, end := h.front("padi")
	end()
	kaval := h.connected(banner.Socket)
	if err := os.RemoveAll(h.dir + "/.local"); err != nil {
		t.Fatal(err)
	}
	h.until("the end of both", func() bool { return len(h.gates()) == 0 })
	for _, socket := range []string{banner.Socket, kaval.Socket} {
		if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", socket, err)
		}
	}
	if _, err := os.Stat(h.dir + "/.local"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state root is there again: %v", err)
	}
}

func TestKavalTakesTheFilesItMayHave(t *testing.T) {
	h := newHost(t)
	socket := h.dir + "/own/k.sock"
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -S -n 64; exec "$0" --socket "$1"`, h.dir+"/kaval", socket)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, h.dir+"/kaval"); err != nil {
		t.Fatal(err)
	}
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.until("kaval", func() bool { _, err := daemon.ReadHello(t.Context(), daemon.Unix(socket)); return err == nil })
	// More connections at once than it was given files.
	var conns []net.Conn
	for range 100 {
		c, err := daemon.Unix(socket).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	last := conns[len(conns)-1]
	last.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(last, "GET /v1/hello HTTP/1.0\r\n\r\n")
	if b, err := io.ReadAll(last); err != nil || !bytes.Contains(b, []byte("200 OK")) {
		t.Errorf("the last connection got %q, %v", b, err)
	}
	for _, c := range conns {
		c.Close()
	}
	h.signal(cmd.Process.Pid, syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestKavalUnderNohup(t *testing.T) {
	h := newHost(t)
	socket := h.dir + "/own/k.sock"
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, h.dir+"/kaval"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `trap '' HUP INT; exec "$0" --socket "$1"`, h.dir+"/kaval", socket)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.until("kaval", func() bool { _, err := daemon.ReadHello(t.Context(), daemon.Unix(socket)); return err == nil })
	client := kavalrpc.NewClient(daemon.Unix(socket))
	defer client.Close()
	term, err := client.Spawn(t.Context(), kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", `while read -r line; do case $line in SigIgn*) echo "$line" ;; esac; done </proc/self/status; read x`}})
	if err != nil {
		t.Fatal(err)
	}
	h.signal(cmd.Process.Pid, syscall.SIGHUP)
	h.signal(cmd.Process.Pid, syscall.SIGINT)
	from := int64(0)
	if got, err := client.Wait(t.Context(), term.ID, kaval.WaitRequest{Match: `SigIgn:\s+0000000000000000\r`, After: &from, TimeoutMS: 20_000}); err != nil || got.Result != kaval.Met {
		t.Errorf("its terminals: %+v, %v", got, err)
	}
	h.signal(cmd.Process.Pid, syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
