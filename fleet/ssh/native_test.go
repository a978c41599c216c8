package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"kolu/internal/fault"
)

// pair is a server and a site that may log in there as host "h".
func pair(t *testing.T, extra ...string) (*site, *server) {
	t.Helper()
	s := newSite(t)
	hostKey, _ := ed25519Key(t)
	srv := serve(t, serverOptions{hostKeys: []xssh.Signer{hostKey}, user: s.signer.PublicKey()})
	s.host("h", srv, extra...)
	s.known(line(srv.knownAs(), hostKey.PublicKey()))
	return s, srv
}

func TestNativeRuns(t *testing.T) {
	s, srv := pair(t)
	c := dialOK(t, "h", s.options(Native))
	if c.Kind() != Native {
		t.Errorf("kind %s", c.Kind())
	}
	testRunner(t, c)
	if n := srv.logins.Load(); n != 1 {
		t.Errorf("%d logins", n)
	}
}

// testRunner holds for both transports.
func testRunner(t *testing.T, c *Conn) {
	t.Run("both ways", func(t *testing.T) {
		p, err := c.Start(t.Context(), "cat; echo err >&2; exit 3")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("0123456789\n", 100_000)
		go func() { io.WriteString(p.Stdin(), text); p.Stdin().Close() }()
		out, err := io.ReadAll(p.Stdout())
		if err != nil || string(out) != text {
			t.Errorf("read %d bytes of %d, %v", len(out), len(text), err)
		}
		var exit *ExitError
		if err := p.Wait(); !errors.As(err, &exit) || exit.Status != 3 {
			t.Errorf("wait: %v, want status 3", err)
		}
		if p.Stderr() != "err\n" {
			t.Errorf("stderr %q", p.Stderr())
		}
	})
	t.Run("no terminal", func(t *testing.T) {
		if out := output(t, c, "if [ -t 0 ] || [ -t 1 ]; then echo tty; else echo none; fi"); out != "none\n" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("stderr is bounded and drained", func(t *testing.T) {
		p, err := c.Start(t.Context(), "i=0; while [ $i -lt 3000 ]; do printf %01000d $i >&2; i=$((i+1)); done; echo end >&2; echo done")
		if err != nil {
			t.Fatal(err)
		}
		out, _ := io.ReadAll(p.Stdout())
		if err := p.Wait(); err != nil || string(out) != "done\n" {
			t.Errorf("out %q, %v", out, err)
		}
		if tail := p.Stderr(); len(tail) > tailSize || !strings.HasSuffix(tail, "end\n") {
			t.Errorf("kept %d bytes", len(tail))
		}
	})
	t.Run("end with input open", func(t *testing.T) {
		p, err := c.Start(t.Context(), "exit 0")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, p.Stdout())
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("close", func(t *testing.T) {
		p, err := c.Start(t.Context(), "cat")
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		p.Close()
		if err := p.Wait(); err == nil {
			t.Error("a command that was given up ended well")
		}
	})
	t.Run("unix socket", func(t *testing.T) {
		if c.Kind() == Master {
			if _, err := c.DialUnix(t.Context(), "/nowhere"); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("over a master: %v", err)
			}
			return
		}
		dir, err := os.MkdirTemp("/tmp", "k")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		l, err := net.Listen("unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if conn, err := l.Accept(); err == nil {
				io.WriteString(conn, "hello")
				conn.Close()
			}
		}()
		conn, err := c.DialUnix(t.Context(), filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got, err := io.ReadAll(conn); string(got) != "hello" {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := c.DialUnix(t.Context(), filepath.Join(dir, "none")); err == nil {
			t.Error("a socket that is not there was dialled")
		}
	})
}

func TestSignalIsToldFromStatus(t *testing.T) {
	s, _ := pair(t)
	c := dialOK(t, "h", s.options(Native))
	p, err := c.Start(t.Context(), "kill -9 $$")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, p.Stdout())
	var exit *ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.Signal != "KILL" {
		t.Errorf("wait: %v, want signal KILL", err)
	}
}

func TestExecRefused(t *testing.T) {
	s := newSite(t)
	hostKey, _ := ed25519Key(t)
	srv := serve(t, serverOptions{hostKeys: []xssh.Signer{hostKey}, user: s.signer.PublicKey(), noExec: true})
	s.host("h", srv)
	s.known(line(srv.knownAs(), hostKey.PublicKey()))
	p, err := dialOK(t, "h", s.options(Native)).Start(t.Context(), "true")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, p.Stdout())
	if err := p.Wait(); !errors.Is(err, ErrExecRefused) {
		t.Errorf("wait: %v", err)
	}
}

func TestServerGoesAway(t *testing.T) {
	s := newSite(t)
	hostKey, _ := ed25519Key(t)
	conns := make(chan net.Conn, 1)
	srv := serve(t, serverOptions{hostKeys: []xssh.Signer{hostKey}, user: s.signer.PublicKey(),
		onConn: func(c net.Conn, _ int) bool { conns <- c; return false }})
	s.host("h", srv)
	s.known(line(srv.knownAs(), hostKey.PublicKey()))
	c := dialOK(t, "h", s.options(Native))
	p, err := c.Start(t.Context(), "echo up; cat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p.Stdout(), make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	(<-conns).Close()
	if err := p.Wait(); !errors.Is(err, ErrNoStatus) {
		t.Errorf("wait: %v, want ErrNoStatus", err)
	}
	if _, err := c.Start(t.Context(), "true"); !fault.Is(err, fault.Interrupted) {
		t.Errorf("start: %v", err)
	}
}

func TestHostKeys(t *testing.T) {
	ed, _ := ed25519Key(t)
	ec := ecdsaKey(t)
	other, _ := ed25519Key(t)
	ca, _ := ed25519Key(t)
	cert := &xssh.Certificate{Key: ed.PublicKey(), CertType: xssh.HostCert, ValidPrincipals: []string{"127.0.0.1"}, ValidBefore: xssh.CertTimeInfinity}
	if err := cert.SignCert(strings.NewReader(strings.Repeat("0123456789abcdef", 64)), ca); err != nil {
		t.Fatal(err)
	}
	certSigner, err := xssh.NewCertSigner(cert, ed)
	if err != nil {
		t.Fatal(err)
	}
	both := []xssh.Signer{ec, ed}
	for _, c := range []struct {
		name  string
		keys  []xssh.Signer
		known func(name string) string
		extra []string
		code  fault.Code
		says  string
	}{
		{"plain", both, func(n string) string { return line(n, ed.PublicKey()) }, nil, "", ""},
		{"only the other type is known", both, func(n string) string { return line(n, ec.PublicKey()) }, nil, "", ""},
		{"hashed", both, func(n string) string { return line(knownhosts.HashHostname(n), ed.PublicKey()) }, nil, "", ""},
		{"wildcard", both, func(n string) string { return line("[127.0.*]:*", ed.PublicKey()) }, nil, "", ""},
		{"negated", both, func(n string) string { return line("[127.0.*]:*,!"+n, ed.PublicKey()) }, nil, fault.HostKeyUnknown, "SHA256:"},
		{"other port", both, func(n string) string { return line("127.0.0.1", ed.PublicKey()) }, nil, fault.HostKeyUnknown, ""},
		{"alias", both, func(n string) string { return line("box", ed.PublicKey()) }, []string{"HostKeyAlias box"}, "", ""},
		{"bad lines around", both, func(n string) string {
			return "garbage\n" + n + " ssh-ed25519 AAAA!\n@what x y z\n" + line(n, ed.PublicKey()) + "\n" + n + " ssh-foo AAAA"
		}, nil, "", ""},
		{"unknown", both, func(n string) string { return line("elsewhere", ed.PublicKey()) }, nil, fault.HostKeyUnknown, "ssh h"},
		{"no file", both, func(string) string { return "" }, nil, fault.HostKeyUnknown, "SHA256:"},
		{"changed", both, func(n string) string { return line(n, other.PublicKey()) }, nil, fault.HostKeyChanged, "known_hosts:1"},
		{"changed, with a config that trusts new ones", both, func(n string) string { return line(n, other.PublicKey()) },
			[]string{"StrictHostKeyChecking accept-new"}, fault.HostKeyChanged, "known_hosts:1"},
		{"revoked beside accepted", []xssh.Signer{ed}, func(n string) string {
			return line(n, ed.PublicKey()) + "\n@revoked " + line("*", ed.PublicKey())
		}, nil, fault.HostKeyChanged, "revoked"},
		{"accept-new", both, func(string) string { return "" }, []string{"StrictHostKeyChecking accept-new"}, "", ""},
		{"no checking", both, func(n string) string { return line(n, other.PublicKey()) }, []string{"StrictHostKeyChecking no"}, "", ""},
		{"authority", []xssh.Signer{certSigner}, func(n string) string { return "@cert-authority " + line("[127.*]:*", ca.PublicKey()) }, nil, "", ""},
		{"authority and a server without certificate", both, func(n string) string {
			return "@cert-authority " + line("[127.*]:*", ca.PublicKey()) + "\n" + line(n, ed.PublicKey())
		}, nil, "", ""},
		{"another authority", []xssh.Signer{certSigner}, func(n string) string { return "@cert-authority " + line("[127.*]:*", other.PublicKey()) }, nil, fault.HostKeyUnknown, "certificate"},
		{"revoked authority", []xssh.Signer{certSigner}, func(n string) string {
			return "@cert-authority " + line("*", ca.PublicKey()) + "\n@cert-authority " + line("[127.*]:*", ca.PublicKey()) + "\n@revoked " + line("[127.*]:*", ca.PublicKey())
		}, nil, fault.HostKeyChanged, "revoked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			srv := serve(t, serverOptions{hostKeys: c.keys, user: s.signer.PublicKey()})
			s.host("h", srv, c.extra...)
			s.known(c.known(srv.knownAs()))
			conn, err := Dial(t.Context(), "h", s.options(Native))
			if err == nil {
				conn.Close()
			}
			if c.code == "" && err != nil || c.code != "" && !fault.Is(err, c.code) {
				t.Fatalf("error %v, want code %q", err, c.code)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q does not say %q", err, c.says)
			}
		})
	}
}

func TestAcceptNewIsRemembered(t *testing.T) {
	s, srv := pair(t, "StrictHostKeyChecking accept-new")
	s.write("known_hosts", "# no newline at the end")
	c := dialOK(t, "h", s.options(Native))
	if len(c.Warnings()) == 0 {
		t.Error("a new host key was accepted in silence")
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "known_hosts"))
	if want := line(srv.knownAs(), srv.keys[0].PublicKey()); err != nil || !strings.Contains(string(text), "\n"+want) {
		t.Errorf("known_hosts %q, want a line %q", text, want)
	}
}

