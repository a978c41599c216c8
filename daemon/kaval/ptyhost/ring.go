package ptyhost

// ringSize is how much recent output, in bytes, a terminal keeps for its readers.
const ringSize = 1 << 20

// ring keeps the last bytes of a stream, each with its offset. It starts empty and grows with what it is given, so an idle
// terminal costs nothing. Byte n of the stream is at buf[n mod len(buf)].
type ring struct {
	buf  []byte
	end  int64 // offset after the last byte
	held int   // how many bytes before end are kept
}

// start is the offset of the oldest byte that is kept.
func (r *ring) start() int64 { return r.end - int64(r.held) }

func (r *ring) append(p []byte) {
	if skip := len(p) - ringSize; skip > 0 {
		r.end += int64(skip)
		r.held = 0
		p = p[skip:]
	}
	r.grow(r.held + len(p))
	for len(p) > 0 {
		n := copy(r.buf[int(r.end%int64(len(r.buf))):], p)
		p = p[n:]
		r.end += int64(n)
		r.held = min(r.held+n, len(r.buf))
	}
}

// grow makes room for need bytes, up to the size of a full ring.
func (r *ring) grow(need int) {
	size := max(len(r.buf), 4<<10)
	for size < need && size < ringSize {
		size *= 2
	}
	if size == len(r.buf) {
		return
	}
	kept := r.read(r.start(), r.held)
	r.buf = make([]byte, size)
	at := r.end - int64(len(kept))
	for len(kept) > 0 {
		n := copy(r.buf[int(at%int64(size)):], kept)
		kept = kept[n:]
		at += int64(n)
	}
}

// read gives a copy of at most limit bytes from the offset on, which must not be before start.
func (r *ring) read(from int64, limit int) []byte {
	n := min(int(r.end-from), limit)
	if n <= 0 {
		return nil
	}
	out := make([]byte, 0, n)
	for len(out) < n {
		at := int((from + int64(len(out))) % int64(len(r.buf)))
		out = append(out, r.buf[at:min(len(r.buf), at+n-len(out))]...)
	}
	return out
}
