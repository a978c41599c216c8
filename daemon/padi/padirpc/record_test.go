package padirpc_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// scribe is a workspace that keeps who asked.
type scribe struct {
	told
	mu      sync.Mutex
	senders []padi.Sender
	asked   padi.RecordedRequest
	text    *bool
	refuse  error
}

func (s *scribe) Write(ctx context.Context, _ padi.TerminalID, _ kaval.Input) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.senders = append(s.senders, padi.SenderOf(ctx))
	return nil
}

func (s *scribe) Recorded(_ context.Context, req padi.RecordedRequest) (padi.Recorded, error) {
	s.asked = req
	return padi.Recorded{Sendings: []padi.Sending{{At: 1, Kind: padi.SendKill, To: "b", From: padi.Sender{Face: "f"}}}, More: true, Text: true}, s.refuse
}

func (s *scribe) RecordText(_ context.Context, keep bool) error {
	s.text = &keep
	return s.refuse
}

func TestWhoAsksIsTold(t *testing.T) {
	s := &scribe{}
	socket := serve(t, s)
	full := padi.Sender{Face: "kolu mcp", Terminal: "aaaaaaaa-1111-4111-8111-111111111111", Host: "far"}
	odd := padi.Sender{Face: "a\r\nKolu-Host: x\x1b[31m", Terminal: padi.TerminalID(strings.Repeat("i", 1000))}
	for _, sender := range []padi.Sender{full, odd, {}} {
		if err := client(t, daemon.Unix(socket)).As(sender).Write(t.Context(), "b", kaval.Input{}); err != nil {
			t.Fatal(err)
		}
	}
	curl := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return daemon.Unix(socket).Dial(ctx)
	}}}
	req, err := http.NewRequest(http.MethodPost, "http://padi/v1/terminals/b/input", strings.NewReader(`{"data":""}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "curl/8")
	resp, err := curl.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	curl.CloseIdleConnections()
	want := []padi.Sender{
		full, {Face: "aKolu-Host: x[31m", Terminal: padi.TerminalID(strings.Repeat("i", 128))}, {Face: "Go-http-client/1.1"}, {Face: "curl/8"},
	}
	if diff := cmp.Diff(want, s.senders); diff != "" {
		t.Error(diff)
	}
}

func TestRecordOverTheWire(t *testing.T) {
	s := &scribe{}
	c := client(t, daemon.Unix(serve(t, s)))
	req := padi.RecordedRequest{Terminal: "a&b", Since: 7, Limit: 9}
	got, err := c.Recorded(t.Context(), req)
	want, _ := s.Recorded(t.Context(), req)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || s.asked != req {
		t.Errorf("%v %s asked %+v", err, diff, s.asked)
	}
	for _, keep := range []bool{true, false} {
		if err := c.RecordText(t.Context(), keep); err != nil || s.text == nil || *s.text != keep {
			t.Errorf("keep %v: %v", keep, err)
		}
	}
	s.refuse = kaval.ErrRefused
	if _, err := c.Recorded(t.Context(), req); !errors.Is(err, kaval.ErrRefused) {
		t.Errorf("%v", err)
	}
	if _, err := client(t, daemon.Unix(serve(t, &told{}))).Recorded(t.Context(), req); !errors.Is(err, kaval.ErrRefused) {
		t.Errorf("a padi that keeps none: %v", err)
	}
}