func TestRefusedKeyIsTriedOnce(t *testing.T) {
	s := newSite(t)
	hostKey, _ := ed25519Key(t)
	srv := serve(t, serverOptions{hostKeys: []xssh.Signer{hostKey}})
	s.host("h", srv)
	s.known(line(srv.knownAs(), hostKey.PublicKey()))
	_, err := Dial(t.Context(), "h", s.options(Native))
	if !fault.Is(err, fault.Auth) || !strings.Contains(err.Error(), "publickey") {
		t.Errorf("error %v, want auth with the methods", err)
	}
	if n := srv.conns.Load(); n != 1 {
		t.Errorf("%d connections for one refused key", n)
	}
}

func TestEncryptedKeyIsNamed(t *testing.T) {
	s, _ := pair(t)
	_, key := ed25519Key(t)
	s.writeKey(s.key, key, "secret")
	_, err := Dial(t.Context(), "h", s.options(Native))
	if !fault.Is(err, fault.Auth) || !strings.Contains(err.Error(), "ssh-add "+s.key) {
		t.Errorf("error %v, want ssh-add of the key", err)
	}
}

func TestAgent(t *testing.T) {
	s, _ := pair(t)
	ring := agent.NewKeyring()
	_, key := ed25519Key(t)
	for range 8 {
		_, decoy := ed25519Key(t)
		ring.Add(agent.AddedKey{PrivateKey: decoy})
	}
	ring.Add(agent.AddedKey{PrivateKey: key})
	signer, _ := xssh.NewSignerFromKey(key)
	hostKey, _ := ed25519Key(t)
	srv := serve(t, serverOptions{hostKeys: []xssh.Signer{hostKey}, user: signer.PublicKey()})
	s.write("agentkey.pub", string(xssh.MarshalAuthorizedKey(signer.PublicKey())))
	s.conf.Reset()
	sock := filepath.Join(s.dir, "agent")
	s.host("h", srv, "IdentityAgent "+sock, "IdentitiesOnly yes", "IdentityFile "+s.dir+"/agentkey")
	s.known(line(srv.knownAs(), hostKey.PublicKey()))
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); agent.ServeAgent(ring, c) }()
		}
	}()
	dialOK(t, "h", s.options(Native)) // one of nine keys, and the server would count six
}

