package vmtests

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/kaval/kavaltest"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
	"kolu/daemon/padi/paditest"
	"kolu/fleet"
	"kolu/stdio"
)

// The contracts of both daemons must hold in the same way however far away a daemon is: the suites that run in process and over a
// unix socket beside the code run here over the stdio of a child and over ssh to hosts.

func TestKavalContract(t *testing.T) {
	for name, dial := range ways(t, "kaval") {
		t.Run(name, func(t *testing.T) {
			d := dial(t)
			kavaltest.TestHost(t, func(t *testing.T) kaval.Host {
				c := kavalrpc.NewClient(d)
				t.Cleanup(func() { c.Close() })
				return c
			})
		})
	}
}

func TestPadiContract(t *testing.T) {
	for name, dial := range ways(t, "padi") {
		t.Run(name, func(t *testing.T) {
			d := dial(t)
			paditest.TestWorkspace(t, func(t *testing.T) padi.Workspace {
				c := padirpc.NewClient(d)
				t.Cleanup(func() { c.Close() })
				return c
			})
		})
	}
}

// ways are the distances: each gives a dialer that works until the test ends.
func ways(t *testing.T, program string) map[string]func(*testing.T) daemon.Dialer {
	s := setup(t)
	return map[string]func(*testing.T) daemon.Dialer{
		"over a child's stdio": func(t *testing.T) daemon.Dialer { return child(t, program) },
		"over ssh to nixd/guest": func(t *testing.T) daemon.Dialer {
			return overSSH(t, program, s.host(t, "nixd/guest", 0), "master")
		},
		"over ssh to nonix, natively": func(t *testing.T) daemon.Dialer {
			return overSSH(t, program, s.host(t, "nonix", 0), "native")
		},
	}
}

func overSSH(t *testing.T, program, host, transport string) daemon.Dialer {
	c := newClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	link, err := fleet.Dial(ctx, host, program, fleet.Options{
		Transport: transport, Env: append(c.env, "KOLU_AGENTS="+c.s.agents, "KOLU_SSH_CONFIG="+c.config),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	return link
}

// child is the front as ssh would run it, without ssh.
func child(t *testing.T, program string) daemon.Dialer {
	c := newClient(t)
	nonce := rand.Text()
	cmd := c.command(context.Background(), program, "--stdio", "--nonce", nonce)
	cmd.Args = cmd.Args[len(cmd.Args)-4:]
	cmd.Path = c.s.bin + "/" + program
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the front: %v\n%s", err, stderr.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := stdio.ReadPreamble(ctx, out, nonce); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	mux, err := stdio.Client(out, in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mux.Close() })
	return mux
}
