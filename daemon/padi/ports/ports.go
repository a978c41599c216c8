// Package ports tells on which TCP ports the programs of a terminal listen. For the workspace, which asks every few seconds. It reads
// what the system shows of sockets and processes and touches neither. Start at [Scanner.Scan].
package ports

import (
	"cmp"
	"slices"

	"kolu/daemon/padi"
)

// Terminal is a terminal that runs: its id, and the program at its root.
type Terminal struct {
	ID  padi.TerminalID
	PID int
}

// Scanner remembers from one look to the next whose a socket is, so that a look where nothing changed reads two files. One goroutine
// at a time uses it.
type Scanner struct {
	owners map[uint64]owner // by inode
	looks  int
}

// New makes a scanner.
func New() *Scanner { return &Scanner{owners: map[uint64]owner{}} }

// owner is whose a socket is. One that belongs to no terminal has none.
type owner struct {
	terminal padi.TerminalID
	pid      int
	start    uint64
	name     string
}

// socket is one that listens.
type socket struct {
	inode uint64
	port  padi.Port
}

// sorted is in order, and each port of a family and scope once: several processes may listen on it.
func sorted(list []padi.Port) []padi.Port {
	slices.SortFunc(list, func(a, b padi.Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Address, b.Address), cmp.Compare(a.PID, b.PID))
	})
	return slices.CompactFunc(list, func(a, b padi.Port) bool {
		return a.Port == b.Port && a.Family == b.Family && a.Address == b.Address
	})
}