func TestDeadAgentIsDoneWithout(t *testing.T) {
	s, _ := pair(t)
	sock := filepath.Join(s.dir, "agent")
	l, err := net.Listen("unix", sock) // listens, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conf := s.options(Native)
	text, _ := os.ReadFile(conf.ConfigFile)
	s.write("config", strings.Replace(string(text), "IdentityAgent none", "IdentityAgent "+sock, 1))
	c := dialOK(t, "h", conf)
	if len(c.Warnings()) == 0 || !strings.Contains(c.Warnings()[0], "agent") {
		t.Errorf("warnings %q", c.Warnings())
	}
}

func TestDroppedHandshake(t *testing.T) {
	s := newSite(t)
	srv := serve(t, serverOptions{onConn: func(net.Conn, int) bool { return true }})
	s.host("h", srv)
	s.known()
	_, err := Dial(t.Context(), "h", s.options(Native))
	if !errors.Is(err, ErrDropped) || !fault.Is(err, fault.Unreachable) {
		t.Errorf("error %v, want unreachable, dropped", err)
	}
}

func TestTextBeforeTheVersionIsLegal(t *testing.T) {
	s := newSite(t)
	hostKey, _ := ed25519Key(t)
	srv := serve(t, serverOptions{hostKeys: []xssh.Signer{hostKey}, user: s.signer.PublicKey(),
		onConn: func(c net.Conn, _ int) bool { io.WriteString(c, "Welcome\r\nto the machine\r\n"); return false }})
	s.host("h", srv)
	s.known(line(srv.knownAs(), hostKey.PublicKey()))
	dialOK(t, "h", s.options(Native))
}

