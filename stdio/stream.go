package stdio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// chunk is the most that one frame carries, so that no writer holds the line for long.
	chunk = 16 << 10
	// drainFor bounds how long a closed stream waits for the other end to close it too.
	drainFor = 30 * time.Second

	statusOK     = 0
	statusFailed = 1
)

// ErrLink is what reads and writes give when the link went away under a connection.
var ErrLink = errors.New("link lost")

// DialError is what the first Read gives when the far end could not reach the daemon.
type DialError struct{ Detail string }

func (e *DialError) Error() string { return "the front could not reach its daemon: " + e.Detail }

// stream is a yamux stream as a net.Conn: small frames, a half-close, and an end of link that is not taken for the end of
// the data.
type stream struct {
	*yamux.Stream
	link *link

	// near streams begin with the status byte.
	near   bool
	status sync.Once
	err    error

	drains sync.Once
	closed chan struct{} // no more is written
	ending sync.Once

	writing sync.Mutex
	flow    flow
}

func newStream(s *yamux.Stream, l *link, near bool) *stream {
	return &stream{Stream: s, link: l, near: near, closed: make(chan struct{})}
}

func (s *stream) Read(b []byte) (int, error) {
	if s.near {
		if err := s.readStatus(); err != nil {
			return 0, err
		}
	}
	n, err := s.Stream.Read(b)
	return n, s.explain(err)
}

func (s *stream) readStatus() error {
	s.status.Do(func() { s.err = s.explain(readStatus(s.Stream)) })
	return s.err
}

func readStatus(r io.Reader) error {
	var b [3]byte
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return err
	}
	if b[0] == statusOK {
		return nil
	}
	if b[0] != statusFailed {
		return fmt.Errorf("read status of connection: unknown status %d", b[0])
	}
	if _, err := io.ReadFull(r, b[1:]); err != nil {
		return &DialError{Detail: "no reason given"}
	}
	text := make([]byte, binary.BigEndian.Uint16(b[1:]))
	n, _ := io.ReadFull(r, text)
	return &DialError{Detail: string(text[:n])}
}

func writeStatus(w io.Writer, dialErr error) error {
	if dialErr == nil {
		_, err := w.Write([]byte{statusOK})
		return err
	}
	text := dialErr.Error()
	text = text[:min(len(text), 4<<10)]
	_, err := w.Write(append(binary.BigEndian.AppendUint16([]byte{statusFailed}, uint16(len(text))), text...))
	return err
}

// Write puts b on the wire in small frames, as the line carries them.
func (s *stream) Write(b []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	total := 0
	for len(b) > 0 {
		part := b[:min(len(b), s.link.pace.frame())]
		out := &frameOut{n: int64(len(part)), bulk: s.flow.add(s.link.now(), len(part))}
		if !s.link.pace.admit(len(part), out.bulk, s.closed) {
			return total, s.explain(yamux.ErrStreamClosed)
		}
		n, err := s.put(part, out)
		if s.link.pace.wrote(out) {
			s.link.sendMark()
		}
		total += n
		if errors.Is(err, yamux.ErrConnectionWriteTimeout) {
			s.link.fail(err) // a frame is lost; nothing after it can be trusted
		}
		if err != nil {
			return total, s.explain(err)
		}
		b = b[n:]
	}
	return total, nil
}

// put writes an admitted frame. Only bulk can be stuck for long in front of a reader that stopped, so that nothing else pays for a timer.
func (s *stream) put(b []byte, out *frameOut) (int, error) {
	if out.bulk {
		stuck := time.AfterFunc(stuckFor, func() { s.link.pace.giveBack(out) })
		defer stuck.Stop()
	}
	return s.Stream.Write(b)
}

// explain tells the end of the link from the end of the stream, which yamux both calls EOF.
func (s *stream) explain(err error) error {
	if err == nil || !s.link.session.IsClosed() {
		return err
	}
	if cause := s.link.cause(); cause != nil && !errors.Is(cause, io.EOF) {
		return fmt.Errorf("%w: %w", ErrLink, cause)
	}
	return ErrLink
}

// CloseWrite ends our direction; reads go on until the other end closes too.
func (s *stream) CloseWrite() error {
	s.ending.Do(func() { close(s.closed) })
	return s.Stream.Close()
}

// Close ends both directions. What still comes is thrown away, so that the other end is never stuck writing.
func (s *stream) Close() error {
	err := s.CloseWrite()
	s.drains.Do(func() {
		s.Stream.SetReadDeadline(time.Now().Add(drainFor))
		s.link.begin(func() { io.Copy(io.Discard, s.Stream) })
	})
	return err
}

var _ net.Conn = (*stream)(nil)
