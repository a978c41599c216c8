// Package kavalrpc is the wire of a kaval: [Handler] serves any kaval.Host as HTTP, [NewClient] is one at the other end. It does no
// work of its own: what a method means is said at kaval.Host, and it means the same near and far.
//
// # The wire
//
// HTTP/1.1 with JSON bodies. Names of fields are those of the types in package kaval; unknown fields are ignored. GET takes its
// request in the query, by the same names; an absent parameter is an absent field.
//
//	GET    /v1/info                        Info
//	GET    /v1/terminals                   {"terminals":[Terminal]}
//	POST   /v1/terminals                   SpawnRequest → Terminal
//	GET    /v1/terminals/{id}              Terminal
//	DELETE /v1/terminals/{id}              {}
//	POST   /v1/terminals/{id}/input        Input → {}
//	POST   /v1/terminals/{id}/resize       Size → {}
//	GET    /v1/terminals/{id}/screen       extent lines trim ansi → Screen
//	GET    /v1/terminals/{id}/history      before max epoch → HistoryPage
//	GET    /v1/terminals/{id}/wait         idleMs match after timeoutMs → WaitResult
//	GET    /v1/terminals/{id}/attach       cols rows from input → WebSocket
//	GET    /v1/watch                       NDJSON of Event, until either side ends it
//	POST   /v1/upgrade                     {"executable"} → Hello of the build that took over; it is the daemon's own, like hello
//
// An error is application/problem+json with the code of kaval.Code and a sentence. A mutating request may carry an
// Idempotency-Key and may then be sent again. A wait that the daemon's end cuts short answers with result closed.
//
// # Attach
//
// Binary messages: one tag byte and a body; numbers are big-endian. From the host: S (snapshot) and D (data) carry the offset after
// the bytes (8), columns (2), rows (2) and the bytes; O (overflow) the count of bytes lost (8) and the offset (8); R (resized)
// columns (2) and rows (2); X (exit) the signed code (4), last, before a normal close. To the host: I and input bytes, R and columns
// (2) and rows (2). A host that ends the attachment for a reason closes with status 4000 and "code: sentence" as the
// reason. Messages with another tag are ignored by either side.
//
// With a word of the client's as input, what is typed survives the line: A (taken) says first, and then whenever it changes, how
// many bytes of input (8) were taken under that word, over whatever connection. K to the host is the number of bytes before (8) and
// input bytes; what was taken already is skipped. A client that comes back sends again from the first A on.
package kavalrpc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"kolu/daemon"
	"kolu/daemon/kaval"
)

// statuses are the HTTP statuses of the errors. All but those of a daemon in trouble are below 500, so that the answer to a request
// that was done (or half done) is remembered and never done again.
var statuses = map[string]int{
	"no-terminal":  http.StatusNotFound,
	"gone":         http.StatusGone,
	"exists":       http.StatusConflict,
	"invalid":      http.StatusBadRequest,
	"spawn-failed": http.StatusUnprocessableEntity,
	"limit":        http.StatusTooManyRequests,
	"stalled":      http.StatusConflict,
	"survivors":    http.StatusConflict,
	"refused":      http.StatusConflict,
	"moving":       http.StatusServiceUnavailable,
	"closing":      http.StatusServiceUnavailable,

	"upgrade-failed": http.StatusConflict,
}

// Handler serves a host. The routes that every daemon has (hello, drain, upgrade) are not among these.
func Handler(host kaval.Host, log *slog.Logger) http.Handler { return NewMemory().Handler(host, log) }

// Handler is the function of that name with what is remembered already.
func (m *Memory) Handler(host kaval.Host, log *slog.Logger) http.Handler {
	s := &server{host: host, log: log, inputs: m.inputs}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/info":                   s.info,
		"GET /v1/terminals":              s.list,
		"POST /v1/terminals":             s.spawn,
		"GET /v1/terminals/{id}":         s.terminal,
		"DELETE /v1/terminals/{id}":      s.kill,
		"POST /v1/terminals/{id}/input":  s.input,
		"POST /v1/terminals/{id}/resize": s.resize,
		"GET /v1/terminals/{id}/screen":  s.screen,
		"GET /v1/terminals/{id}/history": s.history,
		"GET /v1/terminals/{id}/wait":    s.wait,
		"GET /v1/terminals/{id}/attach":  s.attach,
		"GET /v1/watch":                  s.watch,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(w, r); err != nil {
				s.problem(w, r, err)
			}
		})
	}
	return m.answers.Idempotent(mux)
}

type server struct {
	host   kaval.Host
	log    *slog.Logger
	inputs *inputs
}

