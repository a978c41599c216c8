package stdio

import (
	"encoding/binary"
	"fmt"
	"io"
)

// guard reads yamux frames as they pass and stops at the first that neither of our ends would send: yamux answers a ping
// frame with a goroutine and keeps a stream for every SYN, which a hostile peer could use without bound.
type guard struct {
	io.ReadWriteCloser
	opens bool // the peer may open streams

	hdr  [12]byte
	have int    // bytes of hdr
	body uint32 // bytes of the frame's body to come
	err  error

	out []byte // a header whose body is the next write
}

const (
	frameData   = 0
	framePing   = 2
	frameGoAway = 3
	flagSYN     = 1
	maxFrame    = 1 << 20
)

func (g *guard) Read(b []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.ReadWriteCloser.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		if g.body > 0 {
			k := min(uint32(len(rest)), g.body)
			g.body -= k
			rest = rest[k:]
			continue
		}
		k := copy(g.hdr[g.have:], rest)
		g.have += k
		rest = rest[k:]
		if g.have == len(g.hdr) {
			g.have = 0
			if g.err = g.frame(); g.err != nil {
				return 0, g.err
			}
		}
	}
	return n, err
}

// Write holds the header of a frame until its body comes, which yamux writes right after: one write of the wire, and so one packet
// and one wake-up of every program on the way, in place of two.
func (g *guard) Write(b []byte) (int, error) {
	if len(g.out) == 0 && len(b) == len(g.hdr) && b[1] == frameData && binary.BigEndian.Uint32(b[8:]) > 0 {
		g.out = append(g.out, b...)
		return len(b), nil
	}
	if len(g.out) == 0 {
		return g.ReadWriteCloser.Write(b)
	}
	g.out = append(g.out, b...)
	_, err := g.ReadWriteCloser.Write(g.out)
	g.out = g.out[:0]
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (g *guard) frame() error {
	kind, flags, size := g.hdr[1], binary.BigEndian.Uint16(g.hdr[2:]), binary.BigEndian.Uint32(g.hdr[8:])
	switch {
	case g.hdr[0] != 0:
		return fmt.Errorf("read link: not a frame: % x", g.hdr)
	case kind > frameGoAway:
		return fmt.Errorf("read link: frame of unknown type %d", kind)
	case kind == framePing:
		return fmt.Errorf("read link: ping frame, which neither end sends")
	case flags&flagSYN != 0 && !g.opens:
		return fmt.Errorf("read link: the host opened a stream")
	case kind == frameData && size > maxFrame:
		return fmt.Errorf("read link: frame of %d bytes", size)
	case kind == frameData:
		g.body = size
	}
	return nil
}
