package ssh

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"kolu/internal/fault"
)

var both = []Kind{Master, Native}

// port is where the host of a site listens.
func (s *site) port() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "known_hosts"))
	if err != nil {
		s.t.Fatal(err)
	}
	host, _, _ := strings.Cut(string(text), " ")
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		s.t.Fatal(err)
	}
	return port
}

// A host that takes passwords alone is never asked for one, and says what it would take.
func TestPasswordHost(t *testing.T) {
	s := sshd(t, "PubkeyAuthentication no\nPasswordAuthentication yes\nKbdInteractiveAuthentication no")
	for _, kind := range both {
		_, err := Dial(t.Context(), "h", s.options(kind))
		if !fault.Is(err, fault.Auth) || !strings.Contains(err.Error(), "(password)") || !strings.Contains(err.Error(), "passwords are never asked for") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// asking is a server that lets nobody in before a question was answered.
func asking(t *testing.T) (*site, *server, func() int) {
	t.Helper()
	s := newSite(t)
	hostKey, _ := ed25519Key(t)
	var mu sync.Mutex
	asked := 0
	srv := serve(t, serverOptions{hostKeys: []xssh.Signer{hostKey}, ask: func(ask xssh.KeyboardInteractiveChallenge) error {
		mu.Lock()
		asked++
		mu.Unlock()
		answers, err := ask("", "", []string{"Code: "}, []bool{true})
		if err != nil || len(answers) != 1 || answers[0] != "123456" {
			return errors.New("no")
		}
		return nil
	}})
	s.known(line(srv.knownAs(), hostKey.PublicKey()))
	return s, srv, func() int { mu.Lock(); defer mu.Unlock(); return asked }
}

// A second factor is never asked for; the connection that the user opened with it carries everything, and asks nothing again.
func TestSecondFactor(t *testing.T) {
	s, srv, asked := asking(t)
	user := filepath.Join(s.dir, "user.sock")
	s.host("h", srv, "ControlPath "+user)
	for _, kind := range both {
		_, err := Dial(t.Context(), "h", s.options(kind))
		if !fault.Is(err, fault.Auth) || !strings.Contains(err.Error(), "keyboard-interactive") || !strings.Contains(err.Error(), "`ssh -M h`") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	before := asked()
	o := s.options(Auto)
	s.write("answer", "#!/bin/sh\necho 123456\n")
	if err := os.Chmod(filepath.Join(s.dir, "answer"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ssh", "-F", o.ConfigFile, "-M", "-N", "-f", "-o", "ControlPersist=60", "h")
	cmd.Env = append(s.env(), "SSH_ASKPASS="+s.dir+"/answer", "SSH_ASKPASS_REQUIRE=force")
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("log in by hand: %v %s", err, out)
	}
	t.Cleanup(s.endMasters)
	for range 3 {
		if out := output(t, dialOK(t, "h", o), "echo hi"); out != "hi\n" {
			t.Errorf("got %q", out)
		}
	}
	if n := asked() - before; n != 1 {
		t.Errorf("the user was asked %d times", n)
	}
}

// slowAgent signs when it is touched.
type slowAgent struct {
	agent.ExtendedAgent
	touched chan struct{}
}

func (a slowAgent) SignWithFlags(key xssh.PublicKey, data []byte, flags agent.SignatureFlags) (*xssh.Signature, error) {
	<-a.touched
	return a.ExtendedAgent.SignWithFlags(key, data, flags)
}

func TestKeyThatWaitsForATouch(t *testing.T) {
	for _, kind := range both {
		t.Run(string(kind), func(t *testing.T) {
			s := sshd(t, "")
			touched := make(chan struct{})
			sock := serveAgent(t, s, slowAgent{keyringOf(t, s), touched})
			if err := os.Remove(s.key); err != nil {
				t.Fatal(err)
			}
			s.conf.Reset()
			s.host("h", &server{host: "127.0.0.1", port: s.port()}, "IdentityAgent "+sock)
			o := s.options(kind)
			var once sync.Once
			o.Notice = func(text string) {
				if strings.HasPrefix(text, "waiting for the key ") && strings.Contains(text, "SHA256:") {
					once.Do(func() { close(touched) }) // the user reads it and touches the key
				}
			}
			t.Cleanup(s.endMasters)
			dialOK(t, "h", o)
		})
	}
}

func keyringOf(t *testing.T, s *site) agent.ExtendedAgent {
	t.Helper()
	text, err := os.ReadFile(s.key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := xssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring().(agent.ExtendedAgent)
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	return ring
}

func serveAgent(t *testing.T, s *site, a agent.Agent) (sock string) {
	t.Helper()
	sock = filepath.Join(s.dir, "agent")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); agent.ServeAgent(a, c) }()
		}
	}()
	return sock
}

// Without SSH_AUTH_SOCK, as under sudo or a service, a refusal says that.
func TestMissingAgentIsNamed(t *testing.T) {
	s := sshd(t, "")
	if err := os.Remove(s.key); err != nil {
		t.Fatal(err)
	}
	for _, kind := range both {
		o := s.options(kind)
		text, err := os.ReadFile(o.ConfigFile)
		if err != nil {
			t.Fatal(err)
		}
		s.write("config", strings.Replace(string(text), "  IdentityAgent none\n", "", 1))
		if _, err := Dial(t.Context(), "h", o); !fault.Is(err, fault.Auth) || !strings.Contains(err.Error(), "SSH_AUTH_SOCK is not set") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A server that takes the connection and never speaks is given up within seconds, not minutes.
func TestServerThatNeverSpeaks(t *testing.T) {
	for _, kind := range both {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, nobody speaks
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			host, port, _ := net.SplitHostPort(l.Addr().String())
			s := newSite(t)
			s.host("h", &server{host: host, port: port})
			s.known()
			start := time.Now()
			_, err = Dial(t.Context(), "h", s.options(kind))
			if !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), "said nothing") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took > 25*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// A server that forwards nothing runs commands all the same, which is all that is asked of it.
func TestForwardingIsForbidden(t *testing.T) {
	s := sshd(t, "DisableForwarding yes\nAllowTcpForwarding no\nAllowStreamLocalForwarding no\nAllowAgentForwarding no\nPermitTunnel no\nX11Forwarding no")
	for _, kind := range both {
		c := dialOK(t, "h", s.options(kind))
		if out := output(t, c, "echo hi"); out != "hi\n" {
			t.Errorf("%s: %q", kind, out)
		}
		c.Close()
	}
}

// Keys are exchanged anew in the middle of a stream, many times, and every byte arrives.
func TestRekeyInTheMiddle(t *testing.T) {
	s := sshd(t, "RekeyLimit 1M")
	for _, kind := range both {
		c := dialOK(t, "h", s.options(kind))
		p, err := c.Start(t.Context(), "cat")
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 16<<20)
		for i := range data {
			data[i] = byte(i * 7 >> (i % 5))
		}
		go func() { p.Stdin().Write(data); p.Stdin().Close() }()
		back := sha256.New()
		n, err := io.Copy(back, p.Stdout())
		if want := sha256.Sum256(data); err != nil || n != int64(len(data)) || !slices.Equal(back.Sum(nil), want[:]) {
			t.Errorf("%s: %d of %d bytes came back, %v", kind, n, len(data), err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		c.Close()
	}
}

// What a server shows before and after a login is no output of a command.
func TestBannersOfTheServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "banner")
	if err := os.WriteFile(file, []byte("*** AUTHORISED USE ONLY ***\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := sshd(t, "Banner "+file+"\nPrintMotd yes\nPrintLastLog yes")
	for _, kind := range both {
		c := dialOK(t, "h", s.options(kind))
		p, err := c.Start(t.Context(), "echo 'bash: warning: setlocale: LC_ALL: cannot change locale' >&2; echo hi")
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(p.Stdout())
		if string(out) != "hi\n" || err != nil || p.Wait() != nil || !strings.Contains(p.Stderr(), "setlocale") {
			t.Errorf("%s: %q, stderr %q, %v", kind, out, p.Stderr(), err)
		}
		c.Close()
	}
}

// A name that means another machine now leads there, though a connection to the old one stands.
func TestNameThatMovedOn(t *testing.T) {
	old, new := sshd(t, "SetEnv WHERE=old"), sshd(t, "SetEnv WHERE=new")
	for _, kind := range both {
		o := old.options(kind)
		c := dialOK(t, "h", o)
		if out := output(t, c, "echo $WHERE"); out != "old\n" {
			t.Fatalf("%s: %q", kind, out)
		}
		text, err := os.ReadFile(o.ConfigFile)
		if err != nil {
			t.Fatal(err)
		}
		moved := strings.NewReplacer("Port "+old.port(), "Port "+new.port(), old.key, new.key, old.dir+"/known_hosts", new.dir+"/known_hosts").Replace(string(text))
		old.write("config", moved)
		now := dialOK(t, "h", o)
		if out := output(t, now, "echo $WHERE"); out != "new\n" {
			t.Errorf("%s: the name leads to the %s machine", kind, strings.TrimSpace(out))
		}
	}
}

// Twenty verbs at once over a server that allows one session a connection, and one that was there before them.
func TestTwentyAtOnceWithOneSessionEach(t *testing.T) {
	s := sshd(t, "MaxSessions 1\nMaxStartups 100")
	o := s.options(Master)
	first := dialOK(t, "h", o)
	p, err := first.Start(t.Context(), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	base, err := o.socketBase(Target{Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	s.write(base+".few", "") // as a dial leaves that found it out
	var work sync.WaitGroup
	errs := make(chan error, 20)
	for range 20 {
		work.Go(func() { errs <- once(t.Context(), o) })
	}
	work.Wait()
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	io.WriteString(p.Stdin(), "still here\n")
	if _, err := io.ReadFull(p.Stdout(), make([]byte, 11)); err != nil {
		t.Errorf("the first command is gone: %v", err)
	}
}

func once(ctx context.Context, o Options) error {
	c, err := Dial(ctx, "h", o)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.Start(ctx, "echo hi")
	if err != nil {
		return err
	}
	out, err := io.ReadAll(p.Stdout())
	if err == nil && string(out) != "hi\n" {
		err = fmt.Errorf("got %q", out)
	}
	return errors.Join(err, p.Wait())
}
