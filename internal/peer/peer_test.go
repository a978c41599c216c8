package peer

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Both ends of a connection within this process are this user's; a closed one has no peer.
func TestUID(t *testing.T) {
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
	near, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for name, c := range map[string]net.Conn{"near": near, "far": far} {
		if got, err := UID(c.(*net.UnixConn)); got != os.Getuid() || err != nil {
			t.Errorf("%s: user %d, %v", name, got, err)
		}
	}
	near.Close()
	if got, err := UID(near.(*net.UnixConn)); err == nil {
		t.Errorf("a closed connection has user %d", got)
	}
}
