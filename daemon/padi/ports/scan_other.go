//go:build !linux

package ports

import (
	"errors"

	"kolu/daemon/padi"
)

// Scan gives errors.ErrUnsupported: this system shows nobody whose a socket is without a call per process that we don't make.
func (s *Scanner) Scan([]Terminal) (map[padi.TerminalID][]padi.Port, error) {
	return nil, errors.ErrUnsupported
}
