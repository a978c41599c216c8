package kavalrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"kolu/daemon"
	"kolu/daemon/call"
	"kolu/daemon/kaval"
)

// attach opens an attachment over one line, on a connection of its own. What is typed is numbered.
func (c *Client) attach(ctx context.Context, id kaval.TerminalID, req kaval.AttachRequest, input *typed) (*attachment, error) {
	path, err := of(id, "/attach")
	if err != nil {
		return nil, err
	}
	q := call.Query{}
	q.Number("cols", int64(req.Size.Cols))
	q.Number("rows", int64(req.Size.Rows))
	q.Optional("from", req.From)
	q.Text("input", input.key)
	client := daemon.HTTPClient(c.calls.Dialer)
	conn, resp, err := websocket.Dial(ctx, "ws://kaval"+path+"?"+url.Values(q).Encode(), &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		client.CloseIdleConnections()
		return nil, attachError(ctx, resp, err)
	}
	conn.SetReadLimit(maxMessage)
	life, end := context.WithCancel(context.Background())
	a := &attachment{conn: conn, life: life, end: end, frames: make(chan kaval.Frame), input: input}
	if req.From != nil {
		a.at = *req.From
	}
	a.reader.Go(a.read)
	a.reader.Go(func() { input.send(a) })
	return a, nil
}

func attachError(ctx context.Context, resp *http.Response, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols && resp.Body != nil {
		return kaval.FromCode(daemon.ReadProblem(resp))
	}
	return &call.Broken{Err: fmt.Errorf("attach: %w", daemon.Unwrapped(rootURL(err)))}
}

// rootURL finds the error of the HTTP client within that of the WebSocket library, whose sentence repeats the URL.
func rootURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e
	}
	return err
}

// attachment is an attachment at the other end of a connection. Its reader takes one frame ahead of Next and no more, so a slow
// caller is a slow reader to the host.
type attachment struct {
	conn   *websocket.Conn
	life   context.Context
	end    context.CancelFunc
	reader sync.WaitGroup
	frames chan kaval.Frame // closed when err is final
	at     int64            // the reader's: the offset so far
	err    error
	input  *typed
}

func (a *attachment) read() {
	defer close(a.frames)
	for {
		frame, err := a.receive()
		if err != nil {
			a.err = err
			return
		}
		select {
		case a.frames <- frame:
		case <-a.life.Done():
			a.err = net.ErrClosed
			return
		}
		if frame.Kind == kaval.FrameExit {
			a.err = io.EOF
			return
		}
	}
}

// receive reads the next frame that this version knows.
func (a *attachment) receive() (kaval.Frame, error) {
	for {
		_, msg, err := a.conn.Read(a.life)
		if err != nil {
			return kaval.Frame{}, a.endOf(err)
		}
		if a.input.hears(a, msg) {
			continue
		}
		frame, known, err := parseFrame(msg, a.at)
		if err != nil {
			return frame, fmt.Errorf("attach: %w", err)
		}
		if known {
			a.at = frame.Offset
			return frame, nil
		}
	}
}

// endOf is what the end of the connection means. Without an Exit frame it never means that the terminal ended.
func (a *attachment) endOf(err error) error {
	if a.life.Err() != nil {
		return net.ErrClosed
	}
	if e, ok := errors.AsType[websocket.CloseError](err); ok && e.Code == closeReason {
		if code, detail, ok := strings.Cut(e.Reason, ": "); ok {
			return kaval.FromCode(code, detail)
		}
	}
	return &call.Broken{Err: fmt.Errorf("attach: the line broke: %w", call.LineError(err))}
}

func (a *attachment) Next(ctx context.Context) (kaval.Frame, error) {
	select {
	case frame, ok := <-a.frames:
		if !ok {
			return kaval.Frame{}, a.err
		}
		return frame, nil
	case <-a.life.Done():
		return kaval.Frame{}, net.ErrClosed
	case <-ctx.Done():
		return kaval.Frame{}, ctx.Err()
	}
}

func (a *attachment) Resize(ctx context.Context, size kaval.Size) error {
	if err := checkSize(size); err != nil {
		return err
	}
	return a.send(ctx, appendSize([]byte{tagResized}, size))
}

func checkSize(size kaval.Size) error {
	if size.Cols < 0 || size.Rows < 0 || size.Cols > kaval.MaxCols || size.Rows > kaval.MaxRows {
		return kaval.Invalidf("size %dx%d is not within 1x1 and %dx%d", size.Cols, size.Rows, kaval.MaxCols, kaval.MaxRows)
	}
	return nil
}

func (a *attachment) send(ctx context.Context, msg []byte) error {
	if a.life.Err() != nil {
		return net.ErrClosed
	}
	if err := a.conn.Write(ctx, websocket.MessageBinary, msg); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("attach: send: %w", err)
	}
	return nil
}

func (a *attachment) Close() error {
	a.end()
	a.conn.CloseNow()
	a.reader.Wait()
	return nil
}
