package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// IdempotencyKey is the header of a request that may be sent again: the daemon does it once and gives the answer twice.
const IdempotencyKey = "Idempotency-Key"

// IdempotencyMemory is a header of every answer: it names what the daemon remembers of requests with a key, which ends with the
// daemon. A request that is sent again carries the name that its client knew the first time. When it is another one, whether
// the request was done can't be known, and it is refused with the code "forgotten" rather than done twice.
const IdempotencyMemory = "Idempotency-Memory"

const (
	rememberFor   = 15 * time.Minute
	rememberMost  = 4096    // answers per path
	rememberBytes = 1 << 20 // a longer answer is not kept, nor are those of GET
)

// Idempotent makes requests that carry an Idempotency-Key safe to send again: the same method, path and key get the
// answer of the first time for 15 minutes (with another body or query they are refused, with the code "key-reused"), and a duplicate that comes while the first still runs waits for its end. The first
// runs to its end even when its client has gone. Server errors are not remembered.
func Idempotent(next http.Handler) http.Handler { return NewMemory().Idempotent(next) }

// Idempotent is the function of that name with what this memory remembers.
func (m *Memory) Idempotent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(IdempotencyMemory, m.name)
		key := r.Header.Get(IdempotencyKey)
		if key == "" || r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		if known := r.Header.Get(IdempotencyMemory); known != "" && known != m.name {
			WriteProblem(w, http.StatusConflict, "forgotten", "the daemon was started anew after this was first asked of it, so whether it was "+
				"done is not known; look before you ask again")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if err != nil {
			WriteProblem(w, http.StatusBadRequest, "invalid", "read request: "+err.Error())
			return // not done and not remembered: half a request is none
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.serve(w, r, key, digestOf(r.URL.RawQuery, body), next)
	})
}

// digestOf tells one request from another with the same path.
func digestOf(query string, body []byte) string {
	sum := sha256.Sum256(append([]byte(query+"\n"), body...))
	return hex.EncodeToString(sum[:])
}

// Memory is the answers to requests that carried a key. It can go on in another build of the daemon: see [Memory.MarshalJSON].
type Memory struct {
	name  string
	mu    sync.Mutex
	paths map[string]*pathMemory
}

// NewMemory makes one that remembers nothing.
func NewMemory() *Memory {
	return &Memory{name: strings.ToLower(rand.Text()), paths: map[string]*pathMemory{}}
}

// savedMemory is a memory as another build reads it.
type savedMemory struct {
	Name    string        `json:"name"`
	Answers []savedAnswer `json:"answers,omitempty"`
}

type savedAnswer struct {
	Path   string      `json:"path"`
	Key    string      `json:"key"`
	Digest string      `json:"digest,omitempty"` // of what was asked; a build before this one did not know it
	At     int64       `json:"at"`               // milliseconds since 1970
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
}

// MarshalJSON gives the name and the answers that are final. A request that is under way is not among them: it has not been done.
func (m *Memory) MarshalJSON() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	saved := savedMemory{Name: m.name}
	for _, p := range m.paths {
		for _, a := range p.order {
			if a.finished() && a.kept {
				saved.Answers = append(saved.Answers, savedAnswer{a.path, a.key, a.digest, a.at.UnixMilli(), a.status, a.header, a.body.Bytes()})
			}
		}
	}
	return json.Marshal(saved)
}

// UnmarshalJSON makes a memory go on with what MarshalJSON gave; it must not have been used.
func (m *Memory) UnmarshalJSON(data []byte) error {
	var saved savedMemory
	if err := json.Unmarshal(data, &saved); err != nil {
		return err
	}
	m.name = saved.Name
	for _, s := range saved.Answers {
		a, first := m.claim(s.Path, s.Key, s.Digest)
		if !first {
			continue
		}
		a.at, a.kept, a.status, a.header = time.UnixMilli(s.At), true, s.Status, s.Header
		a.body.Write(s.Body)
		close(a.done)
	}
	return nil
}

// pathMemory is the answers of one path, oldest first in order.
type pathMemory struct {
	answers map[string]*answer
	order   []*answer
}

type answer struct {
	path, key string
	digest    string // of what was asked; empty where that isn't known
	at        time.Time
	done      chan struct{} // closed when the fields below are final
	kept      bool
	status    int
	header    http.Header
	body      bytes.Buffer
}

func (m *Memory) serve(w http.ResponseWriter, r *http.Request, key, digest string, next http.Handler) {
	path := r.Method + " " + r.URL.Path
	for {
		a, first := m.claim(path, key, digest)
		if first {
			m.run(a, w, r, next)
			return
		}
		if a.digest != "" && a.digest != digest {
			WriteProblem(w, http.StatusUnprocessableEntity, "key-reused", "another request with this "+IdempotencyKey+" came before; this one was not done")
			return
		}
		select {
		case <-a.done:
		case <-r.Context().Done():
			return
		}
		if a.kept {
			a.write(w)
			return
		}
	}
}

// claim gives the answer that is known or under way, or a new one that the caller must run.
func (m *Memory) claim(path, key, digest string) (a *answer, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	p := m.paths[path]
	if p == nil {
		p = &pathMemory{answers: map[string]*answer{}}
		m.paths[path] = p
	}
	if a := p.answers[key]; a != nil {
		return a, false
	}
	a = &answer{path: path, key: key, digest: digest, at: time.Now(), done: make(chan struct{}), header: http.Header{}}
	p.answers[key] = a
	p.order = append(p.order, a)
	return a, true
}

// forget drops what is too old or too much.
func (m *Memory) forget() {
	limit := time.Now().Add(-rememberFor)
	for path, p := range m.paths {
		for len(p.order) > 0 && (p.order[0].at.Before(limit) || len(p.order) >= rememberMost) && p.order[0].finished() {
			delete(p.answers, p.order[0].key)
			p.order = p.order[1:]
		}
		if len(p.order) == 0 {
			delete(m.paths, path)
		}
	}
}

func (a *answer) finished() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// run does the request and records its answer.
func (m *Memory) run(a *answer, w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec := &recorder{answer: a}
	defer func() {
		a.kept = a.status >= 200 && a.status < 500 && a.body.Len() <= rememberBytes
		if !a.kept {
			m.drop(a)
		}
		close(a.done)
	}()
	next.ServeHTTP(rec, r.WithContext(context.WithoutCancel(r.Context())))
	rec.WriteHeader(http.StatusOK) // no effect when the handler wrote one
	a.write(w)
}

func (m *Memory) drop(a *answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.paths[a.path]
	if p == nil || p.answers[a.key] != a {
		return
	}
	delete(p.answers, a.key)
	p.order = slices.DeleteFunc(p.order, func(o *answer) bool { return o == a })
}

func (a *answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	w.Write(a.body.Bytes())
}

// recorder is the ResponseWriter of a request whose answer is kept.
type recorder struct{ answer *answer }

func (r *recorder) Header() http.Header { return r.answer.header }

func (r *recorder) WriteHeader(status int) {
	if r.answer.status == 0 {
		r.answer.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.answer.body.Write(p)
}
