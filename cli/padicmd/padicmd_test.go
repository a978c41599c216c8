package padicmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/kavalcmd"
	"kolu/cli/padicmd"
	"kolu/cli/paditui"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/stdio"
)

// TestMain makes the test binary the daemons, when it is called by their names.
func TestMain(m *testing.M) {
	env := cli.OS()
	switch env.Name {
	case "padi":
		os.Exit(cli.Main(padicmd.New, env))
	case "kaval":
		os.Exit(cli.Main(kavalcmd.New, env))
	case "padi-tui":
		os.Exit(cli.Main(paditui.New, env))
	}
	os.Exit(m.Run())
}

// host is a private fleet in a short directory.
type host struct {
	t    *testing.T
	dir  string
	bind *exec.Cmd // the process that the daemons end with
}

func newHost(t *testing.T) *host {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/run", 0o700); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, dir: dir, bind: exec.Command("cat")}
	in, err := h.bind.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.bind.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		h.bind.Wait()
		h.until("the end of the daemons", func() bool { return len(h.gates()) == 0 })
		os.RemoveAll(dir)
	})
	return h
}

func (h *host) gates() []string {
	gates, _ := filepath.Glob(h.dir + "/run/*/*.pid")
	return gates
}

func (h *host) until(what string, f func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !f(); {
		if time.Now().After(deadline) {
			h.t.Fatalf("%s did not come", what)
		}
		poll := time.NewTimer(5 * time.Millisecond)
		<-poll.C
	}
}

func (h *host) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), os.Args[0])
	cmd.Args = append([]string{name}, args...)
	cmd.Env = []string{
		"HOME=" + h.dir, "PATH=/usr/bin:/bin", "SHELL=/bin/sh", "KOLU_RUNTIME_DIR=" + h.dir + "/run",
		"SSH_CONNECTION=1 2 3 4", "SSH_AUTH_SOCK=/gone", fmt.Sprintf("KOLU_DAEMON_BIND_PID=%d", h.bind.Process.Pid),
	}
	return cmd
}

// front runs a front as ssh would, and gives its banner and the near end of its link.
func (h *host) front(program string) (stdio.Banner, *stdio.Mux, func() error) {
	h.t.Helper()
	return h.run(h.command(program, "--stdio", "--nonce", "abcd1234"))
}

func (h *host) run(cmd *exec.Cmd) (stdio.Banner, *stdio.Mux, func() error) {
	h.t.Helper()
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	pre, err := stdio.ReadPreamble(ctx, out, "abcd1234")
	if err != nil || pre.Banner == nil || pre.Noise != "" {
		h.t.Fatalf("preamble %+v, %v, stderr %s", pre, err, &errs)
	}
	if pre.Banner.Verdict != stdio.Ready {
		return *pre.Banner, nil, cmd.Wait
	}
	mux, err := stdio.Client(out, in)
	if err != nil {
		h.t.Fatal(err)
	}
	end := func() error {
		mux.Close()
		return cmd.Wait()
	}
	return *pre.Banner, mux, end
}

func get(t *testing.T, dial func(context.Context) (net.Conn, error), path string, v any) {
	t.Helper()
	client := daemon.HTTPClient(daemon.DialFunc(dial))
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://daemon" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %s %v", path, resp.Status, body, err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		t.Fatal(err)
	}
}

