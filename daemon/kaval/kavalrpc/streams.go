package kavalrpc

import (
	"context"
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
	writing, cut := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cut()
	in := &intake{conn: conn, a: a, writing: writing, cut: cut, room: make(chan struct{}, 1), more: make(chan struct{}, 1)}
	if word := q.values.Get("input"); word != "" {
		in.taken = s.inputs.get(string(id(r))+" "+word, cut)
		defer s.inputs.put(in.taken)
	}
	s.splice(r.Context(), conn, a, in)
	return nil
}

// splice carries an attachment until either side ends it.
func (s *server) splice(ctx context.Context, conn *websocket.Conn, a kaval.Attachment, in *intake) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var input sync.WaitGroup
	defer input.Wait()
	defer conn.CloseNow()
	if in.taken != nil && in.taken.tell(ctx, conn) != nil {
		return
	}
	in.told = &teller{tell: func(n int64) { _ = sendTaken(ctx, conn, n) }} // a line that broke is the reader's to notice
	defer in.told.stop()
	input.Go(func() { cancel(in.read(ctx)) })
	input.Go(func() {
		if err := in.write(ctx); err != nil {
			cancel(err)
		}
	})
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
