package padirpc_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/daemon/padi"
)

// counter answers, at the end of its input, how much that was.
func counter(t *testing.T, network, address string) int {
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
			work.Go(func() {
				defer c.Close()
				n, _ := io.Copy(io.Discard, c)
				fmt.Fprintf(c, "got %d", n)
			})
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestForward(t *testing.T) {
	c := client(t, daemon.Unix(serve(t, &told{})))
	for _, family := range []struct{ network, address string }{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}} {
		port := counter(t, family.network, family.address)
		for range 2 {
			conn, err := c.Forward(t.Context(), port)
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(30 * time.Second))
			if got := conn.RemoteAddr().(*net.TCPAddr).Port; got != port || conn.LocalAddr().(*net.TCPAddr).Port == 0 {
				t.Errorf("from %s to %s", conn.LocalAddr(), conn.RemoteAddr())
			}
			go func() { conn.Write(make([]byte, 1<<20)); conn.(interface{ CloseWrite() error }).CloseWrite() }()
			if got, err := io.ReadAll(conn); string(got) != "got 1048576" || err != nil {
				t.Errorf("%s: %q, %v", family.network, got, err)
			}
			conn.Close()
		}
	}
}

func TestForwardRefused(t *testing.T) {
	c := client(t, daemon.Unix(serve(t, &told{})))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = c.Forward(t.Context(), l.Addr().(*net.TCPAddr).Port)
	if !errors.Is(err, padi.ErrPortClosed) || !strings.HasPrefix(err.Error(), "nothing listens on the port ") {
		t.Errorf("nothing listens: %v", err)
	}
	for _, port := range []int{0, -1, 70000} {
		if _, err := c.Forward(t.Context(), port); err == nil || padi.Code(err) != "invalid" {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

func TestForwardByAnOlderPadi(t *testing.T) {
	socket := filepath.Join(filepath.Dir(serve(t, &told{})), "old.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NewServeMux()}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	if _, err := client(t, daemon.Unix(socket)).Forward(t.Context(), 80); !errors.Is(err, padi.ErrNoForward) {
		t.Errorf("error %v", err)
	}
}