func TestFrontStartsADaemonThatOutlivesIt(t *testing.T) {
	h := newHost(t)
	banner, mux, end := h.front("padi")
	var hello daemon.Hello
	get(t, mux.Dial, "/v1/hello", &hello)
	if hello.PID != banner.PID || hello.Socket != banner.Socket || hello.StateRoot != h.dir+"/.local/state/padi" {
		t.Errorf("hello %+v, banner %+v", hello, banner)
	}
	if err := end(); err != nil {
		t.Errorf("the front ended with %v", err)
	}
	again, _, end := h.front("padi")
	if again.PID != banner.PID || again.StartedAt != banner.StartedAt {
		t.Errorf("the second front leads to %d, the first to %d", again.PID, banner.PID)
	}
	if err := end(); err != nil {
		t.Error(err)
	}

	// The kaval front leads to the kaval of that padi.
	var kaval struct{ State, Socket string }
	h.until("kaval", func() bool {
		get(t, daemon.Unix(hello.Socket).Dial, "/v1/kaval", &kaval)
		return kaval.State == "connected"
	})
	kb, km, end := h.front("kaval")
	if kb.Socket != kaval.Socket {
		t.Errorf("the kaval front leads to %s, padi's kaval is %s", kb.Socket, kaval.Socket)
	}
	var info struct{ ToolsDir, Socket string }
	get(t, km.Dial, "/v1/info", &info)
	for _, name := range []string{"kolu", "kaval", "padi", "kaval-tui", "padi-tui", "pulam-tui"} {
		if real, err := filepath.EvalSymlinks(filepath.Join(info.ToolsDir, name)); err != nil || real != hello.Executable {
			t.Errorf("%s is %s, %v; want %s", name, real, err, hello.Executable)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestFrontRefuses(t *testing.T) {
	h := newHost(t)
	home := daemon.HomeFor(daemon.Padi, h.dir+"/.local/state/padi", func(k string) string {
		return map[string]string{daemon.RuntimeVar: h.dir + "/run"}[k]
	})
	if err := os.Mkdir(home.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	banner, _, wait := h.front("padi")
	if banner.Verdict != stdio.Refused || !strings.Contains(banner.Detail, "must be 0700") {
		t.Errorf("banner %+v", banner)
	}
	if err := wait(); err == nil {
		t.Error("the front ended with 0")
	}
}

func TestSecondPadiYields(t *testing.T) {
	h := newHost(t)
	banner, _, end := h.front("padi")
	end()
	out, err := h.command("padi").CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("already running as pid %d", banner.PID)) {
		t.Errorf("got %v, %s", err, out)
	}
}

func TestTerminatedPadiLeavesKaval(t *testing.T) {
	h := newHost(t)
	banner, _, end := h.front("padi")
	end()
	var kaval struct {
		State, Socket string
		PID           int
	}
	h.until("kaval", func() bool {
		get(t, daemon.Unix(banner.Socket).Dial, "/v1/kaval", &kaval)
		return kaval.State == "connected"
	})
	if err := syscall.Kill(banner.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.until("the end of padi", func() bool {
		return !slices.ContainsFunc(h.gates(), func(g string) bool { return filepath.Base(g) == "padi.pid" })
	})
	if hello, err := daemon.ReadHello(t.Context(), daemon.Unix(kaval.Socket)); err != nil || hello.PID != kaval.PID {
		t.Errorf("kaval now says %+v, %v", hello, err)
	}
	next, _, end := h.front("padi")
	end()
	if next.PID == banner.PID {
		t.Error("no new padi was started")
	}
}

// A daemon that an unset variable names is not the everyday one.
func TestDaemonCommandLines(t *testing.T) {
	for name, tree := range map[string]func(*cli.Env) *cobra.Command{"padi": padicmd.New, "kaval": kavalcmd.New} {
		contract := map[string]string{"padi": padi.Contract, "kaval": kaval.Contract}[name]
		for line, want := range map[string]struct {
			code        int
			out, errout string
		}{
			"--version":      {0, contract + "\n", ""},
			"--state-root=":  {1, "", name + ": --state-root is blank: an unset variable? Leave the flag out or give a value\n"},
			"--socket=":      {1, "", name + ": --socket is blank: an unset variable? Leave the flag out or give a value\n"},
			"--nonce=abcd12": {1, "", name + ": --nonce is only for --stdio\n"},
		} {
			var out, errs bytes.Buffer
			env := &cli.Env{Name: name, Args: []string{line}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: t.TempDir()}
			if code := cli.Main(tree, env); code != want.code || out.String() != want.out || errs.String() != want.errout {
				t.Errorf("%s %s: exit %d, %q, %q", name, line, code, &out, &errs)
			}
		}
	}
}
