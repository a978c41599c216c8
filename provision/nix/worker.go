package nix

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	workerClient = 0x6e697863
	workerServer = 0x6478696f
	// workerVersion is the one that first says whether the user is trusted; newer servers speak it too.
	workerVersion = 0x123
)

// Trust is what a store says of the user who asks.
type Trust int

// The answers of a store. Unknown comes from servers before Nix 2.15.
const (
	TrustUnknown Trust = iota
	Trusted
	Untrusted
)

// AskTrust greets nix-daemon --stdio and reads what it says of itself and of the user. Nothing else is asked.
func AskTrust(w io.Writer, r io.Reader) (Trust, error) {
	in := reader{bufio.NewReader(r)}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, workerClient)); err != nil {
		return TrustUnknown, err
	}
	if err := skipTo(in.r, workerServer); err != nil {
		return TrustUnknown, fmt.Errorf("wait for the greeting of nix-daemon: %w", err)
	}
	theirs, err := in.u64()
	if err != nil {
		return TrustUnknown, err
	}
	if theirs>>8 != workerVersion>>8 {
		return TrustUnknown, fmt.Errorf("nix-daemon speaks version %d.%d", theirs>>8, theirs&0xff)
	}
	if theirs < workerVersion {
		return TrustUnknown, nil
	}
	var rest []byte
	for _, n := range []uint64{workerVersion, 0, 0} { // and no wish for a processor or for reserved space
		rest = binary.LittleEndian.AppendUint64(rest, n)
	}
	if _, err := w.Write(rest); err != nil {
		return TrustUnknown, err
	}
	if _, err := in.str(); err != nil { // the version of Nix
		return TrustUnknown, err
	}
	n, err := in.u64()
	if err != nil || n > uint64(Untrusted) {
		return TrustUnknown, err
	}
	return Trust(n), nil
}
