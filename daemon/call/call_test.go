package call_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"kolu/daemon"
	"kolu/daemon/call"
)

// A change whose line breaks before its answer is asked again with the name of the daemon that had it, also where the connection had been
// used before: the transport would send it again by itself, as if for the first time, and a daemon that was started meanwhile would do it twice.
func TestAChangeIsNeverSentAgainAsTheFirstTime(t *testing.T) {
	var mu sync.Mutex
	var known []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(daemon.IdempotencyMemory, "m1")
		if r.Method == http.MethodGet {
			fmt.Fprintln(w, "{}")
			return
		}
		mu.Lock()
		known = append(known, r.Header.Get(daemon.IdempotencyMemory))
		n := len(known)
		mu.Unlock()
		if n == 1 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		}
		daemon.WriteProblem(w, http.StatusConflict, "forgotten", "another daemon")
	}))
	defer server.Close()
	refused := errors.New("refused")
	for _, body := range []any{nil, struct{ A int }{1}} {
		known = nil
		c := call.New(daemon.DialFunc(func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
		}), "x", func(*http.Response) error { return refused })
		if err := c.Get(t.Context(), "/", nil, nil); err != nil { // the connection is one that was used
			t.Fatal(err)
		}
		if err := c.Change(t.Context(), http.MethodDelete, "/", body, nil); !errors.Is(err, refused) {
			t.Errorf("%v: %v", body, err)
		}
		if len(known) != 2 || known[0] != "" || known[1] != "m1" {
			t.Errorf("%v: it came with %q", body, known)
		}
		c.Close()
	}
}
