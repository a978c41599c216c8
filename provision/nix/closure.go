package nix

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
)

const (
	opQueryPathInfos = 2
	opDumpStorePath  = 3
	opQueryClosure   = 7
)

// PathInfo is what a store knows of one of its paths.
type PathInfo struct {
	Path       string
	Deriver    string
	References []string
	NarHash    string // sha256 of the archive, in hex
	NarSize    int64
	CA         string // how its content gives the path, or ""
	Sigs       []string
}

// Read greets nix-store --serve of a store that is only read from.
func Read(w io.Writer, r io.Reader) (*Session, error) {
	s := newSession(w, r)
	s.w.u64(clientMagic)
	s.w.u64(ourVersion)
	if err := s.w.flush(); err != nil {
		return nil, err
	}
	return s, s.greeting()
}

func newSession(w io.Writer, r io.Reader) *Session {
	count := &counter{w: w}
	return &Session{w: &writer{w: bufio.NewWriterSize(count, 64<<10)}, r: reader{bufio.NewReaderSize(r, 4<<10)}, count: count}
}

// Closure gives a path and everything that it refers to, with what is known of each, references first.
func (s *Session) Closure(path string) ([]PathInfo, error) {
	s.w.u64(opQueryClosure)
	s.w.boolean(false) // the outputs of derivations are not asked for
	s.w.list([]string{path})
	if err := s.w.flush(); err != nil {
		return nil, err
	}
	paths, err := s.r.list()
	if err != nil {
		return nil, fmt.Errorf("ask for the closure of %s: %w", path, err)
	}
	s.w.u64(opQueryPathInfos)
	s.w.list(paths)
	if err := s.w.flush(); err != nil {
		return nil, err
	}
	infos := map[string]PathInfo{}
	for {
		info, err := s.info()
		if err != nil {
			return nil, fmt.Errorf("ask for the paths of the closure: %w", err)
		}
		if info.Path == "" {
			break
		}
		infos[info.Path] = info
	}
	return referencesFirst(paths, infos)
}

func (s *Session) info() (p PathInfo, err error) {
	if p.Path, err = s.r.str(); err != nil || p.Path == "" {
		return p, err
	}
	if p.Deriver, err = s.r.str(); err != nil {
		return p, err
	}
	if p.References, err = s.r.list(); err != nil {
		return p, err
	}
	if _, err = s.r.u64(); err != nil { // the size of a download
		return p, err
	}
	size, err := s.r.u64()
	if err != nil {
		return p, err
	}
	p.NarSize = int64(size)
	hash, err := s.r.str()
	if err != nil {
		return p, err
	}
	if p.NarHash, err = hexHash(hash); err != nil {
		return p, err
	}
	if p.CA, err = s.r.str(); err != nil {
		return p, err
	}
	p.Sigs, err = s.r.list()
	return p, err
}

// hexHash takes sha256: and digits of base 16 or 32.
func hexHash(s string) (string, error) {
	digits, ok := strings.CutPrefix(s, "sha256:")
	if !ok {
		return "", fmt.Errorf("hash %q is not a sha256", s)
	}
	if len(digits) == 64 {
		_, err := hex.DecodeString(digits)
		return digits, err
	}
	raw, err := parseBase32(digits, 32)
	return hex.EncodeToString(raw), err
}

// parseBase32 undoes Base32 for a known number of bytes.
func parseBase32(s string, size int) ([]byte, error) {
	out := make([]byte, size)
	if len(s) != (size*8+4)/5 {
		return nil, fmt.Errorf("%q has not the length of %d bytes in base 32", s, size)
	}
	for n := range len(s) {
		v := strings.IndexByte(digits, s[len(s)-1-n])
		if v < 0 {
			return nil, fmt.Errorf("%q is not base 32", s)
		}
		i, shift := n*5/8, n*5%8
		out[i] |= byte(v << shift)
		if carry := v >> (8 - shift); i+1 < size {
			out[i+1] |= byte(carry)
		} else if carry != 0 {
			return nil, fmt.Errorf("%q is not the base 32 of %d bytes", s, size)
		}
	}
	return out, nil
}

