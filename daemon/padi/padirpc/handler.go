package padirpc

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// server answers requests with a workspace.
type server struct {
	ws  padi.Workspace
	log *slog.Logger
}

// Handler serves a workspace; hello and drain are the daemon's own.
func Handler(ws padi.Workspace, log *slog.Logger) http.Handler {
	s := &server{ws: ws, log: log}
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /v1/terminals":              s.list,
		"POST /v1/terminals":             s.create,
		"GET /v1/terminals/{id}":         s.terminal,
		"DELETE /v1/terminals/{id}":      s.kill,
		"POST /v1/terminals/{id}/input":  s.input,
		"POST /v1/terminals/{id}/resize": s.resize,
		"GET /v1/terminals/{id}/screen":  s.screen,
		"GET /v1/terminals/{id}/history": s.history,
		"GET /v1/terminals/{id}/wait":    s.wait,
		"GET /v1/terminals/{id}/explain": s.explain,
		"POST /v1/terminals/{id}/prompt": s.prompt,
		"GET /v1/agents/recent":          s.recentAgents,
		"GET /v1/kaval":                  s.kaval,
		"POST /v1/kaval/upgrade":         s.upgradeKaval,
		"GET /v1/record":                 s.recorded,
		"POST /v1/record":                s.recordText,
	} {
		mux.HandleFunc(pattern, s.respond(answer))
	}
	for pattern, answer := range s.sessionRoutes() {
		mux.HandleFunc(pattern, s.respond(answer))
	}
	for pattern, answer := range s.codeRoutes() {
		mux.HandleFunc(pattern, s.respond(answer))
	}
	mux.HandleFunc("GET /v1/watch", s.watch)
	mux.Handle("POST /v1/forward", newForwards(s))
	return daemon.Idempotent(withSender(mux))
}

func (s *server) respond(answer func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := answer(r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		daemon.WriteJSON(w, http.StatusOK, v)
	}
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := toProblem(err)
	if p.Status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) {
		s.log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	body, encodeErr := json.Marshal(p)
	if encodeErr != nil {
		daemon.WriteProblem(w, p.Status, p.Code, p.Detail)
		return
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) // a client that has gone is no concern of ours
}

type roster struct {
	Terminals []padi.Record `json:"terminals"`
}

type nothing struct{}

func (s *server) list(r *http.Request) (any, error) {
	records, err := s.ws.Terminals(r.Context())
	if records == nil {
		records = []padi.Record{}
	}
	return roster{records}, err
}

func (s *server) create(r *http.Request) (any, error) {
	var req padi.CreateRequest
	if err := readBody(r, &req); err != nil {
		return nil, err
	}
	return s.ws.Create(r.Context(), req)
}

func (s *server) terminal(r *http.Request) (any, error) { return s.ws.Terminal(r.Context(), id(r)) }
func (s *server) kill(r *http.Request) (any, error)     { return s.ws.Kill(r.Context(), id(r)) }
func (s *server) kaval(r *http.Request) (any, error)    { return s.ws.Kaval(r.Context()) }

func (s *server) input(r *http.Request) (any, error) {
	var in kaval.Input
	if err := readBody(r, &in); err != nil {
		return nil, err
	}
	return nothing{}, s.ws.Write(r.Context(), id(r), in)
}

func (s *server) resize(r *http.Request) (any, error) {
	var size kaval.Size
	if err := readBody(r, &size); err != nil {
		return nil, err
	}
	return nothing{}, s.ws.Resize(r.Context(), id(r), size)
}

func (s *server) screen(r *http.Request) (any, error) {
	q := query{values: r.URL.Query()}
	req := kaval.ScreenRequest{
		Extent: kaval.Extent(q.text("extent")), Lines: int(q.number("lines")), Trim: q.flag("trim"), ANSI: q.flag("ansi"),
	}
	if q.err != nil {
		return nil, q.err
	}
	return s.ws.Screen(r.Context(), id(r), req)
}

func (s *server) history(r *http.Request) (any, error) {
	q := query{values: r.URL.Query()}
	req := kaval.HistoryRequest{Before: q.optional("before"), Max: int(q.number("max")), Epoch: q.optional("epoch")}
	if q.err != nil {
		return nil, q.err
	}
	return s.ws.History(r.Context(), id(r), req)
}

func (s *server) wait(r *http.Request) (any, error) {
	q := query{values: r.URL.Query()}
	req := padi.WaitRequest{
		IdleMS: q.number("idleMs"), Match: q.text("match"), After: q.optional("after"), TimeoutMS: q.number("timeoutMs"),
		SettledMS: q.number("settledMs"), Tail: int(q.number("tail")),
	}
	if until := q.text("until"); until != "" {
		for b := range strings.SplitSeq(until, ",") {
			req.Until = append(req.Until, padi.Bucket(b))
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	return s.ws.Wait(r.Context(), id(r), req)
}

// watch writes events until the client goes or the workspace ends; a failure before the first one is an ordinary error.
func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	began := false
	for ev, err := range s.ws.Watch(r.Context()) {
		if err != nil {
			if !began {
				s.refuse(w, r, err)
			}
			return
		}
		if !began {
			w.Header().Set("Content-Type", "application/x-ndjson")
			began = true
		}
		if enc.Encode(ev) != nil || out.Flush() != nil {
			return
		}
	}
}

func id(r *http.Request) padi.TerminalID { return padi.TerminalID(r.PathValue("id")) }

func readBody(r *http.Request, v any) error {
	if err := daemon.ReadJSON(r.Body, v); err != nil {
		return kaval.Invalidf("read request: %v", err)
	}
	return nil
}

// query reads parameters and keeps the first error.
type query struct {
	values url.Values
	err    error
}

func (q *query) text(name string) string { return q.values.Get(name) }

func (q *query) number(name string) int64 {
	if n := q.optional(name); n != nil {
		return *n
	}
	return 0
}

func (q *query) optional(name string) *int64 {
	text := q.text(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && q.err == nil {
		q.err = kaval.Invalidf("%s=%q is not a whole number", name, text)
	}
	return &n
}

func (q *query) flag(name string) bool {
	text := q.text(name)
	if text == "" {
		return false
	}
	b, err := strconv.ParseBool(text)
	if err != nil && q.err == nil {
		q.err = kaval.Invalidf("%s=%q is neither true nor false", name, text)
	}
	return b
}
