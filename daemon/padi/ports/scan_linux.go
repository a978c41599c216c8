package ports

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"kolu/daemon/padi"
)

// anew is after how many looks sockets that belonged to no terminal are looked at again: one may have been handed on.
const anew = 12

// Scan gives the listening ports of each of the terminals; one without any has an empty list. A port is a terminal's when a process of its
// session, a descendant, or one that was started with its KAVAL_TERMINAL_ID holds the socket. An error says that the system could not be
// looked at, and then nothing is known.
func (s *Scanner) Scan(terminals []Terminal) (map[padi.TerminalID][]padi.Port, error) {
	sockets, err := asked()
	if err != nil {
		sockets, err = listening()
	}
	if err != nil {
		return nil, err
	}
	found := map[padi.TerminalID][]padi.Port{}
	for _, t := range terminals {
		found[t.ID] = []padi.Port{}
	}
	s.forget(sockets, found)
	if unknown := s.unknown(sockets); len(unknown) > 0 {
		if err := s.find(unknown, terminals); err != nil {
			return nil, err
		}
	}
	for _, sock := range sockets {
		if o := s.owners[sock.inode]; o.terminal != "" {
			port := sock.port
			port.PID, port.Process = o.pid, o.name
			found[o.terminal] = append(found[o.terminal], port)
		}
	}
	for id := range found {
		found[id] = sorted(found[id])
	}
	return found, nil
}

// forget drops what is known of sockets that are gone, or whose process or terminal is, and now and then of those that were nobody's.
func (s *Scanner) forget(sockets []socket, live map[padi.TerminalID][]padi.Port) {
	s.looks++
	listens := map[uint64]bool{}
	for _, sock := range sockets {
		listens[sock.inode] = true
	}
	for inode, o := range s.owners {
		switch _, lives := live[o.terminal]; {
		case !listens[inode], o.terminal == "" && s.looks%anew == 0, o.terminal != "" && !lives:
			delete(s.owners, inode)
		case o.terminal != "":
			if p, ok := readProc(o.pid); !ok || p.start != o.start {
				delete(s.owners, inode)
			}
		}
	}
}

func (s *Scanner) unknown(sockets []socket) map[uint64]bool {
	unknown := map[uint64]bool{}
	for _, sock := range sockets {
		if _, known := s.owners[sock.inode]; !known {
			unknown[sock.inode] = true
		}
	}
	return unknown
}

// find looks for the owners of sockets: first among the processes of the terminals, then among the others that carry a terminal's id.
// What is nobody's is noted too.
func (s *Scanner) find(unknown map[uint64]bool, terminals []Terminal) error {
	all, err := processes()
	if err != nil {
		return err
	}
	of := assign(all, terminals)
	for pid, terminal := range of {
		s.take(unknown, all[pid], terminal)
	}
	for pid, p := range all {
		if len(unknown) == 0 {
			return nil
		}
		if of[pid] == "" {
			if id := marked(pid, terminals); id != "" {
				s.take(unknown, p, id)
			}
		}
	}
	for inode := range unknown {
		s.owners[inode] = owner{}
	}
	return nil
}

// take notes which of the sockets a process holds.
func (s *Scanner) take(unknown map[uint64]bool, p proc, terminal padi.TerminalID) {
	if len(unknown) == 0 {
		return
	}
	for _, inode := range socketsOf(p.pid) {
		if unknown[inode] {
			s.owners[inode] = owner{terminal: terminal, pid: p.pid, start: p.start, name: p.name}
			delete(unknown, inode)
		}
	}
}

// assign gives the terminal of each process that is in a terminal's session or descends from its root.
func assign(all map[int]proc, terminals []Terminal) map[int]padi.TerminalID {
	of := map[int]padi.TerminalID{}
	roots := map[int]padi.TerminalID{}
	for _, t := range terminals {
		if t.PID > 1 {
			roots[t.PID] = t.ID
		}
	}
	for pid, p := range all {
		if id := roots[p.session]; id != "" {
			of[pid] = id
			continue
		}
		for up, steps := p, 0; up.pid > 1 && steps < 64; up, steps = all[up.parent], steps+1 {
			if id := roots[up.pid]; id != "" {
				of[pid] = id
				break
			}
		}
	}
	return of
}

// marked is the terminal whose id a process was started with.
func marked(pid int, terminals []Terminal) padi.TerminalID {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if id, ok := bytes.CutPrefix(kv, []byte("KAVAL_TERMINAL_ID=")); ok {
			for _, t := range terminals {
				if string(t.ID) == string(id) {
					return t.ID
				}
			}
		}
	}
	return ""
}

type proc struct {
	pid, parent, session int
	start                uint64
	name                 string
}

func processes() (map[int]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]proc, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProc(pid); ok {
				all[pid] = p
			}
		}
	}
	return all, nil
}

// readProc reads one process. The name stands in brackets and may hold anything, so the fields are counted from the last one.
func readProc(pid int) (proc, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	begin, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if err != nil || begin < 0 || end < begin {
		return proc{}, false
	}
	f := strings.Fields(string(data[end+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return proc{}, false
	}
	p := proc{pid: pid, name: string(data[begin+1 : end])}
	p.parent, _ = strconv.Atoi(f[1])
	p.session, _ = strconv.Atoi(f[3])
	p.start, _ = strconv.ParseUint(f[19], 10, 64)
	return p, true
}

// socketsOf are the inodes of the sockets that a process holds, as far as we may look.
func socketsOf(pid int) []uint64 {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	var inodes []uint64
	for _, name := range names {
		link, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if text, ok := strings.CutPrefix(link, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64); err == nil {
				inodes = append(inodes, inode)
			}
		}
	}
	return inodes
}

// listening are the TCP sockets that listen, of every user, by the kernel's text tables.
func listening() ([]socket, error) {
	four, err := readTable("/proc/net/tcp", "ipv4")
	if err != nil {
		return nil, err
	}
	six, err := readTable("/proc/net/tcp6", "ipv6")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
		return nil, err
	}
	return append(four, six...), nil
}

func readTable(path, family string) ([]socket, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var sockets []socket
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if sock, ok := readSocket(lines.Text(), family); ok {
			sockets = append(sockets, sock)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return sockets, nil
}

// listen is the state of a socket that listens.
const listen = "0A"

// readSocket reads one line of the kernel's table: number, local address, remote address, state, …, and the inode as the tenth field.
func readSocket(line, family string) (socket, bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != listen {
		return socket{}, false
	}
	host, port, ok := strings.Cut(f[1], ":")
	addr, addrOK := kernelAddr(host)
	n, err := strconv.ParseUint(port, 16, 16)
	inode, inodeErr := strconv.ParseUint(f[9], 10, 64)
	if !ok || !addrOK || err != nil || inodeErr != nil || inode == 0 {
		return socket{}, false
	}
	return socket{inode: inode, port: padi.Port{Port: int(n), Family: family, Scope: scope(addr), Address: addr.String()}}, true
}

// kernelAddr reads an address as the kernel prints it: words of four bytes, each in the machine's own order, which is little-endian on
// every machine that we have a build for.
func kernelAddr(text string) (netip.Addr, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return netip.Addr{}, false
	}
	for i := 0; i < len(b); i += 4 {
		b[i], b[i+1], b[i+2], b[i+3] = b[i+3], b[i+2], b[i+1], b[i]
	}
	addr, ok := netip.AddrFromSlice(b)
	return addr.Unmap(), ok
}

// scope says who can reach an address.
func scope(addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "any"
	case addr.IsLoopback():
		return "loopback"
	}
	return "interface"
}
