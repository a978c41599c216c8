package ports

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"kolu/daemon/padi"
)

// The kernel's answer to "which sockets listen" (linux/inet_diag.h). Its text tables hold every connection besides, and walking those costs
// milliseconds even where there is none.
const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	reqSize      = 56 // struct inet_diag_req_v2
	msgSize      = 72 // struct inet_diag_msg
	stateListen  = 10 // TCP_LISTEN
	atPort       = 4  // of struct inet_diag_msg: the local port, big-endian
	atAddr       = 8
	atInode      = 68
)

// asked are the sockets that listen, as the kernel answers over netlink. A sandbox may not let us ask.
func asked() ([]socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, err
	}
	four, err := dump(fd, unix.AF_INET)
	if err != nil {
		return nil, err
	}
	six, err := dump(fd, unix.AF_INET6)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) { // a kernel without IPv6
		return four, nil
	}
	return append(four, six...), err
}

func dump(fd int, family uint8) ([]socket, error) {
	req := make([]byte, unix.SizeofNlMsghdr+reqSize)
	binary.NativeEndian.PutUint32(req, uint32(len(req)))
	binary.NativeEndian.PutUint16(req[4:], diagByFamily)
	binary.NativeEndian.PutUint16(req[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := req[unix.SizeofNlMsghdr:]
	body[0], body[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], 1<<stateListen)
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	var sockets []socket
	buf := make([]byte, 32<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the kernel's sockets: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, fmt.Errorf("read the kernel's sockets: %w", err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return sockets, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("ask the kernel for sockets: %w", netlinkErr(m.Data))
			}
			if sock, ok := readDiag(m.Data); ok {
				sockets = append(sockets, sock)
			}
		}
	}
}

func netlinkErr(data []byte) error {
	if len(data) < 4 {
		return unix.EIO
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(data)))
}

// readDiag reads one struct inet_diag_msg.
func readDiag(b []byte) (socket, bool) {
	if len(b) < msgSize || b[1] != stateListen {
		return socket{}, false
	}
	family, size := "ipv4", 4
	if b[0] == unix.AF_INET6 {
		family, size = "ipv6", 16
	}
	addr, _ := netip.AddrFromSlice(b[atAddr : atAddr+size])
	addr = addr.Unmap()
	inode := uint64(binary.NativeEndian.Uint32(b[atInode:]))
	return socket{inode: inode, port: padi.Port{
		Port: int(binary.BigEndian.Uint16(b[atPort:])), Family: family, Scope: scope(addr), Address: addr.String(),
	}}, inode != 0
}
