// Package agentstub is a scripted model server for driving real coding-agent programs offline. It speaks enough of three streaming model
// APIs for them to finish a turn:
//
//	POST /v1/messages            Anthropic Messages        (Claude Code)
//	POST /v1/responses           OpenAI Responses          (Codex)
//	POST /v1/chat/completions    OpenAI Chat Completions   (opencode, others)
//
// There is no model: what the server answers is spelled out by the text of the user's own prompt. See script.go for the small language, and
// README.md for how to point each program at it. For tests; it opens no connection itself.
package agentstub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Event is the server's own account of what it did and when, so that a test can compare a detector's timing with the truth.
type Event struct {
	T    float64 `json:"t"`    // Unix time in milliseconds
	Req  int     `json:"req"`  // request number
	What string  `json:"what"` // see README.md
	Info any     `json:"info,omitempty"`
	// Prompt is with a request the newest text that the user typed, Rounds how many tools were run since, and Aux says that the request is none of a turn.
	Prompt string `json:"-"`
	Rounds int    `json:"-"`
	Aux    bool   `json:"-"`
}

// Server is a model server; it serves HTTP.
type Server struct {
	mux *http.ServeMux

	mu     sync.Mutex
	events []Event
	nreq   int
	holds  map[string]chan struct{}
}

// New makes a server that has done nothing yet.
func New() *Server {
	s := &Server{mux: http.NewServeMux(), holds: map[string]chan struct{}{}}
	s.mux.HandleFunc("/v1/messages", s.anthropicMessages)
	s.mux.HandleFunc("/v1/messages/count_tokens", s.anthropicCount)
	s.mux.HandleFunc("/v1/responses", s.openaiResponses)
	s.mux.HandleFunc("/v1/chat/completions", s.openaiChat)
	s.mux.HandleFunc("/v1/models", s.models)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.note(s.next(), "other", map[string]string{"method": r.Method, "path": r.URL.Path})
		if r.Method == http.MethodHead || r.URL.Path == "/" {
			w.WriteHeader(http.StatusOK)
			return
		}
		writeJSON(w, http.StatusNotFound, map[string]any{"type": "error",
			"error": map[string]string{"type": "not_found_error", "message": "agentstub: no such endpoint"}})
	})
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nreq++
	return s.nreq
}

func (s *Server) note(req int, what string, info any) {
	s.add(Event{Req: req, What: what, Info: info})
}

func (s *Server) noteRequest(req int, t turn, info any) {
	s.add(Event{Req: req, What: "request", Info: info, Prompt: t.prompt, Rounds: t.rounds, Aux: t.aux})
}

func (s *Server) add(e Event) {
	e.T = float64(time.Now().UnixMicro()) / 1000
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// Events are what happened so far.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}

// hold returns the channel that closes when the named hold is released.
func (s *Server) hold(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.holds[name]
	if !ok {
		c = make(chan struct{})
		s.holds[name] = c
	}
	return c
}

// Release ends every turn that is blocked in `hold: <name>` now, and reports whether one is. A later hold of the same name blocks afresh.
func (s *Server) Release(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.holds[name]
	if ok {
		close(c)
		delete(s.holds, name)
	}
	return ok
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) {
	s.note(s.next(), "models", nil)
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": "stub-model", "object": "model", "type": "model", "display_name": "Stub", "owned_by": "agentstub", "created": 0},
	}})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}

// stream writes server-sent events.
type stream struct {
	w   http.ResponseWriter
	ctx context.Context
}

func startStream(w http.ResponseWriter, r *http.Request) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return &stream{w: w, ctx: r.Context()}
}

// send writes one event; an empty name leaves the event line out.
func (st *stream) send(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if name != "" {
		fmt.Fprintf(st.w, "event: %s\n", name)
	}
	fmt.Fprintf(st.w, "data: %s\n\n", b)
	if f, ok := st.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (st *stream) raw(line string) {
	fmt.Fprint(st.w, line)
	if f, ok := st.w.(http.Flusher); ok {
		f.Flush()
	}
}