// referencesFirst orders paths so that a store that takes one after the other never misses a reference.
func referencesFirst(paths []string, infos map[string]PathInfo) ([]PathInfo, error) {
	var out []PathInfo
	state := map[string]int{} // 1 is being visited, 2 is out
	var visit func(path string) error
	visit = func(path string) error {
		info, ok := infos[path]
		switch {
		case !ok:
			return fmt.Errorf("the store does not say what %s is", path)
		case state[path] == 2:
			return nil
		case state[path] == 1:
			return fmt.Errorf("%s refers to itself by way of others", path)
		}
		state[path] = 1
		for _, ref := range info.References {
			if ref == path {
				continue
			}
			if err := visit(ref); err != nil {
				return err
			}
		}
		state[path] = 2
		out = append(out, info)
		return nil
	}
	for _, path := range paths {
		if err := visit(path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Dump writes the archive of a path, which has size bytes.
func (s *Session) Dump(path string, size int64, w io.Writer) error {
	s.w.u64(opDumpStorePath)
	s.w.str(path)
	if err := s.w.flush(); err != nil {
		return err
	}
	n, err := io.CopyN(w, s.r.r, size)
	if err != nil {
		return fmt.Errorf("read the archive of %s: %d of %d bytes: %w", path, n, size, err)
	}
	return nil
}

// OpenAll is [Open] for several paths: it gives those that are valid. All are locked, whether they are there yet or not.
func OpenAll(w io.Writer, r io.Reader, paths []string) (*Session, []string, error) {
	s := newSession(w, r)
	s.w.u64(clientMagic)
	s.w.u64(ourVersion)
	sent := s.ask(paths)
	if err := s.greeting(); err != nil {
		return nil, nil, err
	}
	valid, err := s.answer(sent)
	return s, valid, err
}

// AddAll adds paths with what is known of them, which the store may refuse for want of a signature. archive writes the archive of one.
// Everything goes out in one stream while the answers are read beside it, so that a path costs no round trip. Failures are as
// with [Session.Add]; told gets the number of archive bytes handed over so far and may be nil.
func (s *Session) AddAll(infos []PathInfo, archive func(PathInfo, io.Writer) error, told func(int64)) error {
	written, answered := make(chan error, 1), make(chan error, 1)
	s.busy.Go(func() { written <- s.sendAll(infos, archive, told) })
	s.busy.Go(func() {
		for _, info := range infos {
			if err := s.done(); err != nil {
				answered <- fmt.Errorf("%s: %w", info.Path, err)
				return
			}
		}
		answered <- nil
	})
	return s.both(written, answered)
}

// both waits for the writer and the reader of an addition; the first failure ends it.
func (s *Session) both(written, answered <-chan error) error {
	var err error
	select {
	case err = <-answered:
	case err = <-written:
		if err == nil {
			err = <-answered
		} else if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
			err = errors.Join(io.ErrUnexpectedEOF, err)
		}
	}
	if err != nil {
		return fmt.Errorf("add the path: %w", err)
	}
	s.busy.Wait()
	return nil
}

func (s *Session) sendAll(infos []PathInfo, archive func(PathInfo, io.Writer) error, told func(int64)) error {
	var before int64
	for _, info := range infos {
		s.header(info)
		if err := s.w.flush(); err != nil {
			return err
		}
		exact := &counter{w: io.Writer(s.count)}
		err := archive(info, &teller{counter: exact, told: func(n int64) {
			if told != nil {
				told(before + n)
			}
		}})
		if err != nil {
			return err
		}
		if exact.n.Load() != info.NarSize {
			return fmt.Errorf("the archive of %s has %d bytes, not %d", info.Path, exact.n.Load(), info.NarSize)
		}
		before += info.NarSize
	}
	return nil
}

// header begins an addition; the archive follows.
func (s *Session) header(info PathInfo) {
	s.w.u64(opAddToStoreNar)
	s.w.str(info.Path)
	s.w.str(info.Deriver)
	s.w.str(info.NarHash)
	s.w.list(slices.Sorted(slices.Values(info.References)))
	s.w.u64(0) // registration time
	s.w.u64(uint64(info.NarSize))
	s.w.boolean(false) // ultimate
	s.w.list(info.Sigs)
	s.w.str(info.CA)
}
