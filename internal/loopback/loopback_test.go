package loopback

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A port that is taken in one family only is not half listened on.
func TestListenIsAllOrNothing(t *testing.T) {
	for _, f := range families {
		other, err := net.Listen(f.network, net.JoinHostPort(f.ip, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		port := other.Addr().(*net.TCPAddr).Port
		if l, err := Listen(port); !errors.Is(err, ErrTaken) {
			t.Errorf("%s taken: %v, %v", f.network, l, err)
		}
		for _, g := range families {
			if g == f {
				continue
			}
			free, err := net.Listen(g.network, net.JoinHostPort(g.ip, strconv.Itoa(port)))
			if err != nil {
				t.Errorf("%s is left taken: %v", g.network, err)
				continue
			}
			free.Close()
		}
		l, err := ListenNear(port)
		if err != nil || l.Port() == port || len(l.Addresses()) != 2 {
			t.Fatalf("near a taken port: %+v, %v", l, err)
		}
		l.Close()
	}
}

func TestListenerCloses(t *testing.T) {
	l, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Addresses()[0]) // accepted by nobody
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addresses()[1]); err == nil {
		t.Error("it still listens")
	}
}

func TestDialTriesBothFamilies(t *testing.T) {
	for n, f := range families {
		l, err := net.Listen(f.network, net.JoinHostPort(f.ip, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		var d Dialer
		for range 2 {
			c, err := d.Dial(t.Context(), port)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			if d.family(port) != n {
				t.Errorf("%s is not remembered", f.network)
			}
		}
		l.Close()
		if _, err := d.Dial(t.Context(), port); !errors.Is(err, ErrClosed) {
			t.Errorf("nothing listens: %v", err)
		}
	}
	if _, err := new(Dialer).Dial(t.Context(), 0); err == nil {
		t.Error("port 0 was dialled")
	}
}

// tcpPair is a connection of this machine with itself.
func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); b.Close() })
	return c.(*net.TCPConn), b
}

func TestSplice(t *testing.T) {
	near, a := tcpPair(t)
	b, far := tcpPair(t)
	done := make(chan struct{})
	go func() { Splice(a, b, io.MultiReader(strings.NewReader("ahead "), a), nil); close(done) }()
	io.WriteString(near, "and after")
	near.CloseWrite()
	if got, err := io.ReadAll(far); string(got) != "ahead and after" || err != nil {
		t.Errorf("there: %q, %v", got, err)
	}
	io.WriteString(far, "late") // the other direction still stands
	far.Close()
	if got, err := io.ReadAll(near); string(got) != "late" || err != nil {
		t.Errorf("here: %q, %v", got, err)
	}
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
}

// A transfer that broke is not taken for a whole one.
func TestSplicePassesAReset(t *testing.T) {
	near, a := tcpPair(t)
	b, far := tcpPair(t)
	done := make(chan struct{})
	go func() { Splice(a, b, nil, nil); close(done) }()
	io.WriteString(far, "half")
	if _, err := io.ReadFull(near, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	far.SetLinger(0)
	far.Close()
	if n, err := near.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read %d, %v, want a reset", n, err)
	}
	<-done
}
