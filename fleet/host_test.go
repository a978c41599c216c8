package fleet

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"kolu/provision"
	"kolu/stdio"
)

// TestMain lets the test program be the front of a host: `TEST front NONCE SOCKET BANNER`.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "front" {
		var b stdio.Banner
		err := json.Unmarshal([]byte(os.Args[4]), &b)
		if err == nil {
			err = stdio.WriteBanner(os.Stdout, os.Args[2], b)
		}
		if err == nil && b.Verdict == stdio.Ready {
			err = stdio.Serve(context.Background(), os.Stdin, os.Stdout, func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", os.Args[3])
			})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// host is a machine that an sshd in this process pretends to be: it runs commands with shell in a home of its own.
type host struct {
	t     *testing.T
	dir   string
	shell func(line string) *exec.Cmd
	drop  atomic.Int32 // so many connections are dropped before the handshake, counted from the first
	shut  atomic.Int32 // so many sessions are closed before they are told what to run, counted from the first
	opens atomic.Int32 // sessions
	up    sync.Once
	noKey bool // the user's key is refused
	conns atomic.Int32
	execs atomic.Int32
	dials atomic.Int32 // of the daemon's socket
}

func newHost(t *testing.T) *host {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &host{t: t, dir: dir}
	h.shell = func(line string) *exec.Cmd { return exec.Command("/bin/sh", "-c", line) }
	h.daemon()
	return h
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) write(name, text string, mode os.FileMode) {
	h.t.Helper()
	name = filepath.Join(h.dir, name)
	h.must(os.MkdirAll(filepath.Dir(name), 0o700))
	h.must(os.WriteFile(name, []byte(text), mode))
}

// daemon is a socket that sends back what it gets.
func (h *host) daemon() {
	l, err := net.Listen("unix", filepath.Join(h.dir, "padi.sock"))
	h.must(err)
	var wg sync.WaitGroup
	h.t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.dials.Add(1)
			wg.Go(func() { defer c.Close(); io.Copy(c, c) })
		}
	})
}

func (h *host) listen() {
	_, hostKey, err := ed25519.GenerateKey(rand.Reader)
	h.must(err)
	hostSigner, err := xssh.NewSignerFromKey(hostKey)
	h.must(err)
	_, userKey, err := ed25519.GenerateKey(rand.Reader)
	h.must(err)
	block, err := xssh.MarshalPrivateKey(userKey, "")
	h.must(err)
	h.write("key", string(pem.EncodeToMemory(block)), 0o600)
	conf := &xssh.ServerConfig{PublicKeyCallback: func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
		if h.noKey {
			return nil, fmt.Errorf("no")
		}
		return nil, nil
	}}
	conf.AddHostKey(hostSigner)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	h.must(err)
	name, port, _ := net.SplitHostPort(l.Addr().String())
	h.write("known_hosts", "box "+string(xssh.MarshalAuthorizedKey(hostSigner.PublicKey())), 0o600)
	h.write("config", fmt.Sprintf("Host box\n HostName %s\n Port %s\n HostKeyAlias box\n IdentityFile %s/key\n IdentityAgent none\n UserKnownHostsFile %s/known_hosts\n GlobalKnownHostsFile none\n",
		name, port, h.dir, h.dir), 0o600)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	h.t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); h.serve(c, conf) })
		}
	})
}

func (h *host) serve(c net.Conn, conf *xssh.ServerConfig) {
	if n := h.conns.Add(1); n <= h.drop.Load() {
		return
	}
	conn, chans, reqs, err := xssh.NewServerConn(c, conf)
	if err != nil {
		return
	}
	defer conn.Close()
	go xssh.DiscardRequests(reqs)
	var wg sync.WaitGroup
	defer wg.Wait()
	for nc := range chans {
		if ch, reqs, err := nc.Accept(); err == nil {
			if h.opens.Add(1) <= h.shut.Load() {
				ch.Close()
				continue
			}
			wg.Go(func() { h.session(ch, reqs) })
		}
	}
}

func (h *host) session(ch xssh.Channel, reqs <-chan *xssh.Request) {
	for r := range reqs {
		if r.Type != "exec" {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		var m struct{ Command string }
		xssh.Unmarshal(r.Payload, &m)
		h.execs.Add(1)
		h.run(ch, m.Command)
	}
}

func (h *host) run(ch xssh.Channel, line string) {
	cmd := h.shell(line)
	cmd.Env = []string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH"), "USER=u"}
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		ch.Close()
		return
	}
	go func() { io.Copy(in, ch); in.Close() }()
	go func() {
		cmd.Wait()
		ch.SendRequest("exit-status", false, xssh.Marshal(struct{ N uint32 }{uint32(cmd.ProcessState.ExitCode())}))
		ch.Close()
	}()
}

// place puts a build there whose padi says banner; script, if any, runs in its place.
func (h *host) place(b stdio.Banner, script string) {
	self, err := os.Executable()
	h.must(err)
	text, err := json.Marshal(b)
	h.must(err)
	if script == "" {
		script = fmt.Sprintf(`exec %s front "$3" %s/padi.sock '%s'`, self, h.dir, text)
	}
	bin := filepath.Join(".local/share/kolu/builds", sum[:32], "bin")
	h.write(filepath.Join(bin, "padi"), "#!/bin/sh\n"+script+"\n", 0o700)
	for _, name := range []string{"kolu", "pulam-tui"} {
		h.write(filepath.Join(bin, name), "#!/bin/sh\n", 0o700)
	}
}

// endMasters ends the ssh masters that were started for this host.
func (h *host) endMasters() {
	sockets, _ := filepath.Glob(filepath.Join(h.dir, "kolu-ssh", "*.[0-9]"))
	for _, s := range sockets {
		if out, err := exec.Command("ssh", "-F", "none", "-S", s, "-O", "exit", "box").CombinedOutput(); err != nil {
			h.t.Errorf("end the master %s: %v %s", s, err, out)
		}
	}
}

var sum = strings.Repeat("0123456789abcdef", 4)

// options dial the host as "box", with a catalog whose one build is for this machine's system. The host is up from the first
// call on, and its fields are not changed any more.
func (h *host) options() Options {
	h.t.Helper()
	h.up.Do(h.listen)
	system := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-" + runtime.GOOS
	h.write("agents/f", "x", 0o700)
	h.write("agents/"+provision.ManifestName, fmt.Sprintf(`{"version":"0.1.0","builds":[{"system":%q,"file":"f","size":1,"sha256":%q,"narHash":%q,"narSize":500}]}`,
		system, sum, sum), 0o600)
	env := []string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + h.dir, "XDG_CACHE_HOME=" + h.dir, provision.AgentsVar + "=" + h.dir + "/agents"}
	return Options{Transport: "native", ConfigFile: filepath.Join(h.dir, "config"), Env: env, Contract: "1.0"}
}
