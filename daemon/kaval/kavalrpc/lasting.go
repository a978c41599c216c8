package kavalrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kolu/daemon"
	"kolu/daemon/call"
	"kolu/daemon/kaval"
)

var errClosed = net.ErrClosed

// closeLimit is how long Close waits for the host to take what was typed before it.
const closeLimit = 2 * time.Second

// plainTries is how often a line is made on this machine. A daemon that another build takes over cuts the lines there are and some
// that begin in that moment; its socket never closes, so one that does not answer there has ended.
const plainTries = 3

// lasting is an attachment that goes on over line after line: the output from the byte after the last one that Next gave, or a
// fresh snapshot when the host no longer has that; the input from the first byte that the host did not take. Without a
// daemon.Redialer it goes on only with a daemon that is still there.
type lasting struct {
	c     *Client
	id    kaval.TerminalID
	input *typed
	life  context.Context
	end   context.CancelFunc

	redraw atomic.Int64 // how often it was asked for
	turn   sync.Mutex   // of Next
	drawn  int64        // with turn: the redraw that the line there is began with
	over   error        // with turn: what Next gives from now on
	at     *int64       // with turn: the offset after what Next gave
	breaks []time.Time  // with turn: when lines broke, the last ones

	mu   sync.Mutex
	on   *attachment // nil between two lines
	size *kaval.Size // to be set on the next line
}

// Attach opens an attachment that outlives its line.
func (c *Client) Attach(ctx context.Context, id kaval.TerminalID, req kaval.AttachRequest) (kaval.Attachment, error) {
	l := &lasting{c: c, id: id, input: newTyped(!c.calls.Lasting()), at: req.From}
	if req.Size != (kaval.Size{}) {
		l.size = &req.Size
	}
	l.life, l.end = context.WithCancel(context.Background())
	if err := l.connect(ctx); err != nil {
		l.end()
		return nil, err
	}
	return l, nil
}

// connect attaches over the next line. turn is held, or nobody else has l.
func (l *lasting) connect(ctx context.Context) error {
	return daemon.Retry(ctx, l.c.calls.Dialer, plainTries, func(ctx context.Context) (bool, error) {
		l.mu.Lock()
		size := l.size
		l.mu.Unlock()
		req := kaval.AttachRequest{From: l.at}
		if size != nil {
			req.Size = *size
		}
		a, redraw, err := l.attach(ctx, req)
		if err != nil {
			return !call.Broke(err), err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.on, l.drawn = a, redraw
		if l.size == size {
			l.size = nil
		}
		return true, nil
	})
}

// attach attaches with a snapshot where one was asked for, also meanwhile: it may be during the dial that the line is found lost, and
// that the caller hears of it. redraw is the number of the request that is done.
func (l *lasting) attach(ctx context.Context, req kaval.AttachRequest) (a *attachment, redraw int64, err error) {
	for {
		redraw = l.redraw.Load()
		if redraw != l.drawn {
			req.From = nil
		}
		a, err = l.c.attach(ctx, l.id, req, l.input)
		if err != nil || req.From == nil || l.redraw.Load() == redraw {
			return a, redraw, err
		}
		_ = a.Close() // it has given nothing yet
	}
}

// Redraw makes the next line begin with a fresh snapshot, for a caller who has drawn over the screen.
func (l *lasting) Redraw() { l.redraw.Add(1) }

func (l *lasting) Next(ctx context.Context) (kaval.Frame, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.life, stop)()
	var lost error // of the line before
	for l.over == nil {
		frame, err := l.next(ctx)
		switch {
		case l.life.Err() != nil:
			return kaval.Frame{}, errClosed
		case err == nil:
			at := frame.Offset
			l.at = &at
			if frame.Kind == kaval.FrameExit {
				l.over = io.EOF
			}
			return frame, nil
		case ctx.Err() != nil:
			return kaval.Frame{}, err
		}
		if !l.final(err) && l.steady(err) {
			lost = err
			l.drop()
			continue
		}
		if l.over = err; len(l.breaks) > maxBreaks {
			l.over = fmt.Errorf("%w: the attachment broke %d times within %s: %w", kaval.ErrRefused, len(l.breaks), breaksIn, err)
		} else if lost != nil && daemon.Absent(err) {
			l.over = lost // the daemon ended, and this is what it said
		}
	}
	return kaval.Frame{}, l.over
}

