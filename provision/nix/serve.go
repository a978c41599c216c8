package nix

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	clientMagic = 0x390c9deb
	serverMagic = 0x5452eecb
	// ourVersion is the newest version of the protocol that we speak, and minVersion the first that has AddToStoreNar.
	ourVersion = 0x207
	minVersion = 0x205

	opQueryValidPaths = 1
	opAddToStoreNar   = 9

	// MaxNoise is how much a login shell may print before the server's first word.
	MaxNoise = 64 << 10
)

// ErrNotServe reports that the other side is no nix-store --serve, or one too old to take archives.
var ErrNotServe = errors.New("the far side does not speak the nix-store protocol")

// Session is one conversation with nix-store --serve --write. Nothing in it may be called concurrently. It holds no
// connection of its own: whoever owns the streams ends it by closing them.
//
// The server says why it fails on its stderr alone and then ends: an error of any method here that wraps io.EOF or
// io.ErrUnexpectedEOF means "look at stderr".
type Session struct {
	w     *writer
	r     reader
	count *counter
	busy  sync.WaitGroup
}

// Open greets the server and asks in the same breath whether a path is valid, so both cost one round trip. With the answer comes
// a lock: until the server ends, the collector keeps the path, whether it is there yet or not.
func Open(w io.Writer, r io.Reader, path string) (s *Session, valid bool, err error) {
	s, paths, err := OpenAll(w, r, []string{path})
	return s, slices.Contains(paths, path), err
}

// Sent counts the bytes written so far.
func (s *Session) Sent() int64 { return s.count.n.Load() }

func (s *Session) greeting() error {
	if err := skipTo(s.r.r, serverMagic); err != nil {
		return fmt.Errorf("wait for the greeting of nix-store: %w", err)
	}
	version, err := s.r.u64()
	if err != nil {
		return fmt.Errorf("read the version of nix-store: %w", err)
	}
	if version>>8 != ourVersion>>8 || version < minVersion {
		return fmt.Errorf("%w: it speaks version %d.%d", ErrNotServe, version>>8, version&0xff)
	}
	return nil
}

// skipTo reads up to and including the eight bytes of magic.
func skipTo(r *bufio.Reader, magic uint64) error {
	want := binary.LittleEndian.AppendUint64(nil, magic)
	var window []byte
	for range MaxNoise {
		b, err := r.ReadByte()
		if err != nil {
			if len(window) > 0 {
				return errors.Join(ErrNotServe, io.ErrUnexpectedEOF)
			}
			return err
		}
		window = append(window, b)
		if len(window) > len(want) {
			window = window[1:]
		}
		if bytes.Equal(window, want) {
			return nil
		}
	}
	return fmt.Errorf("%w: %d bytes of something else came", ErrNotServe, MaxNoise)
}

// ask sends the question in the background: over a dead connection a write may never return.
func (s *Session) ask(paths []string) (sent chan error) {
	s.w.u64(opQueryValidPaths)
	s.w.boolean(true)  // lock
	s.w.boolean(false) // substitute: never wait for caches of the host's
	s.w.list(paths)
	sent = make(chan error, 1)
	s.busy.Go(func() { sent <- s.w.flush() })
	return sent
}

func (s *Session) answer(sent chan error) ([]string, error) {
	valid, err := s.r.list()
	if err != nil {
		return nil, fmt.Errorf("ask whether the path is valid: %w", err)
	}
	return valid, <-sent
}

// Valid asks whether a path is in the store, and locks it.
func (s *Session) Valid(path string) (bool, error) {
	valid, err := s.answer(s.ask([]string{path}))
	return slices.Contains(valid, path), err
}

// Add adds a tree under the path that its content gives it (see [SourcePath]): no signature is needed for it and no trust.
// told gets the number of archive bytes handed over so far; it may be nil.
//
// The far side may end at any byte, for a reason that is on its stderr, and the file here may turn out unreadable: writing and
// waiting go on side by side, and the first that fails ends Add. The other one may then still be at work: the owner of the
// streams closes them and calls [Session.Settle].
func (s *Session) Add(path, narHash string, narSize int64, root Node, told func(int64)) error {
	ca, err := ContentAddress(narHash)
	if err != nil {
		return err
	}
	written, answered := make(chan error, 1), make(chan error, 1)
	s.busy.Go(func() { written <- s.send(path, narHash, ca, narSize, root, told) })
	s.busy.Go(func() { answered <- s.done() })
	return s.both(written, answered)
}

// Settle waits for what a failed Add left at work, at most for d. The streams must be closed before; over a dead connection
// they may let go only when that ends.
func (s *Session) Settle(d time.Duration) {
	settled := make(chan struct{})
	go func() { s.busy.Wait(); close(settled) }()
	select {
	case <-settled:
	case <-time.After(d):
	}
}

func (s *Session) done() error {
	switch ok, err := s.r.u64(); {
	case err != nil:
		return err
	case ok != 1:
		return fmt.Errorf("nix-store answered %d", ok)
	}
	return nil
}

func (s *Session) send(path, narHash, ca string, narSize int64, root Node, told func(int64)) error {
	s.header(PathInfo{Path: path, NarHash: narHash, NarSize: narSize, CA: ca})
	if err := s.w.flush(); err != nil {
		return err
	}
	exact := &counter{w: io.Writer(s.count)}
	if err := WriteNAR(&teller{counter: exact, told: told}, root); err != nil {
		return err
	}
	if exact.n.Load() != narSize {
		return fmt.Errorf("the archive has %d bytes, not %d", exact.n.Load(), narSize)
	}
	return nil
}

type teller struct {
	*counter
	told func(int64)
}

func (t *teller) Write(p []byte) (int, error) {
	n, err := t.counter.Write(p)
	if t.told != nil {
		t.told(t.n.Load())
	}
	return n, err
}
