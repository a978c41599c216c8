package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func post(h http.Handler, method, path, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, bytes.NewBufferString(body))
	if key != "" {
		r.Header.Set(IdempotencyKey, key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// counter answers each request it really does with the next number.
func counter(status int) (http.Handler, *int) {
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		n++
		w.Header().Set("X-N", fmt.Sprint(n))
		w.WriteHeader(status)
		fmt.Fprint(w, n)
	}), &n
}

func TestIdempotent(t *testing.T) {
	tests := []struct {
		name   string
		status int
		second [3]string // method, path, key of the second request
		done   int
	}{
		{"again", 201, [3]string{"POST", "/a", "k"}, 1},
		{"refused, again", 409, [3]string{"POST", "/a", "k"}, 1},
		{"server error, again", 500, [3]string{"POST", "/a", "k"}, 2},
		{"another key", 200, [3]string{"POST", "/a", "l"}, 2},
		{"another path", 200, [3]string{"POST", "/b", "k"}, 2},
		{"another method", 200, [3]string{"DELETE", "/a", "k"}, 2},
		{"no key", 200, [3]string{"POST", "/a", ""}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next, done := counter(tt.status)
			h := Idempotent(next)
			first := post(h, "POST", "/a", "k", "x")
			second := post(h, tt.second[0], tt.second[1], tt.second[2], "x")
			if *done != tt.done {
				t.Errorf("done %d times, want %d", *done, tt.done)
			}
			if tt.done == 1 && (second.Code != first.Code || second.Body.String() != first.Body.String() || second.Header().Get("X-N") != "1") {
				t.Errorf("answers differ: %d %q, %d %q", first.Code, first.Body, second.Code, second.Body)
			}
		})
	}
}

func TestAKeyIsForOneRequest(t *testing.T) {
	next, done := counter(200)
	m := NewMemory()
	h := m.Idempotent(next)
	post(h, "POST", "/a", "k", "x")
	saved, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var after Memory
	after.paths = map[string]*pathMemory{}
	if err := after.UnmarshalJSON(saved); err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]http.Handler{"this build": h, "the build after": after.Idempotent(next)} {
		for _, other := range []struct{ path, body string }{{"/a", "y"}, {"/a?force=1", "x"}} {
			got := post(h, "POST", other.path, "k", other.body)
			if code, _ := ReadProblem(got.Result()); got.Code != 422 || code != "key-reused" {
				t.Errorf("%s: %v got %d %s", name, other, got.Code, code)
			}
		}
		if got := post(h, "POST", "/a", "k", "x"); got.Code != 200 || got.Body.String() != "1" {
			t.Errorf("%s: the same again got %d %q", name, got.Code, got.Body)
		}
	}
	if *done != 1 {
		t.Errorf("done %d times", *done)
	}
}

func TestIdempotentWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := 0
		h := Idempotent(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			done++
			time.Sleep(time.Second)
			WriteJSON(w, http.StatusOK, done)
		}))
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if got := post(h, "POST", "/a", "k", "").Body.String(); got != "1\n" {
					t.Errorf("got %q", got)
				}
			})
		}
		all.Wait()
	})
}

func TestIdempotentForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, done := counter(200)
		h := Idempotent(next)
		post(h, "POST", "/a", "k", "")
		time.Sleep(rememberFor - time.Second)
		post(h, "POST", "/a", "k", "")
		time.Sleep(2 * time.Second)
		post(h, "POST", "/a", "k", "")
		if *done != 2 {
			t.Errorf("done %d times, want 2", *done)
		}
	})
}

func TestIdempotentIsBounded(t *testing.T) {
	next, done := counter(200)
	m := &Memory{paths: map[string]*pathMemory{}}
	for i := range rememberMost + 10 {
		w := httptest.NewRecorder()
		m.serve(w, httptest.NewRequest("POST", "/a", nil), fmt.Sprint(i), "", next)
	}
	if n := len(m.paths["POST /a"].answers); n != rememberMost || *done != rememberMost+10 {
		t.Errorf("%d answers kept of %d", n, *done)
	}
}

func TestIdempotentDoesNotKeepHalfARequest(t *testing.T) {
	next, done := counter(200)
	h := Idempotent(next)
	r := httptest.NewRequest("POST", "/a", io.MultiReader(bytes.NewBufferString("ha"), broken{}))
	r.Header.Set(IdempotencyKey, "k")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if *done != 0 {
		t.Error("half a request was done")
	}
	if w := post(h, "POST", "/a", "k", "half"); w.Code != 200 || *done != 1 {
		t.Errorf("then got %d, done %d", w.Code, *done)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
