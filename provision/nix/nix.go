// Package nix has the parts of Nix that placing one file tree in a store needs: the archive format, the base-32 digits, the name
// of a content-addressed path, and the client side of nix-store --serve. package provision uses it. It runs no command and
// opens no file.
//
// # Encoding
//
// Integers are 64 bit, little-endian. A string is its length, its bytes, and zeros up to a multiple of 8. A list is a count, then
// the items.
package nix

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const digits = "0123456789abcdfghijklmnpqrsvwxyz"

// Base32 writes bytes in Nix's base 32: digits from the last byte to the first, without padding.
func Base32(b []byte) string {
	var out strings.Builder
	for n := (len(b)*8+4)/5 - 1; n >= 0; n-- {
		bit := n * 5
		i, shift := bit/8, bit%8
		v := uint16(b[i]) >> shift
		if i+1 < len(b) {
			v |= uint16(b[i+1]) << (8 - shift)
		}
		out.WriteByte(digits[v&31])
	}
	return out.String()
}

// SourcePath is the store path of a tree that is addressed by its content and refers to nothing: what nix-store
// --add-fixed --recursive sha256 gives it. narHash is the sha256 of its archive in hex.
func SourcePath(storeDir, name, narHash string) string {
	sum := sha256.Sum256([]byte("source:sha256:" + narHash + ":" + storeDir + ":" + name))
	var folded [20]byte
	for i, b := range sum {
		folded[i%len(folded)] ^= b
	}
	return storeDir + "/" + Base32(folded[:]) + "-" + name
}

// ContentAddress is the ca field of such a path.
func ContentAddress(narHash string) (string, error) {
	raw, err := hex.DecodeString(narHash)
	if err != nil {
		return "", err
	}
	return "fixed:r:sha256:" + Base32(raw), nil
}
