package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
)

const (
	walHeader   = 32
	frameHeader = 24
	walMagic    = 0x377f0682 // with big-endian checksums it is one more
)

// walIndex is where in a write-ahead log each page was last committed to. It is kept between looks, so that one reads only what was added.
type walIndex struct {
	salt   [8]byte
	order  binary.ByteOrder
	sum    [2]uint32
	read   int // frames that were found good
	frames map[uint32]int64
	// committed is how many of them end in a commit; pending are the pages after that.
	committed int
	pending   map[uint32]int64
}

func walPageSize(wal *os.File) (uint32, error) {
	var head [walHeader]byte
	if _, err := wal.ReadAt(head[:], 0); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(head[8:]), nil
}

// follow takes the frames that were added. A log that began anew is read from its start.
func (x *walIndex) follow(wal *os.File, pageSize uint32) error {
	var head [walHeader]byte
	if _, err := wal.ReadAt(head[:], 0); err != nil {
		*x = walIndex{}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if x.order == nil || x.salt != [8]byte(head[16:24]) {
		if err := x.begin(head[:], pageSize); err != nil {
			return err
		}
	}
	buf := make([]byte, frameHeader+int(pageSize))
	for x.order != nil {
		at := walHeader + int64(x.read)*int64(len(buf))
		if _, err := wal.ReadAt(buf, at); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if !x.take(buf, at+frameHeader) {
			return nil
		}
	}
	return nil
}

func (x *walIndex) begin(head []byte, pageSize uint32) error {
	*x = walIndex{frames: map[uint32]int64{}, pending: map[uint32]int64{}}
	var order binary.ByteOrder
	switch binary.BigEndian.Uint32(head) {
	case walMagic:
		order = binary.LittleEndian
	case walMagic + 1:
		order = binary.BigEndian
	default:
		return nil // nothing was logged yet
	}
	if size := binary.BigEndian.Uint32(head[8:]); size != pageSize {
		return fmt.Errorf("%w: the log has pages of %d bytes, the database of %d", ErrFormat, size, pageSize)
	}
	sum := checksum(order, [2]uint32{}, head[:24])
	if sum[0] != binary.BigEndian.Uint32(head[24:]) || sum[1] != binary.BigEndian.Uint32(head[28:]) {
		return nil // being written
	}
	x.order, x.sum, x.salt = order, sum, [8]byte(head[16:24])
	return nil
}

// take reports whether a frame belongs to the log. What was left over from before the log began anew, or is half written, does not.
func (x *walIndex) take(frame []byte, at int64) bool {
	if [8]byte(frame[8:16]) != x.salt {
		return false
	}
	sum := checksum(x.order, x.sum, frame[:8])
	sum = checksum(x.order, sum, frame[frameHeader:])
	if sum[0] != binary.BigEndian.Uint32(frame[16:]) || sum[1] != binary.BigEndian.Uint32(frame[20:]) {
		return false
	}
	x.sum = sum
	x.read++
	x.pending[binary.BigEndian.Uint32(frame)] = at
	if binary.BigEndian.Uint32(frame[4:]) != 0 {
		maps.Copy(x.frames, x.pending)
		clear(x.pending)
		x.committed = x.read
	}
	return true
}

// checksum is SQLite's, over a multiple of 8 bytes.
func checksum(order binary.ByteOrder, s [2]uint32, b []byte) [2]uint32 {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}