func TestNetworkFaults(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	s := newSite(t)
	s.host("closed", &server{host: "127.0.0.1", port: port})
	s.host("nameless", &server{host: "no-such-name.invalid", port: "22"})
	s.known()
	for _, kind := range []Kind{Native, Master} {
		for host, code := range map[string]fault.Code{"closed": fault.Unreachable, "nameless": fault.Unresolved} {
			_, err := Dial(t.Context(), host, s.options(kind))
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != code || f.Who != fault.Host || f.Host != host || f.Remedy == "" {
				t.Errorf("%s %s: %+v, want %s", kind, host, err, code)
			}
			if code == fault.Unreachable && !strings.Contains(strings.ToLower(err.Error()), "connection refused") {
				t.Errorf("%s %s: %v", kind, host, err)
			}
		}
	}
}

func TestProxyCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, extra := range map[string][]string{
		"pipe":              {"ProxyCommand " + self + " proxy %h %p"},
		"passed descriptor": {"ProxyCommand " + self + " proxyfd %h %p", "ProxyUseFdpass yes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := pair(t, extra...)
			if out := output(t, dialOK(t, "h", s.options(Native)), "echo hi"); out != "hi\n" {
				t.Errorf("got %q", out)
			}
		})
	}
	t.Run("fails", func(t *testing.T) {
		s, _ := pair(t, "ProxyCommand sh -c 'echo the tunnel is closed >&2; exit 1'")
		_, err := Dial(t.Context(), "h", s.options(Native))
		if !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), "tunnel is closed") || errors.Is(err, ErrDropped) {
			t.Errorf("error %v, want what the command said", err)
		}
	})
}

