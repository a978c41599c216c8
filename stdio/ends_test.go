package stdio

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// plainPipe is a pipe whose ends block, as a process has them for stdin and stdout.
func plainPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestCloseEndsAReadAndAWriteOfPlainPipes(t *testing.T) {
	in, feed := plainPipe(t)
	sink, out := plainPipe(t)
	p := newPipe(in, out)
	ended := make(chan error, 2)
	go func() { _, err := p.Read(make([]byte, 1)); ended <- err }()
	go func() { _, err := p.Write(make([]byte, 1<<20)); ended <- err }() // more than a pipe holds
	if _, err := io.ReadFull(sink, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.Close()
	for range 2 {
		select {
		case err := <-ended:
			if err != errClosed {
				t.Errorf("error %v, want that the link was closed", err)
			}
		case <-time.After(hang):
			t.Fatal("a read or a write goes on")
		}
	}
	if !p.wait() {
		t.Error("something was left behind")
	}
	if _, err := feed.Write([]byte{1}); err == nil {
		t.Error("our input is open still")
	}
	if n, err := io.Copy(io.Discard, sink); err != nil || n >= 1<<20 {
		t.Errorf("after the end %d bytes came, and %v", n, err)
	}
}

// writes keeps what was written, write by write.
type writes struct {
	mu  sync.Mutex
	all [][]byte
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, append([]byte(nil), b...))
	return len(b), nil
}

// Each write of the wire is a packet of ssh and a wake-up of every program on the way.
func TestAFrameIsOneWrite(t *testing.T) {
	w := &writes{}
	in, _ := io.Pipe()
	m, err := Client(in, w)
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, m)
	for range 10 {
		if _, err := c.Write([]byte("a request\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	m.Close()
	bodies := 0
	for _, b := range w.all {
		size := 0
		if b[1] == frameData {
			size = int(binary.BigEndian.Uint32(b[8:]))
		}
		if len(b) != 12+size {
			t.Fatalf("a write of %d bytes for a frame of %d: % x", len(b), 12+size, b)
		}
		bodies += btoi(size == 11)
	}
	if bodies != 10 {
		t.Errorf("%d of 10 requests went out", bodies)
	}
}

// BenchmarkEcho sends a byte over a link and gets it back from a daemon, over pipes as a front has them.
func BenchmarkEcho(b *testing.B) {
	dir := b.TempDir()
	l, err := net.Listen("unix", dir+"/s")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go io.Copy(onlyWriter{c}, onlyReader{c})
		}
	}()
	b.ReportAllocs()
	toFar, fromNear, _ := os.Pipe()
	toNear, fromFar, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	go Serve(b.Context(), toFar, fromFar, func(context.Context) (net.Conn, error) { return net.Dial("unix", dir+"/s") })
	m, err := Client(toNear, fromNear)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	c, err := m.Dial(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	key := []byte{'x'}
	for b.Loop() {
		if _, err := c.Write(key); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, key); err != nil {
			b.Fatal(err)
		}
	}
}
