package padirpc

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"kolu/daemon/call"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// The headers that say who asks. They are the asker's own word.
const (
	faceHeader     = "Kolu-Face"
	terminalHeader = "Kolu-Terminal"
	hostHeader     = "Kolu-Host"
	// maxSender bounds each of them.
	maxSender = 128
)

var _ padi.Recorder = (*Client)(nil)

// As has the client say who asks, for padi's record. Call it before the first request.
func (c *Client) As(sender padi.Sender) *Client {
	c.calls.Header = senderHeader(sender)
	return c
}

// Recorded gives what was sent.
func (c *Client) Recorded(ctx context.Context, req padi.RecordedRequest) (found padi.Recorded, err error) {
	q := call.Query{}
	q.Text("terminal", req.Terminal)
	q.Number("since", req.Since)
	q.Number("limit", int64(req.Limit))
	err = c.get(ctx, "/v1/record", q, &found)
	return found, err
}

type recordText struct {
	Text *bool `json:"text"`
}

// RecordText says whether texts are kept from now on.
func (c *Client) RecordText(ctx context.Context, keep bool) error {
	return c.change(ctx, http.MethodPost, "/v1/record", recordText{&keep}, nil)
}

func (s *server) recorder() (padi.Recorder, error) {
	rec, ok := s.ws.(padi.Recorder)
	if !ok {
		return nil, fmt.Errorf("%w: this padi keeps no record", kaval.ErrRefused)
	}
	return rec, nil
}

func (s *server) recorded(r *http.Request) (any, error) {
	q := query{values: r.URL.Query()}
	req := padi.RecordedRequest{Terminal: q.text("terminal"), Since: q.number("since"), Limit: int(q.number("limit"))}
	if q.err != nil {
		return nil, q.err
	}
	rec, err := s.recorder()
	if err != nil {
		return nil, err
	}
	return rec.Recorded(r.Context(), req)
}

func (s *server) recordText(r *http.Request) (any, error) {
	var req recordText
	if err := readBody(r, &req); err != nil {
		return nil, err
	}
	if req.Text == nil {
		return nil, kaval.Invalidf("text is missing: true keeps the text of what is sent, false does not")
	}
	rec, err := s.recorder()
	if err != nil {
		return nil, err
	}
	return nothing{}, rec.RecordText(r.Context(), *req.Text)
}

func senderHeader(s padi.Sender) http.Header {
	h := http.Header{}
	for name, value := range map[string]string{faceHeader: s.Face, terminalHeader: string(s.Terminal), hostHeader: s.Host} {
		if value = fact(value); value != "" {
			h.Set(name, value)
		}
	}
	return h
}

// withSender gives requests the word of who asks.
func withSender(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := padi.Sender{
			Face: fact(r.Header.Get(faceHeader)), Terminal: padi.TerminalID(fact(r.Header.Get(terminalHeader))), Host: fact(r.Header.Get(hostHeader)),
		}
		if s.Face == "" {
			s.Face = fact(r.UserAgent())
		}
		next.ServeHTTP(w, r.WithContext(padi.WithSender(r.Context(), s)))
	})
}

// fact is a header's value as it may stand in a record and on a screen.
func fact(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), maxSender)]
}
