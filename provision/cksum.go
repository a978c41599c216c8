package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strconv"
)

// sha256 is the sum of the first n bytes of the file, in hex.
func (b Build) sha256(n int64) (string, error) {
	h := sha256.New()
	err := b.read(n, h)
	return hex.EncodeToString(h.Sum(nil)), err
}

// cksum is the checksum of the first n bytes of the file by the POSIX tool of that name, in its decimal form: what a host without any
// sha256 tool can say. It finds damage; that nobody else sent the bytes is the link's part.
func (b Build) cksum(n int64) (string, error) {
	c := crcSum{table: cksumTable()}
	err := b.read(n, &c)
	return c.String(), err
}

func (b Build) read(n int64, w io.Writer) error {
	f, err := os.Open(b.File)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(w, f, n)
	return err
}

type crcSum struct {
	table [256]uint32
	crc   uint32
	size  uint64
}

func (c *crcSum) Write(p []byte) (int, error) {
	for _, b := range p {
		c.crc = c.crc<<8 ^ c.table[byte(c.crc>>24)^b]
	}
	c.size += uint64(len(p))
	return len(p), nil
}

// String is the sum with the size folded in.
func (c *crcSum) String() string {
	crc := c.crc
	for size := c.size; size > 0; size >>= 8 {
		crc = crc<<8 ^ c.table[byte(crc>>24)^byte(size)]
	}
	return strconv.FormatUint(uint64(^crc), 10)
}

func cksumTable() (t [256]uint32) {
	for i := range t {
		c := uint32(i) << 24
		for range 8 {
			if c&(1<<31) != 0 {
				c = c<<1 ^ 0x04c11db7
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}
