package ptyhost

import (
	"context"
	"io"
	"net"
	"sync"

	"kolu/daemon/kaval"
)

// frameSize is the most output in one Data frame.
const frameSize = 64 << 10

// Attach gives the screen and what follows. Resize, snapshot and the place where the data goes on are one step.
func (h *Host) Attach(ctx context.Context, id kaval.TerminalID, req kaval.AttachRequest) (kaval.Attachment, error) {
	if req.From != nil && *req.From < 0 {
		return nil, kaval.Invalidf("from must be at least 0")
	}
	if err := h.ops.enter(ctx, nil); err != nil {
		return nil, err
	}
	defer h.ops.leave()
	t, err := h.find(ctx, id)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, gone(t.id, t.code)
	}
	if req.Size != (kaval.Size{}) {
		size, err := grid(req.Size, t.size)
		if err == nil {
			err = t.setSize(size)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := h.attached.enter(ctx, nil); err != nil {
		return nil, err
	}
	a := &attachment{t: t, closed: make(chan struct{}), moving: h.movingNow()}
	a.begin(req.From)
	return a, nil
}

// Resize sets the grid.
func (h *Host) Resize(ctx context.Context, id kaval.TerminalID, size kaval.Size) error {
	t, err := h.find(ctx, id)
	if err != nil {
		return err
	}
	return t.resize(ctx, size)
}

func (t *terminal) resize(ctx context.Context, size kaval.Size) error {
	if err := t.host.ops.enter(ctx, nil); err != nil {
		return err
	}
	defer t.host.ops.leave()
	t.mu.Lock()
	defer t.mu.Unlock()
	size, err := grid(size, t.size)
	if err != nil {
		return err
	}
	return t.setSize(size)
}

// attachment is one reader: a position in the output and nothing that grows.
type attachment struct {
	t      *terminal
	close  sync.Once
	closed chan struct{}
	moving <-chan struct{}

	// guarded by t.mu
	pos   int64         // the next byte to give
	seq   uint64        // the last change of the grid that was given
	size  kaval.Size    // the grid of the bytes at pos
	first []kaval.Frame // what comes before anything else
	over  bool          // Exit was given
}

// begin sets where the reader starts; t.mu is held.
func (a *attachment) begin(from *int64) {
	if from == nil || *from > a.t.out.end || *from < a.t.out.start() {
		a.restart()
		return
	}
	a.pos, a.seq, a.size = *from, a.t.dropped, a.t.size
	for _, m := range a.t.marks {
		if m.offset > a.pos {
			a.size = m.was
			return
		}
		a.seq = m.seq
	}
}

// restart goes on from a snapshot of this moment; t.mu is held.
func (a *attachment) restart() {
	a.first = append(a.first, a.t.snapshot())
	a.pos, a.seq, a.size = a.t.out.end, a.t.seq, a.t.size
}

func (a *attachment) Next(ctx context.Context) (kaval.Frame, error) {
	for {
		frame, change, err := a.step()
		if change == nil {
			return frame, err
		}
		select {
		case <-change:
		case <-a.closed:
			return kaval.Frame{}, net.ErrClosed
		case <-a.t.host.closing:
			return kaval.Frame{}, kaval.ErrClosing
		case <-a.moving:
			return kaval.Frame{}, kaval.ErrMoving
		case <-ctx.Done():
			return kaval.Frame{}, ctx.Err()
		}
	}
}

// step gives the next frame, or a channel to wait on when there is none yet.
func (a *attachment) step() (kaval.Frame, <-chan struct{}, error) {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-a.closed:
		return kaval.Frame{}, nil, net.ErrClosed
	default:
	}
	switch {
	case a.over:
		return kaval.Frame{}, nil, io.EOF
	case len(a.first) > 0:
		frame := a.first[0]
		a.first = a.first[1:]
		return frame, nil, nil
	case a.pos < t.out.start() || a.seq < t.dropped:
		return a.overflow(), nil, nil
	}
	limit := frameSize
	if m, ok := t.markAfter(a.seq); ok {
		if m.offset <= a.pos {
			a.seq, a.size = m.seq, m.size
			return kaval.Frame{Kind: kaval.FrameResized, Offset: a.pos, Size: m.size}, nil, nil
		}
		limit = int(min(int64(limit), m.offset-a.pos))
	}
	if data := t.out.read(a.pos, limit); len(data) > 0 {
		a.pos += int64(len(data))
		return kaval.Frame{Kind: kaval.FrameData, Data: data, Offset: a.pos, Size: a.size}, nil, nil
	}
	if t.ended {
		a.over = true
		return kaval.Frame{Kind: kaval.FrameExit, Offset: a.pos, ExitCode: t.code}, nil, nil
	}
	return kaval.Frame{}, t.change(), nil
}

// overflow says how much this reader missed; the snapshot that follows is of the same moment.
func (a *attachment) overflow() kaval.Frame {
	lost := a.t.out.end - a.pos
	a.restart()
	return kaval.Frame{Kind: kaval.FrameOverflow, Offset: a.pos, Lost: lost}
}

// markAfter gives the first change of the grid after one; t.mu is held.
func (t *terminal) markAfter(seq uint64) (mark, bool) {
	for _, m := range t.marks {
		if m.seq > seq {
			return m, true
		}
	}
	return mark{}, false
}

// Write waits for a program that does not read, as long as there is the attachment.
func (a *attachment) Write(ctx context.Context, data []byte) error {
	if len(data) > kaval.MaxInput {
		return kaval.Invalidf("input of %d bytes is more than %d", len(data), kaval.MaxInput)
	}
	select {
	case <-a.closed:
		return net.ErrClosed
	case <-a.t.done:
		return a.t.goneNow()
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	written := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-a.closed:
			cancel()
		case <-written:
		}
	})
	err := a.t.write(ctx, data, 0)
	close(written)
	watch.Wait()
	return err
}

func (a *attachment) Resize(ctx context.Context, size kaval.Size) error {
	select {
	case <-a.closed:
		return net.ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.t.resize(ctx, size)
}

func (a *attachment) Close() error {
	a.close.Do(func() {
		close(a.closed)
		a.t.host.attached.leave()
	})
	return nil
}
