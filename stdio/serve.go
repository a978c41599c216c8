package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// maxConns is how many connections one link may have open at once.
const maxConns = 1024

// Serve is the far end: it joins each stream of the near end to a connection that dial makes, until r ends, ctx ends or the
// near end breaks the protocol. It returns within a second of that, nil when r simply ended. It closes r and w where they are
// io.Closers; a read of a plain stdin that nothing can interrupt is left behind, for the process to end.
func Serve(ctx context.Context, r io.Reader, w io.Writer, dial func(context.Context) (net.Conn, error)) error {
	return serve(ctx, r, w, dial, usual)
}

func serve(ctx context.Context, r io.Reader, w io.Writer, dial func(context.Context) (net.Conn, error), wait patience) error {
	l, err := newLink(r, w, false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer l.close()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.fail(context.Cause(ctx)) })
	defer stop()
	if first, err := l.session.AcceptStream(); err == nil {
		l.work.Go(func() { echo(first, l.pace.returned) })
		l.work.Go(func() { l.sendMarks(first, farMark) })
		l.work.Go(func() { watchFront(l, wait.front) })
	}
	slots := make(chan struct{}, maxConns)
	for {
		s, err := l.session.AcceptStream()
		if err != nil {
			return endOf(l, err)
		}
		conn := newStream(s, l, false)
		select {
		case slots <- struct{}{}:
			l.work.Go(func() {
				defer func() { <-slots }()
				join(ctx, conn, dial)
			})
		default:
			l.work.Go(func() { refuse(conn, fmt.Errorf("more than %d connections on one link", maxConns)) })
		}
	}
}

// endOf tells an end in order from a broken line.
func endOf(l *link, err error) error {
	if l.pipe.gone.Load() {
		return nil
	}
	if cause := l.cause(); cause != nil {
		err = cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, yamux.ErrSessionShutdown) {
		return nil
	}
	return fmt.Errorf("serve link: %w", err)
}

// echo sends back what is not a mark of our own.
func echo(s *yamux.Stream, returned func()) {
	var b [64]byte
	for {
		n, err := s.Read(b[:])
		if err != nil {
			s.Close()
			return
		}
		back := b[:0]
		for _, c := range b[:n] {
			if c == farMark {
				returned()
			} else {
				back = append(back, c)
			}
		}
		if _, err := s.Write(back); err != nil {
			return
		}
	}
}

// watchFront ends a link whose near end vanished without a word.
func watchFront(l *link, quiet time.Duration) {
	t := time.NewTicker(quiet / 5)
	defer t.Stop()
	for {
		select {
		case <-l.session.CloseChan():
			return
		case <-t.C:
			if time.Since(l.pipe.start)-time.Duration(l.pipe.lastRead.Load()) > quiet {
				l.fail(fmt.Errorf("nothing came for %s", quiet))
				return
			}
		}
	}
}

func refuse(s *stream, why error) {
	defer s.Close()
	writeStatus(s, why)
}

// join carries bytes both ways. The end of one direction is passed on as a half-close; an error ends both.
func join(ctx context.Context, s *stream, dial func(context.Context) (net.Conn, error)) {
	conn, err := dial(ctx)
	if err != nil {
		refuse(s, err)
		return
	}
	defer conn.Close()
	defer s.Close()
	if writeStatus(s, nil) != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pass(conn, s, conn)
	}()
	pass(s, conn, conn)
	<-ended
}

// pass copies one direction and half-closes its end. When the copy breaks, both ends are closed, which ends the other
// direction too.
func pass(dst io.Writer, src io.Reader, conn net.Conn) {
	_, err := io.CopyBuffer(onlyWriter{dst}, onlyReader{src}, make([]byte, chunk))
	if half, ok := dst.(interface{ CloseWrite() error }); ok && err == nil {
		half.CloseWrite()
		return
	}
	conn.Close()
	for _, end := range []any{dst, src} {
		if s, ok := end.(*stream); ok {
			s.Close()
		}
	}
}

// onlyReader and onlyWriter keep io.Copy to its own buffer, whose size bounds a frame.
type onlyReader struct{ io.Reader }
type onlyWriter struct{ io.Writer }
