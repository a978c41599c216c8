package kavalrpc

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"kolu/daemon/kaval"
)

const (
	// closeReason is the WebSocket status of a host that says why it ends an attachment.
	closeReason websocket.StatusCode = 4000
	// maxReason is the most bytes of the reason, which the protocol bounds at 123.
	maxReason = 120
	// maxMessage bounds a message either way: the largest input, and a snapshot.
	maxMessage = 32 << 20
)

// watch streams events as lines of JSON, each sent at once.
func (s *server) watch(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush, enc := http.NewResponseController(w), json.NewEncoder(w)
	for event, err := range s.host.Watch(r.Context()) {
		if err == nil {
			err = enc.Encode(event)
		}
		if err == nil {
			err = flush.Flush()
		}
		if err != nil {
			s.log.Debug("watch ended", "err", err)
			return nil // the status has been sent; the end of the stream says the rest
		}
	}
	return nil
}

// attach streams a terminal over a WebSocket. What can fail is tried before the upgrade, so that it has a proper answer.
func (s *server) attach(w http.ResponseWriter, r *http.Request) error {
	q := query{values: r.URL.Query()}
	req := kaval.AttachRequest{
		Size: kaval.Size{Cols: int(q.number("cols")), Rows: int(q.number("rows"))}, From: q.optional("from"),
	}
	if q.err != nil {
		return q.err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return kaval.Invalidf("attach is a WebSocket")
	}
	a, err := s.host.Attach(r.Context(), id(r), req)
	if err != nil {
		return err
	}
	defer a.Close()
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		s.log.Debug("attach not upgraded", "err", err)
		return nil // Accept has answered
	}
	conn.SetReadLimit(maxMessage)
	var in *taken
	if word := q.values.Get("input"); word != "" {
		in = s.inputs.get(string(id(r)) + " " + word)
		defer s.inputs.put(in)
	}
	s.splice(r.Context(), conn, a, in)
	return nil
}

// splice carries an attachment until either side ends it.
func (s *server) splice(ctx context.Context, conn *websocket.Conn, a kaval.Attachment, in *taken) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer conn.CloseNow()
	if in != nil && in.tell(ctx, conn) != nil {
		return
	}
	reader.Go(func() { cancel(takeInput(ctx, conn, a, in)) })
	err := sendFrames(ctx, conn, a)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, io.EOF) {
		err = cause
	}
	switch {
	case errors.Is(err, io.EOF):
		conn.Close(websocket.StatusNormalClosure, "")
	case kaval.Code(err) != "internal":
		conn.Close(closeReason, clip(kaval.Code(err)+": "+err.Error()))
	default:
		s.log.Debug("attach ended", "err", err)
	}
}

func clip(reason string) string {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return reason
}

// sendFrames gives io.EOF when the terminal ended and everything was sent.
func sendFrames(ctx context.Context, conn *websocket.Conn, a kaval.Attachment) error {
	var buf []byte
	for {
		frame, err := a.Next(ctx)
		if err != nil {
			return err
		}
		buf = appendFrame(buf[:0], frame)
		if err := conn.Write(ctx, websocket.MessageBinary, buf); err != nil {
			return err
		}
	}
}

// takeInput passes on what the client sends, until it ends.
func takeInput(ctx context.Context, conn *websocket.Conn, a kaval.Attachment, in *taken) error {
	for {
		_, msg, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		switch {
		case len(msg) > 0 && msg[0] == tagInput:
			err = a.Write(ctx, msg[1:])
		case len(msg) >= 5 && msg[0] == tagResized:
			err = a.Resize(ctx, parseSize(msg[1:]))
		case len(msg) >= 9 && msg[0] == tagNumbered && in != nil:
			err = in.write(ctx, conn, a, int64(binary.BigEndian.Uint64(msg[1:])), msg[9:])
		}
		if err != nil && !errors.Is(err, kaval.ErrGone) { // Exit comes by itself
			return err
		}
	}
}
