package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"kolu/internal/fault"
)

// sshd starts a real OpenSSH server on loopback and gives a site that may log in there as "h".
func sshd(t *testing.T, conf string, extra ...string) *site {
	t.Helper()
	program, err := exec.LookPath("sshd")
	if err != nil {
		if program = "/usr/sbin/sshd"; exec.Command(program, "-V").Err != nil {
			t.Fatal("there is no sshd; apt-get install openssh-server")
		}
	}
	s := newSite(t)
	hostKey, private := ed25519Key(t)
	s.writeKey(filepath.Join(s.dir, "hostkey"), private, "")
	s.write("authorized", string(ssh.MarshalAuthorizedKey(s.signer.PublicKey())))
	port := freePort(t)
	s.write("sshd_config", fmt.Sprintf("ListenAddress 127.0.0.1\nPort %s\nHostKey %s/hostkey\nAuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n%s\n",
		port, s.dir, s.dir, conf))
	if os.Getuid() == 0 {
		os.MkdirAll("/run/sshd", 0o755) // where sshd separates its privileges
	}
	log := &s.log
	cmd := exec.Command(program, "-D", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	cmd.Stderr = log
	cmd.WaitDelay = 2 * time.Second // sessions may hold it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { cmd.Wait(); close(gone) }()
	t.Cleanup(func() {
		s.endMasters()
		cmd.Process.Kill()
		<-gone
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for up := false; !up; {
		select {
		case <-gone:
			t.Fatalf("sshd: %s", log.String())
		case <-time.After(10 * time.Millisecond):
			up = strings.Contains(log.String(), "Server listening")
		}
	}
	srv := &server{host: "127.0.0.1", port: port}
	s.host("h", srv, extra...)
	s.known(line(srv.knownAs(), hostKey.PublicKey()))
	return s
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// sockets are the control sockets of ours.
func (s *site) sockets() []string {
	found, _ := filepath.Glob(filepath.Join(s.dir, "kolu-ssh", "*.[0-9]"))
	return found
}

func (s *site) endMasters() {
	for _, path := range append(s.sockets(), filepath.Join(s.dir, "user.sock")) {
		exec.Command("ssh", "-F", "none", "-S", path, "-O", "exit", "x").Run()
	}
}

func (s *site) masterPID(path string) string {
	s.t.Helper()
	out, _ := exec.Command("ssh", "-F", "none", "-S", path, "-O", "check", "x").CombinedOutput()
	_, pid, ok := strings.Cut(string(out), "pid=")
	if !ok {
		s.t.Fatalf("no master at %s: %s", path, out)
	}
	pid, _, _ = strings.Cut(pid, ")")
	return pid
}

func TestMasterRuns(t *testing.T) {
	s := sshd(t, "")
	o := s.options(Auto)
	c := dialOK(t, "h", o)
	if c.Kind() != Master || c.Shared() {
		t.Errorf("first: kind %s, shared %v", c.Kind(), c.Shared())
	}
	testRunner(t, c)
	c.Close()
	again := dialOK(t, "h", o)
	if !again.Shared() {
		t.Error("the second dial did not find the master of the first")
	}
	if out := output(t, again, "echo hi"); out != "hi\n" {
		t.Errorf("got %q", out)
	}
	if n := len(s.sockets()); n != 1 {
		t.Errorf("%d masters", n)
	}
}

func TestTwoStartAMasterAtOnce(t *testing.T) {
	s := sshd(t, "")
	o := s.options(Master)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			c, err := Dial(t.Context(), "h", o)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			p, err := c.Start(t.Context(), "echo hi")
			if err != nil {
				t.Error(err)
				return
			}
			if out, err := io.ReadAll(p.Stdout()); string(out) != "hi\n" || p.Wait() != nil {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
	wg.Wait()
	if n := len(s.sockets()); n > 3 { // two would do; what just ends may still have its place
		t.Errorf("%d masters for six dials at once", n)
	}
}

// Everything that a configuration can say to break the wire, at once.
func TestHostileConfig(t *testing.T) {
	s := sshd(t, "", "RequestTTY force", "RemoteCommand echo wrong", "PermitLocalCommand yes", "LocalCommand echo noise",
		"StdinNull yes", "ForkAfterAuthentication yes", "LocalForward 127.0.0.1:1 127.0.0.1:1", "ExitOnForwardFailure yes",
		"ControlMaster auto", "ControlPersist no", "BatchMode no", "LogLevel DEBUG", "ForwardAgent yes", "EscapeChar ~", "SessionType none", "Compression yes")
	c := dialOK(t, "h", s.options(Master))
	p, err := c.Start(t.Context(), "cat; echo end >&2")
	if err != nil {
		t.Fatal(err)
	}
	in := "\n~.\n\x04\x03\r\n~?\xff\x00"
	go func() { io.WriteString(p.Stdin(), in); p.Stdin().Close() }()
	out, err := io.ReadAll(p.Stdout())
	if err != nil || string(out) != in {
		t.Errorf("%q came back as %q, %v", in, out, err)
	}
	if err := p.Wait(); err != nil || p.Stderr() != "end\n" {
		t.Errorf("wait %v, stderr %q", err, p.Stderr())
	}
}

func TestUsersMasterIsUsedAndKept(t *testing.T) {
	s := sshd(t, "")
	user := filepath.Join(s.dir, "user.sock")
	s.conf.Reset()
	text, _ := os.ReadFile(filepath.Join(s.dir, "known_hosts"))
	host, _, _ := strings.Cut(string(text), " ")
	_, port, _ := net.SplitHostPort(host)
	s.host("h", &server{host: "127.0.0.1", port: port}, "ControlPath "+s.dir+"/user.sock")
	o := s.options(Auto)
	if out, err := exec.Command("ssh", "-F", o.ConfigFile, "-M", "-N", "-f", "-o", "ControlPersist=60", "h").Output(); err != nil {
		t.Fatalf("start the user's master: %v %s", err, out)
	}
	pid := s.masterPID(user)
	c := dialOK(t, "h", o)
	if !c.Shared() || c.Kind() != Master {
		t.Errorf("kind %s, shared %v", c.Kind(), c.Shared())
	}
	if out := output(t, c, "echo hi"); out != "hi\n" {
		t.Errorf("got %q", out)
	}
	c.Close()
	if len(s.sockets()) != 0 {
		t.Error("a master of ours was started beside the user's")
	}
	if s.masterPID(user) != pid {
		t.Error("the user's master is another one now")
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	s := sshd(t, "")
	o := s.options(Master)
	base, err := o.socketBase(Target{Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: base + ".0", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	c := dialOK(t, "h", o)
	if out := output(t, c, "echo hi"); out != "hi\n" {
		t.Errorf("got %q", out)
	}
	s.masterPID(base + ".0")
}

func TestMasterKilledInFlight(t *testing.T) {
	s := sshd(t, "")
	o := s.options(Master)
	c := dialOK(t, "h", o)
	p, err := c.Start(t.Context(), "echo up; cat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p.Stdout(), make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("kill", "-9", s.masterPID(s.sockets()[0])).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := p.Wait(); !errors.Is(err, ErrNoStatus) {
		t.Errorf("wait: %v, want ErrNoStatus", err)
	}
	if out := output(t, dialOK(t, "h", o), "echo again"); out != "again\n" {
		t.Errorf("got %q", out)
	}
}

func TestMaxSessions(t *testing.T) {
	s := sshd(t, "MaxSessions 1")
	o := s.options(Master)
	c := dialOK(t, "h", o)
	p, err := c.Start(t.Context(), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	base, err := o.socketBase(Target{Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	s.write(base+".few", "") // left by a dial that found it out
	var wg sync.WaitGroup
	for range 3 { // each needs a connection of its own
		wg.Go(func() {
			other, err := Dial(t.Context(), "h", o)
			if err != nil {
				t.Error(err)
				return
			}
			defer other.Close()
			p, err := other.Start(t.Context(), "echo hi")
			if err != nil {
				t.Error(err)
				return
			}
			if out, _ := io.ReadAll(p.Stdout()); string(out) != "hi\n" {
				t.Errorf("got %q", out)
			}
		})
	}
	wg.Wait()
	io.WriteString(p.Stdin(), "still here\n")
	if _, err := io.ReadFull(p.Stdout(), make([]byte, 11)); err != nil {
		t.Errorf("the first command is gone: %v", err)
	}
}

func TestControlDirectory(t *testing.T) {
	long := filepath.Join("/tmp", strings.Repeat("d", 90))
	for name, c := range map[string]struct {
		runtime string
		make    func(dir string)
		falls   bool // back to /tmp
	}{
		"fine":            {"run", nil, false},
		"too long":        {long, nil, true},
		"relative":        {"", nil, true},
		"with a space":    {"r n", nil, true},
		"others may read": {"open", func(d string) { os.Mkdir(d+"/kolu-ssh", 0o755) }, true},
		"a link":          {"link", func(d string) { os.Symlink("/tmp", d+"/kolu-ssh") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			dir := c.runtime
			if dir != "" && !filepath.IsAbs(dir) {
				dir = filepath.Join(s.dir, dir)
				os.Mkdir(dir, 0o700)
			}
			if c.make != nil {
				c.make(dir)
			}
			o := s.options(Master)
			o.Env = []string{"HOME=" + s.dir, "XDG_RUNTIME_DIR=" + dir}
			got, err := o.socketBase(Target{Host: strings.Repeat("h", 90)})
			if err != nil {
				t.Fatal(err)
			}
			if fell := strings.HasPrefix(got, "/tmp/kolu-ssh-"); fell != c.falls {
				t.Errorf("socket at %s", got)
			}
			if len(got)+2 > maxSocket {
				t.Errorf("%s has %d bytes", got, len(got))
			}
		})
	}
}

func TestMasterFaults(t *testing.T) {
	s := sshd(t, "")
	stranger := newSite(t)
	port, _ := os.ReadFile(filepath.Join(s.dir, "known_hosts"))
	host, _, _ := strings.Cut(string(port), " ")
	_, p, _ := net.SplitHostPort(host)
	srv := &server{host: "127.0.0.1", port: p}
	stranger.host("h", srv)
	stranger.known(string(port))
	for _, kind := range []Kind{Master, Native} {
		_, err := Dial(t.Context(), "h", stranger.options(kind))
		if !fault.Is(err, fault.Auth) || !strings.Contains(strings.ToLower(err.Error()), "permission denied") {
			t.Errorf("%s, refused key: %v", kind, err)
		}
	}
	stranger.known()
	other, _ := ed25519Key(t)
	for _, kind := range []Kind{Master, Native} {
		stranger.known()
		if _, err := Dial(t.Context(), "h", stranger.options(kind)); !fault.Is(err, fault.HostKeyUnknown) || !strings.Contains(err.Error(), "ssh h") {
			t.Errorf("%s, unknown host key: %v", kind, err)
		}
		stranger.known(line(srv.knownAs(), other.PublicKey()))
		if _, err := Dial(t.Context(), "h", stranger.options(kind)); !fault.Is(err, fault.HostKeyChanged) || !strings.Contains(err.Error(), "known_hosts:1") {
			t.Errorf("%s, changed host key: %v", kind, err)
		}
		stranger.conf.WriteString("Colour red\n")
		o := stranger.options(kind)
		if _, err := Dial(t.Context(), "h", o); !fault.Is(err, fault.ConfigError) || !strings.Contains(strings.ToLower(err.Error()), "colour") {
			t.Errorf("%s, bad configuration: %v", kind, err)
		}
		stranger.conf.Reset()
		stranger.host("h", srv)
	}
}

func TestMasterBlamesTheHop(t *testing.T) {
	s := sshd(t, "")
	s.host("shut", &server{host: "127.0.0.1", port: "1"})
	text, _ := os.ReadFile(filepath.Join(s.dir, "known_hosts"))
	host, _, _ := strings.Cut(string(text), " ")
	_, port, _ := net.SplitHostPort(host)
	s.host("behind", &server{host: "10.255.255.1", port: "22"}, "ProxyJump shut")
	s.host("through", &server{host: "127.0.0.1", port: port}, "ProxyJump h")
	s.host("nowhere", &server{host: "127.0.0.1", port: "1"}, "ProxyJump h")
	o := s.options(Master)
	if out := output(t, dialOK(t, "through", o), "echo hi"); out != "hi\n" {
		t.Errorf("got %q", out)
	}
	s.host("ring", &server{host: "127.0.0.1", port: port}, "ProxyJump gnir")
	s.host("gnir", &server{host: "127.0.0.1", port: port}, "ProxyJump ring")
	o = s.options(Master)
	for name, want := range map[string]struct {
		code fault.Code
		who  fault.Who
		says string
	}{
		"behind":  {fault.Unreachable, fault.Hop, "at the hop shut: port 1: connection refused"},
		"nowhere": {fault.Unreachable, fault.Host, "the jump host cannot reach it"},
		"ring":    {fault.ConfigError, fault.Local, "in a ring"},
	} {
		_, err := Dial(t.Context(), name, o)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Code != want.code || f.Who != want.who || !strings.Contains(strings.ToLower(err.Error()), want.says) {
			t.Errorf("%s: %v (%+v), want %+v", name, err, f, want)
		}
	}
}

func TestMasterEndsWithItsContext(t *testing.T) {
	s := sshd(t, "", "ProxyCommand sh -c 'echo here >&2; sleep 1000'")
	o := s.options(Master)
	ctx, cancel := context.WithCancel(t.Context())
	o.Notice = func(string) { cancel() }
	start := time.Now()
	if _, err := Dial(ctx, "h", o); !fault.Is(err, fault.Interrupted) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("took %s, so it was not the context that ended it", took)
	}
	if len(s.sockets()) != 0 {
		t.Error("a socket is left")
	}
}

// Who waits while another tries takes the other's failure: the host is asked once.
func TestWaitersShareAFailure(t *testing.T) {
	s := newSite(t)
	tries := filepath.Join(s.dir, "tries")
	release := filepath.Join(s.dir, "release")
	srv := &server{host: "127.0.0.1", port: "1"}
	s.host("h", srv, "ProxyCommand sh -c 'echo x >>"+tries+"; echo waiting >&2; while ! test -e "+release+"; do sleep 0.05; done; echo ssh: connect to host h port 22: Connection timed out >&2; exit 255'")
	o := s.options(Master)
	trying := make(chan struct{})
	var once sync.Once
	first := o
	first.Notice = func(string) { once.Do(func() { close(trying) }) }
	errs := make(chan error, 5)
	dial := func(o Options) { _, err := Dial(t.Context(), "h", o); errs <- err }
	go dial(first)
	<-trying
	waiting := make(chan struct{}, 4)
	for range 4 {
		other := o
		other.Log = slog.New(tellOf{"waiting", waiting})
		go dial(other)
	}
	for range 4 {
		<-waiting
	}
	s.write(release, "")
	for range 5 {
		if err := <-errs; !fault.Is(err, fault.Unreachable) || !strings.HasPrefix(err.Error(), "h: ") {
			t.Errorf("error %v", err)
		}
	}
	if text, _ := os.ReadFile(tries); len(text) != 2 {
		t.Errorf("%d attempts, want 1", len(text)/2)
	}
	os.Remove(release)
	go func() { s.write(release, ""); dial(o) }() // who comes later tries for himself
	if err := <-errs; err == nil {
		t.Error("no error")
	}
	if text, _ := os.ReadFile(tries); len(text) != 4 {
		t.Errorf("%d attempts after another dial, want 2", len(text)/2)
	}
}

// tellOf is a log that tells of messages that begin with a word.
type tellOf struct {
	word string
	told chan struct{}
}

func (h tellOf) Enabled(context.Context, slog.Level) bool { return true }
func (h tellOf) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h tellOf) WithGroup(string) slog.Handler            { return h }
func (h tellOf) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, h.word) {
		h.told <- struct{}{}
	}
	return nil
}
