package kolucmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/padi"
	"kolu/internal/loopback"
)

// farPorts is a padi whose machine is this one; to, where it is set, moves every port.
type farPorts struct {
	*clitest.Workspace
	dialer loopback.Dialer
	to     int
	err    error
	mu     sync.Mutex
	asked  int
}

func (f *farPorts) Forward(ctx context.Context, port int) (net.Conn, error) {
	f.mu.Lock()
	f.asked++
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if f.to != 0 {
		port = f.to
	}
	conn, err := f.dialer.Dial(ctx, port)
	if errors.Is(err, loopback.ErrClosed) {
		return nil, fmt.Errorf("%w %d", padi.ErrPortClosed, port)
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// forwardRun is `kolu forward` that runs.
type forwardRun struct {
	lines  *bufio.Reader // stdout
	stderr *lockedBuffer
	cancel context.CancelFunc
	done   chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startForward(t *testing.T, far padi.Workspace, args ...string) *forwardRun {
	t.Helper()
	r, w := io.Pipe()
	run := &forwardRun{lines: bufio.NewReader(r), stderr: &lockedBuffer{}, done: make(chan error, 1)}
	env := &cli.Env{Name: "kolu", Stdin: bytes.NewReader(nil), Stdout: w, Stderr: run.stderr, Dir: "/"}
	connect := func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
		return client.NewPadi(far, daemon.Hello{}, client.Where{}, func() error { return nil }), nil
	}
	root := NewWith(env, connect, nil)
	root.SetArgs(append([]string{"forward"}, args...))
	ctx, cancel := context.WithCancel(t.Context())
	run.cancel = cancel
	go func() {
		err := root.ExecuteContext(ctx)
		w.Close()
		run.done <- err
	}()
	t.Cleanup(func() {
		cancel()
		r.Close()
		select {
		case <-run.done:
		case <-time.After(30 * time.Second):
			t.Error("forward does not end with its context")
		}
	})
	return run
}

func (r *forwardRun) line(t *testing.T) string {
	t.Helper()
	line, err := r.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("read stdout: %v; stderr %q", err, r.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

// server serves one function on a loopback port of one family.
func server(t *testing.T, network, address string, serve func(*net.TCPConn)) int {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serve(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

// counts answers, at the end of its input, how much that was.
func counts(c *net.TCPConn) {
	defer c.Close()
	n, _ := io.Copy(io.Discard, c)
	fmt.Fprintf(c, "got %d", n)
}

func askCounts(t *testing.T, ip string, port, size int) {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	go func() { c.Write(make([]byte, size)); c.(*net.TCPConn).CloseWrite() }()
	if got, err := io.ReadAll(c); string(got) != fmt.Sprint("got ", size) || err != nil {
		t.Errorf("%s: answer %q, %v", ip, got, err)
	}
}

func TestForward(t *testing.T) {
	for _, family := range []struct{ network, address string }{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}} {
		t.Run(family.network, func(t *testing.T) {
			port := server(t, family.network, family.address, counts)
			run := startForward(t, &farPorts{Workspace: &clitest.Workspace{}}, "box", "--json", strconv.Itoa(port))
			var got forwardLine
			if err := json.Unmarshal([]byte(run.line(t)), &got); err != nil {
				t.Fatal(err)
			}
			// The number is taken here, in one family, so another is had in both.
			if got.Host != "box" || got.Port != port || got.LocalPort == port || len(got.Addresses) != 2 {
				t.Fatalf("got %+v for port %d", got, port)
			}
			for range 2 {
				askCounts(t, "127.0.0.1", got.LocalPort, 1<<20)
				askCounts(t, "::1", got.LocalPort, 0)
			}
		})
	}
}

func TestForwardPrefersTheNumber(t *testing.T) {
	echo := server(t, "tcp4", "127.0.0.1:0", counts)
	free, err := loopback.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	port := free.Port()
	free.Close()
	run := startForward(t, &farPorts{Workspace: &clitest.Workspace{}, to: echo}, "--host", "box", strconv.Itoa(port))
	if got, want := run.line(t), fmt.Sprintf("localhost:%d -> box:%d", port, port); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	askCounts(t, "127.0.0.1", port, 10)
}

func TestForwardRefusesItself(t *testing.T) {
	free, err := loopback.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	port := free.Port()
	free.Close()
	far := &farPorts{Workspace: &clitest.Workspace{}}
	run := startForward(t, far, "here", strconv.Itoa(port))
	run.line(t)
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = <-run.done
	run.done <- err
	if err == nil || !strings.Contains(err.Error(), "here is this machine") {
		t.Errorf("error %v", err)
	}
	if far.asked > 20 {
		t.Errorf("%d connections were made before it was noticed", far.asked)
	}
}

func TestForwardToNothing(t *testing.T) {
	free, err := loopback.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Port()
	free.Close()
	run := startForward(t, &farPorts{Workspace: &clitest.Workspace{}, to: closed}, "box", "81")
	_, local, _ := strings.Cut(strings.Fields(run.line(t))[0], ":")
	for range 5 {
		c, err := net.Dial("tcp", "127.0.0.1:"+local)
		if errors.Is(err, syscall.ECONNRESET) {
			continue // it ended before this side had seen that it began
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d, %v", n, err)
		}
		c.Close()
	}
	want := "kolu: box: connection refused: nothing listens on port 81 there\n"
	if got := run.stderr.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") > 4 {
		t.Errorf("stderr %q, want %q, once a second", got, want)
	}
}

func TestForwardEndsWithTheLine(t *testing.T) {
	run := startForward(t, &farPorts{Workspace: &clitest.Workspace{}, err: errors.New("link lost")}, "box", "81")
	_, local, _ := strings.Cut(strings.Fields(run.line(t))[0], ":")
	if c, err := net.Dial("tcp", "127.0.0.1:"+local); err == nil {
		defer c.Close()
	}
	err := <-run.done
	run.done <- err
	if err == nil || err.Error() != "forward port 81 of box: link lost" {
		t.Errorf("error %v", err)
	}
}

// What is wrong with the command line is said before a host is asked.
func TestForwardBadUsage(t *testing.T) {
	for args, want := range map[string]string{
		"forward box":                    "which port? `kolu forward box 8080`",
		"forward box 0":                  `"0": a port is a number`,
		"forward box 70000":              "a port is a number",
		"forward box x":                  "a port is a number",
		"forward box +5":                 "a port is a number",
		"forward box 80:":                "a port is a number",
		"forward box 80:90 81:90":        "both want port 90 here",
		"forward --socket /s box 80":     "forward is for a host",
		"forward --host a --host b c 80": "takes one host",
		"forward":                        "",
		"forward box example.com:80":     "a port is a number",
	} {
		env, _, _ := clitest.Env("kolu", nil, strings.Fields(args)...)
		connect := func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
			t.Errorf("%s: a host was asked", args)
			return nil, errors.New("no")
		}
		r := clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, connect, nil) }, env)
		if r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, want) {
			t.Errorf("%s: %v, want %q", args, r, want)
		}
	}
}
