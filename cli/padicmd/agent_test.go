package padicmd_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh/agent"

	"kolu/cli/front"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
)

// forwarded is an agent with one key, as sshd offers it to a login.
func (h *host) forwarded(name string) (socket string) {
	h.t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key, Comment: name}); err != nil {
		h.t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(h.dir, name))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); agent.ServeAgent(ring, c) }()
		}
	}()
	return l.Addr().String()
}

// login is a front of a login that has an agent.
func (h *host) login(agent string) (cmd *exec.Cmd, socket string, end func() error) {
	h.t.Helper()
	cmd = h.command("padi", "--stdio", "--nonce", "abcd1234")
	cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+agent)
	banner, mux, end := h.run(cmd)
	if mux == nil || len(banner.Warnings) > 0 && strings.Contains(banner.Warnings[0], "agent") {
		h.t.Fatalf("banner %+v", banner)
	}
	return cmd, banner.Socket, end
}

// An old terminal reaches the agent of whatever login there is: the newest, another one when that ends, none when there is none.
func TestForwardedAgentFollowsTheLogin(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	one, two, three := h.forwarded("one"), h.forwarded("two"), h.forwarded("three")
	first, socket, _ := h.login(one)
	h.connected(socket)
	ws := padirpc.NewClient(daemon.Unix(socket))
	defer ws.Close()
	made, err := ws.Create(t.Context(), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: h.dir})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	shows := func(when, want string) {
		t.Helper()
		asked++
		line := fmt.Sprintf("echo Q$((%d)) $(ssh-add -l 2>&1)\r", asked)
		if err := ws.Write(t.Context(), made.ID, kaval.Input{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
		from := int64(0)
		res, err := ws.Wait(t.Context(), made.ID, padi.WaitRequest{Match: fmt.Sprintf("Q%d .*%s", asked, want), After: &from, TimeoutMS: 60000})
		if err != nil || res.Result != kaval.Met {
			screen, _ := ws.Screen(t.Context(), made.ID, kaval.ScreenRequest{})
			t.Fatalf("%s: no %q: %+v, %v; screen %+v", when, want, res, err, screen)
		}
	}
	shows("in the first login", "one \\(ED25519")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.Wait()
	shows("when its front was killed", "[Cc]onnect")
	_, _, endTwo := h.login(two)
	shows("in the next login", "two \\(ED25519")
	_, _, endThree := h.login(three)
	shows("in one more", "three \\(ED25519")
	endThree()
	shows("when that has ended", "two \\(ED25519")
	endTwo()
	shows("without a login", "[Cc]onnect")
	if path := front.AgentSocket(filepath.Dir(socket)); path != "" {
		t.Errorf("%s is still there", path)
	}
}

// A directory that others can write to gets no socket, and the login works without.
func TestAgentIsNotOfferedToOthers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	_, socket, end := h.login(h.forwarded("one"))
	shared := filepath.Join(filepath.Dir(socket), "agent.sock")
	info, err := os.Stat(shared)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if at, err := os.Readlink(shared); err != nil || filepath.Base(at) != at {
		t.Errorf("it leads to %q, %v: out of our directory", at, err)
	}
	end()
	if _, err := os.Lstat(shared); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
