package ssh

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

const hang = 30 * time.Second

// TestMain lets the test program be a ProxyCommand too: `TEST proxy HOST PORT` and `TEST proxyfd HOST PORT`.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && (os.Args[1] == "proxy" || os.Args[1] == "proxyfd") {
		if err := beProxy(os.Args[1], net.JoinHostPort(os.Args[2], os.Args[3])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func beProxy(how, addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	if how == "proxyfd" {
		f, err := c.(*net.TCPConn).File()
		if err != nil {
			return err
		}
		return syscall.Sendmsg(1, []byte{0}, syscall.UnixRights(int(f.Fd())), nil, 0)
	}
	go func() { io.Copy(c, os.Stdin); c.(*net.TCPConn).CloseWrite() }()
	_, err = io.Copy(os.Stdout, c)
	return err
}

// server is an sshd in this process that runs commands with /bin/sh.
type server struct {
	addr   string
	host   string
	port   string
	keys   []xssh.Signer // host keys
	logins atomic.Int32  // connections that got as far as a login
	conns  atomic.Int32
}

type serverOptions struct {
	hostKeys []xssh.Signer
	user     xssh.PublicKey           // the key that may log in; nil refuses all
	onConn   func(net.Conn, int) bool // true: it has dealt with the connection
	noExec   bool
	ask      func(xssh.KeyboardInteractiveChallenge) error // nil asks nothing
}

func serve(t *testing.T, o serverOptions) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String(), keys: o.hostKeys}
	s.host, s.port, _ = net.SplitHostPort(s.addr)
	conf := &xssh.ServerConfig{PublicKeyCallback: func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
		if o.user != nil && same(key, o.user) {
			return nil, nil
		}
		return nil, errors.New("no")
	}}
	if o.ask != nil {
		conf.KeyboardInteractiveCallback = func(_ xssh.ConnMetadata, ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
			return nil, o.ask(ask)
		}
	}
	for _, k := range o.hostKeys {
		conf.AddHostKey(k)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			n := int(s.conns.Add(1))
			wg.Go(func() {
				defer c.Close()
				if o.onConn == nil || !o.onConn(c, n) {
					s.connection(c, conf, o)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *server) connection(c net.Conn, conf *xssh.ServerConfig, o serverOptions) {
	conn, chans, reqs, err := xssh.NewServerConn(c, conf)
	if err != nil {
		return
	}
	defer conn.Close()
	s.logins.Add(1)
	go xssh.DiscardRequests(reqs)
	for nc := range chans {
		switch nc.ChannelType() {
		case "session":
			ch, reqs, err := nc.Accept()
			if err == nil {
				go s.session(ch, reqs, o)
			}
		case "direct-tcpip":
			var m struct {
				Host   string
				Port   uint32
				Origin string
				From   uint32
			}
			xssh.Unmarshal(nc.ExtraData(), &m)
			forward(nc, "tcp", net.JoinHostPort(m.Host, fmt.Sprint(m.Port)))
		case "direct-streamlocal@openssh.com":
			var m struct {
				Path string
				A    string
				B    uint32
			}
			xssh.Unmarshal(nc.ExtraData(), &m)
			forward(nc, "unix", m.Path)
		default:
			nc.Reject(xssh.UnknownChannelType, "no")
		}
	}
}

func forward(nc xssh.NewChannel, network, addr string) {
	c, err := net.Dial(network, addr)
	if err != nil {
		nc.Reject(xssh.ConnectionFailed, err.Error())
		return
	}
	ch, reqs, err := nc.Accept()
	if err != nil {
		c.Close()
		return
	}
	go xssh.DiscardRequests(reqs)
	go func() { io.Copy(c, ch); c.(interface{ CloseWrite() error }).CloseWrite() }()
	go func() { io.Copy(ch, c); ch.Close(); c.Close() }()
}

func (s *server) session(ch xssh.Channel, reqs <-chan *xssh.Request, o serverOptions) {
	for r := range reqs {
		if r.Type != "exec" || o.noExec {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		var m struct{ Command string }
		xssh.Unmarshal(r.Payload, &m)
		go run(ch, m.Command)
	}
}

func run(ch xssh.Channel, command string) {
	defer ch.Close()
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	go func() { io.Copy(in, ch); in.Close() }()
	cmd.Wait()
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		ch.SendRequest("exit-signal", false, xssh.Marshal(struct {
			Signal    string
			Core      bool
			Msg, Lang string
		}{"KILL", false, "", ""}))
		return
	}
	ch.SendRequest("exit-status", false, xssh.Marshal(struct{ N uint32 }{uint32(ws.ExitStatus())}))
}

func ed25519Key(t *testing.T) (xssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := xssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

func ecdsaKey(t *testing.T) xssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := xssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// site is one user's ssh directory.
type site struct {
	t      *testing.T
	dir    string
	signer xssh.Signer // the user's key
	key    string      // its file
	conf   strings.Builder
	log    tail // of the sshd that was started for it
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{t: t, dir: dir, key: filepath.Join(dir, "key")}
	signer, key := ed25519Key(t)
	s.signer = signer
	s.writeKey(s.key, key, "")
	return s
}

func (s *site) writeKey(name string, key any, passphrase string) {
	s.t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = xssh.MarshalPrivateKey(key, "test")
	} else {
		block, err = xssh.MarshalPrivateKeyWithPassphrase(key, "test", []byte(passphrase))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(name, string(pem.EncodeToMemory(block)))
}

func (s *site) write(name, text string) {
	s.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.dir, name)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// host adds a Host entry for a server.
func (s *site) host(name string, srv *server, extra ...string) {
	fmt.Fprintf(&s.conf, "Host %s\n  HostName %s\n  Port %s\n", name, srv.host, srv.port)
	for _, line := range extra {
		fmt.Fprintf(&s.conf, "  %s\n", line)
	}
}

// known writes known_hosts lines and options gives what dials with all that.
func (s *site) known(lines ...string) { s.write("known_hosts", strings.Join(lines, "\n")+"\n") }

func (s *site) options(kind Kind) Options {
	s.t.Helper()
	conf := s.conf.String() + fmt.Sprintf("Host *\n  IdentityFile %s\n  IdentityAgent none\n  UserKnownHostsFile %s/known_hosts\n  GlobalKnownHostsFile /dev/null\n",
		s.key, s.dir)
	s.write("config", conf)
	return Options{Transport: kind, ConfigFile: filepath.Join(s.dir, "config"), Env: s.env()}
}

func (s *site) env() []string {
	return []string{"HOME=" + s.dir, "XDG_RUNTIME_DIR=" + s.dir, "PATH=" + os.Getenv("PATH")}
}

func line(name string, key xssh.PublicKey) string {
	return name + " " + strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))
}

func (s *server) knownAs() string { return "[" + s.host + "]:" + s.port }

func dialOK(t *testing.T, host string, o Options) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	c, err := Dial(ctx, host, o)
	if err != nil {
		t.Fatalf("dial %s: %v\n%+v", host, err, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func output(t *testing.T, c *Conn, line string) string {
	t.Helper()
	p, err := c.Start(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%s: %v, stderr %q", line, err, p.Stderr())
	}
	return string(out)
}
