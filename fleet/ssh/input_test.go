package ssh

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

// gate is a channel whose writes wait until it is opened.
type gate struct {
	open   chan struct{}
	ended  chan struct{}
	mu     sync.Mutex
	writes int
	got    bytes.Buffer
	err    error
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes++
	if g.err != nil {
		return 0, g.err
	}
	return g.got.Write(b)
}

func (g *gate) CloseWrite() error { close(g.ended); return nil }

func newGate(err error) (*gate, *input) {
	g := &gate{open: make(chan struct{}), ended: make(chan struct{}), err: err}
	in := &input{dst: g}
	in.moved.L = &in.mu
	return g, in
}

func TestInputGathersWhileTheLineIsBusy(t *testing.T) {
	g, in := newGate(nil)
	go in.run()
	var want strings.Builder
	for range 100 {
		want.WriteString("0123456789")
		if n, err := io.WriteString(in, "0123456789"); n != 10 || err != nil {
			t.Fatal(n, err)
		}
	}
	in.Close()
	close(g.open)
	<-g.ended
	if g.got.String() != want.String() {
		t.Errorf("%d bytes arrived of %d", g.got.Len(), want.Len())
	}
	if g.writes > 2 {
		t.Errorf("%d writes for what waited", g.writes)
	}
	if _, err := io.WriteString(in, "x"); err == nil {
		t.Error("a write after Close was taken")
	}
}

func TestInputHoldsWritersBack(t *testing.T) {
	g, in := newGate(nil)
	go in.run()
	done := make(chan error, 1)
	go func() { _, err := in.Write(make([]byte, 10*gather)); done <- err }()
	close(g.open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	in.Close()
	<-g.ended
	if g.got.Len() != 10*gather {
		t.Errorf("%d bytes arrived", g.got.Len())
	}
}

func TestInputTellsWhatBroke(t *testing.T) {
	broken := errors.New("broken")
	g, in := newGate(broken)
	close(g.open)
	ended := make(chan struct{})
	go func() { in.run(); close(ended) }()
	io.WriteString(in, "x")
	<-ended
	if _, err := io.WriteString(in, "y"); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
