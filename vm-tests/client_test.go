package vmtests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds a hang; nothing is measured by it.
const patience = 40 * time.Second

// client is one user at this machine: a home and a runtime directory of its own, the programs, and an ssh that knows the hosts and
// notes each call. Whatever it started on this machine ends with the test.
type client struct {
	t      *testing.T
	s      *suite
	home   string
	env    []string
	bin    string // its programs
	config string // of its ssh
	calls  string // one line for each ssh process
}

// newClient makes a client. sshOptions are lines of its ssh configuration, such as "StrictHostKeyChecking=yes", before those of the
// hosts.
func newClient(t *testing.T, sshOptions ...string) *client {
	t.Helper()
	s := setup(t)
	home, err := os.MkdirTemp(s.dir, "u")
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, s: s, home: home, bin: s.bin, calls: filepath.Join(home, "ssh-calls")}
	tools := filepath.Join(home, "tools")
	for _, dir := range []string{tools, filepath.Join(home, "run")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	real, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	c.writeSSH(filepath.Join(tools, "ssh"), real, sshOptions)
	c.env = []string{
		"HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(home, "run"), "KOLU_RUNTIME_DIR=" + filepath.Join(home, "run"), "PATH=" + tools + ":" + s.bin + ":" + os.Getenv("PATH"),
		"USER=" + os.Getenv("USER"), "SHELL=/bin/bash", "TERM=xterm-256color", "LANG=C.UTF-8",
	}
	t.Cleanup(c.end)
	return c
}

// writeSSH makes an ssh program that reads this client's configuration and notes that it was called. The program's own flags
// still win over the configuration, as they do for everyone.
func (c *client) writeSSH(file, real string, options []string) {
	c.t.Helper()
	config := strings.ReplaceAll(strings.Join(append(options, ""), "\n"), "=", " ")
	if c.s.config != "" {
		config += "Include " + c.s.config + "\n"
	} else {
		config += "Include ~/.ssh/config\n"
	}
	if err := os.MkdirAll(filepath.Join(c.home, ".ssh"), 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.config = filepath.Join(c.home, ".ssh", "config")
	if err := os.WriteFile(c.config, []byte(config), 0o600); err != nil {
		c.t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\nexec %s -F %s \"$@\"\n", c.calls, real, c.config)
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		c.t.Fatal(err)
	}
}

// command prepares a program of this client. On a testbed it runs in the client's network, so that the errors of connecting are
// the real ones.
func (c *client) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	argv := append([]string{name}, args...)
	if b := c.s.bed; b != nil {
		argv = append([]string{"nsenter", "--net=/run/netns/" + b.name + "-lan"}, argv...)
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		path = filepath.Join(c.bin, name)
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = c.env
	cmd.Dir = c.home
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
}

// run runs a program to its end.
func (c *client) run(name string, args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := c.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{stdout.String(), stderr.String(), 0}
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		r.code = ee.ExitCode()
	} else if err != nil {
		c.t.Fatalf("%s %s: %v\n%v", name, strings.Join(args, " "), err, r)
	}
	if ctx.Err() != nil {
		c.t.Fatalf("%s %s: still running after %v\n%v", name, strings.Join(args, " "), patience, r)
	}
	return r
}

// ok runs a program that must exit 0 and gives its stdout without the last newline.
func (c *client) ok(name string, args ...string) string {
	c.t.Helper()
	r := c.run(name, args...)
	if r.code != 0 {
		c.t.Fatalf("%s %s: %v", name, strings.Join(args, " "), r)
	}
	return strings.TrimSuffix(r.stdout, "\n")
}

// ssh runs a script without single quotes on a host by plain ssh and gives what it printed, without what the login shell did.
func (c *client) ssh(host, script string) string {
	c.t.Helper()
	out := c.ok("ssh", host, "exec /bin/sh -c 'echo @@; "+script+"'")
	_, out, _ = strings.Cut(out+"\n", "@@\n")
	return strings.TrimSuffix(out, "\n")
}

// sshCalls are the ssh processes that were started for this client, one line of arguments each.
func (c *client) sshCalls() []string {
	data, err := os.ReadFile(c.calls)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

// end ends every process that still runs with this client's home: its daemons, its terminals and its ssh masters.
func (c *client) end() {
	deadline := time.Now().Add(20 * time.Second)
	for sig := syscall.SIGTERM; time.Now().Before(deadline); sig = syscall.SIGKILL {
		pids := c.processes()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig)
		}
		c.waitGone(pids, 3*time.Second)
	}
	c.t.Errorf("processes of the client are still there: %v", c.processes())
}

func (c *client) waitGone(pids []int, most time.Duration) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(most); time.Now().Before(deadline); <-tick.C {
		alive := false
		for _, pid := range pids {
			alive = alive || syscall.Kill(pid, 0) == nil
		}
		if !alive {
			return
		}
	}
}

func (c *client) processes() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00HOME="+c.home+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// until asks again and again, because what it asks about is another machine's and sends no word; it fails the test at the deadline.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if done() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}