func (s *server) problem(w http.ResponseWriter, r *http.Request, err error) {
	code := kaval.Code(err)
	status, known := statuses[code]
	if !known {
		status = http.StatusInternalServerError
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	daemon.WriteProblem(w, status, code, err.Error())
}

// terminals is the body of a list.
type terminals struct {
	Terminals []kaval.Terminal `json:"terminals"`
}

func id(r *http.Request) kaval.TerminalID { return kaval.TerminalID(r.PathValue("id")) }

// answer writes the result of a call.
func answer[T any](w http.ResponseWriter, v T, err error) error {
	if err == nil {
		daemon.WriteJSON(w, http.StatusOK, v)
	}
	return err
}

// done answers a call that has no result.
func done(w http.ResponseWriter, err error) error { return answer(w, struct{}{}, err) }

// body reads the request's JSON.
func body[T any](r *http.Request) (T, error) {
	var v T
	if err := daemon.ReadJSON(r.Body, &v); err != nil {
		return v, kaval.Invalidf("read request: %v", err)
	}
	return v, nil
}

func (s *server) info(w http.ResponseWriter, r *http.Request) error {
	info, err := s.host.Info(r.Context())
	return answer(w, info, err)
}

func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	list, err := s.host.List(r.Context())
	if list == nil {
		list = []kaval.Terminal{}
	}
	return answer(w, terminals{list}, err)
}

func (s *server) spawn(w http.ResponseWriter, r *http.Request) error {
	req, err := body[kaval.SpawnRequest](r)
	if err != nil {
		return err
	}
	t, err := s.host.Spawn(r.Context(), req)
	return answer(w, t, err)
}

// terminal finds one among the live ones; a screen read tells a dead one from one that never was.
func (s *server) terminal(w http.ResponseWriter, r *http.Request) error {
	list, err := s.host.List(r.Context())
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.ID == id(r) {
			return answer(w, t, nil)
		}
	}
	if _, err := s.host.Screen(r.Context(), id(r), kaval.ScreenRequest{Extent: kaval.Tail}); err != nil {
		return err
	}
	return kaval.ErrNoTerminal
}

func (s *server) kill(w http.ResponseWriter, r *http.Request) error {
	return done(w, s.host.Kill(r.Context(), id(r)))
}

func (s *server) input(w http.ResponseWriter, r *http.Request) error {
	in, err := body[kaval.Input](r)
	if err != nil {
		return err
	}
	return done(w, s.host.Write(r.Context(), id(r), in))
}

func (s *server) resize(w http.ResponseWriter, r *http.Request) error {
	size, err := body[kaval.Size](r)
	if err != nil {
		return err
	}
	return done(w, s.host.Resize(r.Context(), id(r), size))
}

func (s *server) screen(w http.ResponseWriter, r *http.Request) error {
	q := query{values: r.URL.Query()}
	req := kaval.ScreenRequest{
		Extent: kaval.Extent(q.values.Get("extent")), Lines: int(q.number("lines")), Trim: q.flag("trim"), ANSI: q.flag("ansi"),
	}
	if q.err != nil {
		return q.err
	}
	screen, err := s.host.Screen(r.Context(), id(r), req)
	return answer(w, screen, err)
}

func (s *server) history(w http.ResponseWriter, r *http.Request) error {
	q := query{values: r.URL.Query()}
	req := kaval.HistoryRequest{Before: q.optional("before"), Max: int(q.number("max")), Epoch: q.optional("epoch")}
	if q.err != nil {
		return q.err
	}
	page, err := s.host.History(r.Context(), id(r), req)
	return answer(w, page, err)
}

func (s *server) wait(w http.ResponseWriter, r *http.Request) error {
	q := query{values: r.URL.Query()}
	req := kaval.WaitRequest{
		IdleMS: q.number("idleMs"), Match: q.values.Get("match"), After: q.optional("after"), TimeoutMS: q.number("timeoutMs"),
	}
	if q.err != nil {
		return q.err
	}
	result, err := s.host.Wait(r.Context(), id(r), req)
	if errors.Is(err, context.Canceled) { // the daemon ends; when it was the client who left, nobody reads this
		result, err = kaval.WaitResult{ID: id(r), Result: kaval.Closed}, nil
	}
	return answer(w, result, err)
}

// query reads parameters and keeps the first error.
type query struct {
	values url.Values
	err    error
}

func (q *query) optional(key string) *int64 {
	if !q.values.Has(key) {
		return nil
	}
	n, err := strconv.ParseInt(q.values.Get(key), 10, 64)
	if err != nil || int64(int(n)) != n {
		q.fail(key)
		return nil
	}
	return &n
}

func (q *query) number(key string) int64 {
	if n := q.optional(key); n != nil {
		return *n
	}
	return 0
}

func (q *query) flag(key string) bool {
	if !q.values.Has(key) {
		return false
	}
	on, err := strconv.ParseBool(q.values.Get(key))
	if err != nil {
		q.fail(key)
	}
	return on
}

func (q *query) fail(key string) {
	if q.err == nil {
		q.err = kaval.Invalidf("parameter %s: %q is not a value for it", key, q.values.Get(key))
	}
}
