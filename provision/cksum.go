package provision

import (
	"io"
	"os"
	"strconv"
)

// cksum is the checksum of the POSIX tool of that name, in its decimal form: what a host without any sha256 tool can say. It finds
// damage; that nobody else sent the bytes is the link's part.
func cksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	table := cksumTable()
	var crc uint32
	var size uint64
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		for _, b := range buf[:n] {
			crc = crc<<8 ^ table[byte(crc>>24)^b]
		}
		size += uint64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
	}
	for ; size > 0; size >>= 8 {
		crc = crc<<8 ^ table[byte(crc>>24)^byte(size)]
	}
	return strconv.FormatUint(uint64(^crc), 10), nil
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
