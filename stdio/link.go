package stdio

import (
	"fmt"
	"io"
	"log"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// link is a yamux session over a pipe, and the reason it ended. Both ends have one.
type link struct {
	pipe    *pipe
	session *yamux.Session
	pace    *pacer
	marks   chan struct{} // holds one: a mark is due
	marking sync.Mutex
	first   *yamux.Stream // with marking: the stream of the marks
	mark    byte
	work    sync.WaitGroup // everything that ends with the session

	mu   sync.Mutex
	over bool // nothing is added to work any more
	why  error
	said atomic.Pointer[string] // yamux's last complaint
}

// streamWindow bounds what one stream may hold unread. It is also the most that a stream carries in one round trip; what is really on
// the way is the pacer's to say.
const streamWindow = 4 << 20

func newLink(r io.Reader, w io.Writer, near bool) (*link, error) {
	l := &link{pipe: newPipe(r, w), marks: make(chan struct{}, 1)}
	l.pace = newPacer(l.now, func() { l.marks <- struct{}{} })
	conf := yamux.DefaultConfig()
	conf.EnableKeepAlive = false
	conf.AcceptBacklog = 256
	conf.ConnectionWriteTimeout = time.Hour // a slow line is not a dead one; the ping decides
	conf.StreamOpenTimeout = 0
	conf.StreamCloseTimeout = 0 // a half-closed stream may go on as long as it likes; Close has its own bound
	conf.MaxStreamWindowSize = streamWindow
	conf.LogOutput = nil
	conf.Logger = log.New(writerFunc(l.hear), "", 0)
	var err error
	if near {
		l.session, err = yamux.Client(&guard{ReadWriteCloser: l.pipe}, conf)
	} else {
		l.session, err = yamux.Server(&guard{ReadWriteCloser: l.pipe, opens: true}, conf)
	}
	if err != nil {
		l.pipe.Close()
		return nil, fmt.Errorf("start session: %w", err)
	}
	return l, nil
}

// now is the time since the link began.
func (l *link) now() time.Duration { return time.Since(l.pipe.start) }

// The bytes of the first stream: what the near end asks, and the marks of both ends, each sent back by the other.
const (
	byteAsk  = '?'
	nearMark = 'M'
	farMark  = 'm'
)

// sendMarks puts the marks that are asked for on the first stream, until the session ends.
func (l *link) sendMarks(s *yamux.Stream, mark byte) {
	l.marking.Lock()
	l.first, l.mark = s, mark
	l.marking.Unlock()
	for {
		select {
		case <-l.marks:
			l.pace.asking()
			l.sendMark()
		case <-l.session.CloseChan():
			return
		}
	}
}

// sendMark puts a mark on the wire behind everything that was written.
func (l *link) sendMark() {
	l.marking.Lock()
	defer l.marking.Unlock()
	if l.first != nil {
		l.pace.marked()
		_, _ = l.first.Write([]byte{l.mark}) // it fails with the session alone
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func (l *link) hear(b []byte) {
	text := strings.TrimSpace(string(b))
	if strings.HasPrefix(text, "[ERR]") {
		l.said.Store(&text)
	}
}

// fail ends the link for a reason; the first reason stays.
func (l *link) fail(why error) {
	l.mu.Lock()
	if l.why == nil {
		l.why = why
	}
	l.mu.Unlock()
	l.pipe.Close() // yamux's Close waits for its loops, which this ends
	l.pace.close()
}

// cause is why the link ended: our reason, yamux's, or nil.
func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != nil {
		return l.why
	}
	if said := l.said.Load(); said != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(strings.TrimPrefix(*said, "[ERR] "), "yamux: "))
	}
	return nil
}

// begin runs f, which ends with the session; false when it has ended already.
func (l *link) begin(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.work.Go(f)
	return true
}

// close ends the session and waits for all that belongs to it.
func (l *link) close() {
	l.pipe.Close()
	l.pace.close()
	// A read of a stream spins from the moment that yamux closes the session until its loop has ended, so the loop ends first; it
	// closes the session itself.
	select {
	case <-l.session.CloseChan():
	case <-time.After(leaveAfter):
	}
	l.session.Close()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.work.Wait()
	l.pipe.wait()
}