func TestProxyJump(t *testing.T) {
	s := newSite(t)
	key := func() xssh.Signer { k, _ := ed25519Key(t); return k }
	servers := map[string]*server{}
	var known []string
	for _, name := range []string{"one", "two", "far", "shut", "strange"} {
		o := serverOptions{hostKeys: []xssh.Signer{key()}, user: s.signer.PublicKey()}
		if name == "shut" {
			o.user = nil
		}
		srv := serve(t, o)
		servers[name] = srv
		extra := map[string][]string{"far": {"ProxyJump one,two"}}[name]
		s.host(name, srv, extra...)
		if name != "strange" {
			known = append(known, line(srv.knownAs(), srv.keys[0].PublicKey()))
		}
	}
	s.host("behind-shut", servers["far"], "ProxyJump shut")
	s.host("behind-strange", servers["far"], "ProxyJump strange")
	s.host("behind-nothing", &server{host: "127.0.0.1", port: "1"}, "ProxyJump one")
	s.host("behind-itself", servers["far"], "ProxyJump behind-itself")
	s.known(known...)
	o := s.options(Native)
	if out := output(t, dialOK(t, "far", o), "echo hi"); out != "hi\n" {
		t.Errorf("got %q", out)
	}
	for _, name := range []string{"one", "two", "far"} {
		if n := servers[name].logins.Load(); n != 1 {
			t.Errorf("%d logins at %s", n, name)
		}
	}
	for host, want := range map[string]struct {
		code fault.Code
		who  fault.Who
		says string
	}{
		"behind-shut":    {fault.Auth, fault.Hop, "shut"},
		"behind-strange": {fault.HostKeyUnknown, fault.Hop, "ssh strange"},
		"behind-nothing": {fault.Unreachable, fault.Host, "jump host one"},
		"behind-itself":  {fault.ConfigError, fault.Local, "jump hosts"},
	} {
		_, err := Dial(t.Context(), host, o)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Code != want.code || f.Who != want.who || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v (%+v), want %+v", host, err, f, want)
		}
	}
}

// Without an ssh program the configuration is read here; where both can be had, they agree.
func TestConfigWithoutSSH(t *testing.T) {
	s, _ := pair(t, "IdentitiesOnly yes")
	s.write("more.conf", "Host inc*\n  User fromfile\n")
	fmt.Fprintf(&s.conf, "Host *\n  Include %s/more.conf\nHost inc1 !inc2\n  Port=2200\n  hostname \"%%h.example\"\nMatch originalhost inc1\n  HostKeyAlias seven\nMatch exec true\n  User never\n", s.dir)
	with := s.options(Native)
	without := with
	without.Env = []string{"HOME=" + s.dir, "PATH=/nowhere", "XDG_RUNTIME_DIR=" + s.dir}
	for _, host := range []string{"h", "inc1", "inc2"} {
		a, err := with.resolve(t.Context(), Target{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		b, err := without.resolve(t.Context(), Target{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		if a.first("hostkeyalias") != b.first("hostkeyalias") || a.yes("identitiesonly") != b.yes("identitiesonly") {
			t.Errorf("%s: ssh says %v, the parser %v", host, a.values, b.values)
		}
		if a.hostname() != b.hostname() || a.port() != b.port() || host != "h" && (a.login() != "fromfile" || b.login() != "fromfile") {
			t.Errorf("%s: ssh says %s@%s:%s, the parser %s@%s:%s", host, a.login(), a.hostname(), a.port(), b.login(), b.hostname(), b.port())
		}
		if len(b.warnings) == 0 {
			t.Errorf("%s: a Match that was left out is not mentioned", host)
		}
	}
	without.Transport = Auto
	if c := dialOK(t, "h", without); c.Kind() != Native {
		t.Errorf("kind %s without an ssh program", c.Kind())
	}
	without.Transport = Master
	if _, err := Dial(t.Context(), "h", without); err == nil {
		t.Error("a master without an ssh program")
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	s := newSite(t)
	reached := make(chan struct{})
	srv := serve(t, serverOptions{onConn: func(c net.Conn, _ int) bool {
		close(reached)
		io.Copy(io.Discard, c) // accepts, and never says a word
		return true
	}})
	s.host("h", srv)
	s.known()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	if _, err := Dial(ctx, "h", s.options(Native)); !fault.Is(err, fault.Interrupted) {
		t.Errorf("error %v", err)
	}
}
