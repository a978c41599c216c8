package ssh

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"kolu/internal/fault"
)

// bastion is an sshd "h" that allows no session, and many hosts behind it, which are one sshd of their own: b0, b1 and so on. Those whose
// names begin with c are behind "second", which is the same bastion reached through the first.
func bastion(t *testing.T, many int) (s, far *site) {
	t.Helper()
	far = sshd(t, "MaxStartups 200")
	s = sshd(t, "MaxSessions 0\nMaxStartups 4:100:4")
	far.write("authorized", string(xssh.MarshalAuthorizedKey(s.signer.PublicKey())))
	known := ""
	for _, d := range []*site{s, far} {
		text, err := os.ReadFile(filepath.Join(d.dir, "known_hosts"))
		if err != nil {
			t.Fatal(err)
		}
		known += string(text)
	}
	s.write("known_hosts", known)
	s.host("second", &server{host: "127.0.0.1", port: s.port()})
	for n := range many {
		s.host(fmt.Sprintf("b%d", n), &server{host: "127.0.0.1", port: far.port()}, "ProxyJump h")
		s.host(fmt.Sprintf("c%d", n), &server{host: "127.0.0.1", port: far.port()}, "ProxyJump h,second")
	}
	return s, far
}

func (s *site) logins() int { return strings.Count(s.log.String(), "Accepted publickey") }

// All hosts behind a jump host go over one login there, which allows no session and drops the fifth handshake at once. A jump host that is
// reached through it is one login more.
func TestManyHostsBehindOneJump(t *testing.T) {
	const many = 16
	for _, kind := range []Kind{Master, Native} {
		t.Run(string(kind), func(t *testing.T) {
			s, far := bastion(t, many)
			o := s.options(kind)
			for round, prefix := range []string{"b", "c"} {
				conns := make([]*Conn, many)
				var work sync.WaitGroup
				for n := range many {
					work.Go(func() { conns[n] = dialOK(t, fmt.Sprintf("%s%d", prefix, n), o) })
				}
				work.Wait()
				if t.Failed() {
					return
				}
				for _, c := range conns {
					if out := output(t, c, "echo hi"); out != "hi\n" {
						t.Errorf("got %q", out)
					}
				}
				if near, there := s.logins(), far.logins(); near != round+1 || there != many*(round+1) {
					t.Errorf("round %d: %d logins at the jump host, %d behind it", round, near, there)
				}
			}
		})
	}
}

// A login at a jump host ends with the last connection through it, and one that broke is made again.
func TestJumpThatIsLetGo(t *testing.T) {
	s, _ := bastion(t, 3)
	o := s.options(Native)
	first, second := dialOK(t, "b0", o), dialOK(t, "b1", o)
	first.Close()
	if out := output(t, second, "echo hi"); out != "hi\n" {
		t.Errorf("got %q", out)
	}
	key := o.hopKey(Target{Host: "h"}, nil)
	h := hops.open[key]
	h.conn.client.Close()
	<-second.ended()
	if out := output(t, dialOK(t, "b2", o), "echo hi"); out != "hi\n" || s.logins() != 2 {
		t.Errorf("got %q after %d logins", out, s.logins())
	}
	second.Close()
	hops.mu.Lock()
	defer hops.mu.Unlock()
	if now := hops.open[key]; now == h || now == nil || now.users != 1 {
		t.Errorf("the pool has %+v", now)
	}
}

func (c *Conn) ended() <-chan struct{} {
	ended := make(chan struct{})
	go func() { c.client.Wait(); close(ended) }()
	return ended
}

// Of sixteen hosts behind a jump host that refuses the key each has the error with its own name, and once.
func TestJumpThatRefuses(t *testing.T) {
	for _, kind := range []Kind{Master, Native} {
		t.Run(string(kind), func(t *testing.T) {
			s, _ := bastion(t, 16)
			s.write("authorized", "")
			o := s.options(kind)
			var work sync.WaitGroup
			for n := range 16 {
				work.Go(func() {
					name := fmt.Sprintf("b%d", n)
					_, err := Dial(t.Context(), name, o)
					if !fault.Is(err, fault.Auth) || !strings.HasPrefix(err.Error(), name+": at the hop h: permission denied") {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			work.Wait()
		})
	}
}

// A master at a jump host whose line is dead is passed over.
func TestJumpThatDoesNotAnswer(t *testing.T) {
	s, _ := bastion(t, 2)
	cut := newCut(t, "127.0.0.1:"+s.port())
	s.host("through-cut", &server{host: "127.0.0.1", port: cut.port}, "HostKeyAlias [127.0.0.1]:"+s.port())
	s.host("b", &server{host: "127.0.0.1", port: s.behindPort(t)}, "ProxyJump through-cut")
	o := s.options(Master)
	dialOK(t, "b", o).Close()
	cut.hold()
	base, err := o.socketBase(Target{Host: "through-cut"})
	if err != nil {
		t.Fatal(err)
	}
	target, err := o.socketBase(Target{Host: "b"})
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(base+".0", old, old); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
	defer cancel()
	c, err := Dial(ctx, "b", o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, path := range []string{base + ".1", target + ".1"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// behindPort is the port of the hosts behind a bastion.
func (s *site) behindPort(t *testing.T) string {
	t.Helper()
	o := s.options(Master)
	r, err := Resolve(t.Context(), "b0", o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Port
}

// cut is a way to an address whose connections so far can be held up for good.
type cut struct {
	port string
	mu   sync.Mutex
	held chan struct{}
}

func newCut(t *testing.T, to string) *cut {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cut{held: make(chan struct{})}
	_, c.port, _ = net.SplitHostPort(l.Addr().String())
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			c.mu.Lock()
			held := c.held
			c.mu.Unlock()
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			go carry(near, far, held)
			go carry(far, near, held)
		}
	}()
	return c
}

// carry copies until its connection ends, and says nothing any more once it is held.
func carry(from, to net.Conn, held <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-held:
			return
		default:
		}
		if n > 0 {
			to.Write(buf[:n])
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

func (c *cut) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.held)
	c.held = make(chan struct{})
}
