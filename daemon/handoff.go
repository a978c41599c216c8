package daemon

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"
)

// Handoff is what another build left to this one in the same process; see [Upgrade]. First the state is read from it, then [Handoff.Last].
type Handoff struct {
	*bufio.Reader
	file *os.File
	tail handoffTail
}

// OpenHandoff begins to read the file of "--handoff" and "--check-handoff". The file's place is left alone, since another process may
// have it too.
func OpenHandoff(fd int) (*Handoff, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "handoff")
	if f == nil {
		return nil, fmt.Errorf("open handoff: descriptor %d", fd)
	}
	h := &Handoff{Reader: bufio.NewReaderSize(io.NewSectionReader(f, 0, math.MaxInt64), 256<<10), file: f}
	magic := make([]byte, len(handoffMagic))
	if _, err := io.ReadFull(h, magic); err != nil || string(magic) != handoffMagic {
		return nil, errors.Join(fmt.Errorf("open handoff: not one, or of another version"), err, f.Close())
	}
	return h, nil
}

// Last reads what follows the state: last is as Frozen.Leave gave it.
func (h *Handoff) Last(last any) error {
	defer h.file.Close()
	if err := json.NewDecoder(h.Reader).Decode(&h.tail); err != nil {
		return fmt.Errorf("read handoff: %w", err)
	}
	for _, fd := range h.tail.Files {
		unix.CloseOnExec(fd)
	}
	if err := json.Unmarshal(h.tail.Last, last); err != nil {
		return fmt.Errorf("read handoff: %w", err)
	}
	return nil
}

// Close lets go of a handoff that is only checked.
func (h *Handoff) Close() error { return h.file.Close() }

// Home is where the daemon lives.
func (h *Handoff) Home(kind Kind) Home { return HomeAt(kind, h.tail.Socket, h.tail.StateRoot) }

// claim takes over the gate, which names this very process.
func (h *Handoff) claim(home Home) (*claim, error) {
	gate, err := claimGate(home)
	if running, ok := errors.AsType[*RunningError](err); h == nil || !ok || running.PID != os.Getpid() {
		return gate, err
	}
	holder, err := readGate(home.Gate())
	if err != nil {
		return nil, fmt.Errorf("take over gate: %w", err)
	}
	return &claim{path: home.Gate(), content: holder.content}, nil
}

// listener takes over the socket.
func (h *Handoff) listener(t *tenure) (*listener, error) {
	f := os.NewFile(uintptr(h.tail.Listener), "listener")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over socket: %w", err)
	}
	u, ok := ln.(*net.UnixListener)
	if !ok {
		ln.Close()
		return nil, errors.New("take over socket: it is another kind of socket")
	}
	u.SetUnlinkOnClose(false)
	l := newListener(u, t.hello().Socket, t.Log)
	l.inode, _ = inode(l.path) // one that has vanished is bound again by whoever tends the home
	return l, nil
}

// reap waits for the guard of the build before, which ends with that.
func (h *Handoff) reap() {
	if h.tail.Guard <= 0 {
		return
	}
	if p, err := os.FindProcess(h.tail.Guard); err == nil {
		_, _ = p.Wait() // how a guard ends is no concern of the daemon
	}
}

// answer tells who asked for the upgrade that it is done.
func (h *Handoff) answer(self Hello) error {
	f := os.NewFile(uintptr(h.tail.Reply), "reply")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	defer conn.Close()
	body, err := json.Marshal(self)
	if err != nil {
		return err
	}
	writeAnswer(conn, http.StatusOK, "application/json", body)
	return nil
}
