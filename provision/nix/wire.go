package nix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxString bounds what a peer may make us hold.
const maxString = 64 << 10

type writer struct {
	w   *bufio.Writer
	err error
}

func (w *writer) raw(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

func (w *writer) u64(n uint64) { w.raw(binary.LittleEndian.AppendUint64(nil, n)) }

func (w *writer) boolean(b bool) {
	if b {
		w.u64(1)
		return
	}
	w.u64(0)
}

func (w *writer) str(s string) {
	w.u64(uint64(len(s)))
	w.raw([]byte(s))
	w.pad(int64(len(s)))
}

func (w *writer) pad(n int64) { w.raw(make([]byte, padding(n))) }

func (w *writer) strs(list ...string) {
	for _, s := range list {
		w.str(s)
	}
}

func (w *writer) list(list []string) {
	w.u64(uint64(len(list)))
	w.strs(list...)
}

func (w *writer) flush() error {
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

func padding(n int64) int64 { return (8 - n%8) % 8 }

type reader struct {
	r *bufio.Reader
}

func (r reader) u64() (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(r.r, b[:]); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

func (r reader) str() (string, error) {
	n, err := r.u64()
	if err != nil {
		return "", err
	}
	if n > maxString {
		return "", fmt.Errorf("string of %d bytes: too long", n)
	}
	b := make([]byte, int64(n)+padding(int64(n)))
	if _, err := io.ReadFull(r.r, b); err != nil {
		return "", err
	}
	for _, pad := range b[n:] {
		if pad != 0 {
			return "", errors.New("string with other padding than zeros")
		}
	}
	return string(b[:n]), nil
}

func (r reader) list() ([]string, error) {
	n, err := r.u64()
	if err != nil {
		return nil, err
	}
	if n > maxString/8 {
		return nil, fmt.Errorf("list of %d items: too long", n)
	}
	var list []string
	for range n {
		s, err := r.str()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}