const (
	maxBreaks = 8 // within breaksIn, on this machine
	breaksIn  = 10 * time.Second
)

// steady reports whether another line is worth it. On this machine nothing cuts a line again and again but a daemon at fault, which
// must not go on unseen; a line to a host has its own pauses.
func (l *lasting) steady(err error) bool {
	if l.c.calls.Lasting() || errors.Is(err, kaval.ErrMoving) {
		return true
	}
	now := time.Now()
	l.breaks = slices.DeleteFunc(append(l.breaks, now), func(t time.Time) bool { return now.Sub(t) > breaksIn })
	return len(l.breaks) <= maxBreaks
}

// final reports whether nothing is to be had over another line either.
func (l *lasting) final(err error) bool {
	if errors.Is(err, kaval.ErrMoving) || call.Broke(err) {
		return false
	}
	return !l.c.calls.Lasting() || !errors.Is(err, kaval.ErrClosing)
}

// next gives the next frame of the line there is, or of a new one.
func (l *lasting) next(ctx context.Context) (kaval.Frame, error) {
	l.mu.Lock()
	on := l.on
	l.mu.Unlock()
	if on != nil {
		return on.Next(ctx)
	}
	err := l.connect(ctx)
	switch {
	case l.at != nil && (errors.Is(err, kaval.ErrGone) || errors.Is(err, kaval.ErrNoTerminal)):
		return l.exit(ctx, err)
	case err != nil:
		if call.Broke(err) {
			err = errors.Unwrap(err) // daemon.Retry has given up
		}
		return kaval.Frame{}, err
	}
	return l.next(ctx)
}

// exit is the end of a terminal that ended while there was no line.
func (l *lasting) exit(ctx context.Context, ended error) (kaval.Frame, error) {
	res, err := l.c.Wait(ctx, l.id, kaval.WaitRequest{IdleMS: 1})
	if err != nil || res.Result != kaval.Gone || res.ExitCode == nil {
		return kaval.Frame{}, ended
	}
	return kaval.Frame{Kind: kaval.FrameExit, Offset: *l.at, ExitCode: *res.ExitCode}, nil
}

// drop closes a line that broke.
func (l *lasting) drop() {
	l.mu.Lock()
	on := l.on
	l.on = nil
	l.mu.Unlock()
	if on != nil {
		_ = on.Close() // it is broken already
	}
}

// Write keeps the data until the host took it, over whatever line.
func (l *lasting) Write(ctx context.Context, data []byte) error {
	if len(data) > kaval.MaxInput {
		return kaval.Invalidf("input of %d bytes is more than %d", len(data), kaval.MaxInput)
	}
	if l.life.Err() != nil {
		return errClosed
	}
	return l.input.write(ctx, l.life.Done(), data)
}

// Resize sets the size, now or as soon as there is a line.
func (l *lasting) Resize(ctx context.Context, size kaval.Size) error {
	if l.life.Err() != nil {
		return errClosed
	}
	l.mu.Lock()
	on := l.on
	l.size = &size
	l.mu.Unlock()
	if on == nil {
		return checkSize(size)
	}
	err := on.Resize(ctx, size)
	if err == nil {
		l.mu.Lock()
		if l.size != nil && *l.size == size {
			l.size = nil
		}
		l.mu.Unlock()
		return nil
	}
	if err := checkSize(size); err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return nil // the line broke; the next one begins with it
}

func (l *lasting) Close() error {
	ctx, cancel := context.WithTimeout(l.life, closeLimit)
	defer cancel()
	l.input.settle(ctx)
	l.end()
	l.drop()
	l.turn.Lock() // Next is ending, and may have made another line
	defer l.turn.Unlock()
	l.drop()
	return nil
}
