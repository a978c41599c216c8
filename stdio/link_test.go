package stdio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// hang is only reached by a test that failed.
const hang = 20 * time.Second

// link starts both ends over pipes and gives the near one; ended gets what Serve returned.
func startLink(t *testing.T, dial func(context.Context) (net.Conn, error)) (m *Mux, ended <-chan error) {
	t.Helper()
	toFar, toNear := newWire()
	ch := make(chan error, 1)
	go func() { ch <- Serve(t.Context(), toFar.r, toNear.w, dial) }()
	m, err := Client(toNear.r, toFar.w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, ch
}

type wire struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newWire() (a, b wire) {
	a.r, a.w = io.Pipe()
	b.r, b.w = io.Pipe()
	return a, b
}

// daemon listens on a unix socket and gives each connection to serve.
func daemon(t *testing.T, serve func(*net.UnixConn)) func(context.Context) (net.Conn, error) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); serve(c.(*net.UnixConn)) })
		}
	})
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

func open(t *testing.T, m *Mux) net.Conn {
	t.Helper()
	c, err := m.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(hang))
	return c
}

func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

func TestHalfCloseReachesTheDaemon(t *testing.T) {
	m, _ := startLink(t, daemon(t, func(c *net.UnixConn) {
		all, _ := io.ReadAll(c) // ends only with the half-close
		fmt.Fprintf(c, "%d bytes", len(all))
	}))
	c := open(t, m)
	defer c.Close()
	if _, err := c.Write(bytes.Repeat([]byte("x"), 3<<20)); err != nil {
		t.Fatal(err)
	}
	closeWrite(t, c)
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "3145728 bytes" {
		t.Errorf("answer %q, %v", got, err)
	}
}

func TestManyConnections(t *testing.T) {
	m, _ := startLink(t, daemon(t, func(c *net.UnixConn) { io.Copy(c, c) }))
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			c := open(t, m)
			defer c.Close()
			want := strings.Repeat(fmt.Sprintf("line %d\n", i), 5000)
			go func() { io.WriteString(c, want); c.(*stream).CloseWrite() }()
			got, err := io.ReadAll(c)
			if err != nil || string(got) != want {
				t.Errorf("connection %d: %d bytes of %d, %v", i, len(got), len(want), err)
			}
		})
	}
	wg.Wait()
	if sent, received := m.Bytes(); sent == 0 || received == 0 {
		t.Errorf("counted %d sent, %d received", sent, received)
	}
}

func TestDaemonThatCannotBeDialled(t *testing.T) {
	m, _ := startLink(t, func(context.Context) (net.Conn, error) { return nil, errors.New("connect padi.sock: refused") })
	c := open(t, m)
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	_, err := c.Read(make([]byte, 10))
	var d *DialError
	if !errors.As(err, &d) || !strings.Contains(d.Detail, "padi.sock: refused") {
		t.Errorf("error %v, want a DialError with the reason", err)
	}
	if m.Err() != nil {
		t.Errorf("the link died with it: %v", m.Err())
	}
}

func TestDaemonThatEnds(t *testing.T) {
	m, _ := startLink(t, daemon(t, func(c *net.UnixConn) { io.WriteString(c, "bye") }))
	c := open(t, m)
	got, err := io.ReadAll(c) // though our direction is still open
	if err != nil || string(got) != "bye" {
		t.Errorf("read %q, %v", got, err)
	}
	c.Close()
}

func TestServeEndsWithItsInput(t *testing.T) {
	held := make(chan struct{})
	m, ended := startLink(t, daemon(t, func(c *net.UnixConn) {
		io.WriteString(c, "!")
		io.Copy(io.Discard, c)
		close(held)
	}))
	c := open(t, m)
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // a link that ends at once may never have reached the daemon
		t.Fatal(err)
	}
	start := time.Now()
	m.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("serve: %v", err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("serve took %s to end", took)
		}
	case <-time.After(hang):
		t.Fatal("serve goes on without input")
	}
	<-held // the daemon saw its connection end
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrLink) {
		t.Errorf("read after the link ended: %v, want ErrLink", err)
	}
}

// A plain stdin has reads that no Close interrupts.
func TestServeEndsThoughItsInputIsStuck(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stuck := stuckReader{make(chan struct{})}
	defer close(stuck.c)
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, stuck, io.Discard, nil) }()
	cancel()
	select {
	case <-ended:
	case <-time.After(hang):
		t.Fatal("serve waits for a read that never ends")
	}
}

type stuckReader struct{ c chan struct{} }

func (s stuckReader) Read([]byte) (int, error) { <-s.c; return 0, io.EOF }

func TestCloseEndsABlockedRead(t *testing.T) {
	m, _ := startLink(t, daemon(t, func(c *net.UnixConn) { io.Copy(io.Discard, c) }))
	c := open(t, m)
	got := make(chan error, 1)
	go func() { _, err := c.Read(make([]byte, 1)); got <- err }()
	m.Close()
	select {
	case err := <-got:
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("error %v: the end of a link looks like the end of the data", err)
		}
	case <-time.After(hang):
		t.Fatal("read hangs after Close")
	}
}

func TestHostilePeers(t *testing.T) {
	frame := func(kind byte, flags uint16, id, size uint32) []byte {
		b := []byte{0, kind}
		b = binary.BigEndian.AppendUint16(b, flags)
		b = binary.BigEndian.AppendUint32(b, id)
		return binary.BigEndian.AppendUint32(b, size)
	}
	for name, bytes := range map[string][]byte{
		"ping":             frame(framePing, flagSYN, 0, 1),
		"unknown type":     frame(9, 0, 1, 0),
		"other version":    append([]byte{1}, frame(0, 0, 1, 0)[1:]...),
		"opens a stream":   frame(1, flagSYN, 2, 0),
		"frame too long":   frame(frameData, 0, 1, 1<<30),
		"more than window": append(frame(frameData, 0, 1, streamWindow), make([]byte, streamWindow)...),
		"goodbye":          frame(frameGoAway, 0, 0, 1),
		"text":             []byte("Connection to host closed.\n"),
		"fin twice":        append(frame(1, 4, 1, 0), frame(1, 4, 1, 0)...),
	} {
		t.Run(name, func(t *testing.T) {
			in, out := io.Pipe()
			m, err := Client(in, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			for range 2 {
				if _, err := out.Write(bytes); err != nil {
					break
				}
			}
			select {
			case <-m.Done():
			case <-time.After(hang):
				t.Fatal("the link goes on")
			}
			if m.Err() == nil {
				t.Error("no reason given")
			}
			if _, err := m.Dial(t.Context()); !errors.Is(err, ErrLink) {
				t.Errorf("dial: %v, want ErrLink", err)
			}
		})
	}
}

func TestTenThousandOpens(t *testing.T) {
	toFar, toNear := newWire()
	go io.Copy(io.Discard, toNear.r)
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(t.Context(), toFar.r, toNear.w, func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}()
	for i := range uint32(10_000) {
		b := []byte{0, 1, 0, flagSYN}
		b = binary.BigEndian.AppendUint32(b, 2*i+1)
		if _, err := toFar.w.Write(binary.BigEndian.AppendUint32(b, 0)); err != nil {
			t.Fatal(err)
		}
	}
	toFar.w.Close()
	select {
	case <-ended:
	case <-time.After(hang):
		t.Fatal("serve does not end")
	}
}

// quick makes the limits short; nothing here asserts that something was fast.
var quick = patience{tick: 5 * time.Millisecond, quiet: 20 * time.Millisecond, answer: 100 * time.Millisecond,
	busy: 200 * time.Millisecond, wake: time.Hour, front: 200 * time.Millisecond}

func TestSilentPeerIsDead(t *testing.T) {
	in, _ := io.Pipe()
	m, err := client(in, io.Discard, quick)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	select {
	case <-m.Done():
	case <-time.After(hang):
		t.Fatal("a peer that never says anything counts as alive")
	}
	if m.Err() == nil || !strings.Contains(m.Err().Error(), "nothing came") {
		t.Errorf("reason %v", m.Err())
	}
}

// A quiet link lives because the far end answers, and a far end that hears nothing leaves.
func TestQuietLinkLives(t *testing.T) {
	toFar, toNear := newWire()
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), toFar.r, toNear.w, nil, quick) }()
	var asked counter
	slow := quick
	slow.answer = hang // on a busy machine an answer may take long; that is not what is tested
	m, err := client(toNear.r, io.MultiWriter(toFar.w, &asked), slow)
	if err != nil {
		t.Fatal(err)
	}
	for asked.load() < 20*13 {
		select {
		case <-m.Done():
			t.Fatalf("a quiet link died: %v", m.Err())
		case <-time.After(time.Millisecond):
		}
	}
	if m.RTT() <= 0 {
		t.Error("no round trip measured")
	}
	m.Close()
	toFar.w.Close()
	<-ended
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += len(b)
	return len(b), nil
}
func (c *counter) load() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

func TestFrontLeavesWhenNobodyAsks(t *testing.T) {
	toFar, toNear := newWire()
	go io.Copy(io.Discard, toNear.r)
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), toFar.r, toNear.w, nil, quick) }()
	b := binary.BigEndian.AppendUint32([]byte{0, 1, 0, flagSYN}, 1)
	toFar.w.Write(binary.BigEndian.AppendUint32(b, 0))
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no reason given")
		}
	case <-time.After(hang):
		t.Fatal("the front stays for ever")
	}
}

// A flood on one connection does not keep another one waiting for more than a few frames.
func TestKeystrokeBesideBulk(t *testing.T) {
	m, _ := startLink(t, daemon(t, func(c *net.UnixConn) { io.Copy(c, c) }))
	bulk := open(t, m)
	defer bulk.Close()
	go io.Copy(io.Discard, bulk)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		block := make([]byte, 4<<20)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := bulk.Write(block); err != nil {
					return
				}
			}
		}
	})
	key := open(t, m)
	defer key.Close()
	b := []byte{0}
	for i := range 50 {
		b[0] = byte(i)
		key.Write(b)
		if _, err := io.ReadFull(key, b); err != nil || b[0] != byte(i) {
			t.Fatalf("echo %d: %v", i, err)
		}
	}
	close(stop)
	bulk.Close()
	wg.Wait()
}

// Readers that stopped keep nobody else waiting, however many they are.
func TestStoppedReadersHoldNobodyUp(t *testing.T) {
	const stopped, wanted = 40, 8 << 20
	m, _ := startLink(t, daemon(t, func(c *net.UnixConn) {
		var ask [1]byte
		if _, err := io.ReadFull(c, ask[:]); err != nil {
			return
		}
		block := make([]byte, 64<<10)
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}))
	for range stopped {
		c := open(t, m)
		defer c.Close()
		c.Write([]byte{'.'})
		if _, err := io.CopyN(io.Discard, c, 1); err != nil { // it flows, and nobody reads on
			t.Fatal(err)
		}
	}
	for range 3 {
		c := open(t, m)
		c.Write([]byte{'.'})
		if n, err := io.CopyN(io.Discard, c, wanted); err != nil {
			t.Fatalf("after %d of %d bytes: %v", n, wanted, err)
		}
		c.Close()
	}
}
