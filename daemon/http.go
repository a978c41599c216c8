package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// MaxBody is the most bytes of a JSON message, either way: enough for the greatest input in base64.
const MaxBody = 16 << 20

// HTTPClient speaks HTTP over a Dialer; the host in a URL means nothing. It has no time limit of its own, so bound each
// request with its context. Connections are reused; a request that streams keeps one for itself.
func HTTPClient(d Dialer) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return d.Dial(ctx) },
			DisableCompression:  true,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Unwrapped is the cause of an *http.Client's error without the method and the URL, which mean nothing to a user.
func Unwrapped(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// ReadJSON reads one JSON value from r, of at most MaxBody bytes; fields that v lacks are ignored.
func ReadJSON(r io.Reader, v any) error {
	dec := json.NewDecoder(io.LimitReader(r, MaxBody))
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more than one JSON value, or one that is too long")
	}
	return nil
}

// WriteJSON answers a request with a JSON value.
func WriteJSON(w http.ResponseWriter, status int, v any) { writeBody(w, status, "application/json", v) }

// WriteProblem answers a request with an error: application/problem+json with code, detail and status.
func WriteProblem(w http.ResponseWriter, status int, code, detail string) {
	writeBody(w, status, problemType, problem{Code: code, Detail: detail, Status: status})
}

func writeBody(w http.ResponseWriter, status int, contentType string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, contentType = http.StatusInternalServerError, problemType
		body, _ = json.Marshal(problem{Code: "internal", Detail: "encode answer: " + err.Error(), Status: status})
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)+1))
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // a client that has gone is no concern of ours
}

const problemType = "application/problem+json"

type problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Status int    `json:"status"`
}

// ReadProblem reads the error out of a response whose status says that it is one. What is no problem document gives an
// empty code and a sentence with the status.
func ReadProblem(resp *http.Response) (code, detail string) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var p problem
	if strings.HasPrefix(resp.Header.Get("Content-Type"), problemType) && json.Unmarshal(body, &p) == nil && p.Detail != "" {
		return p.Code, p.Detail
	}
	return "", fmt.Sprintf("the daemon answered %s", resp.Status)
}

// The codes of requests that no route answers: a newer client meets them at an older daemon.
const (
	NoRoute  = "no-route"
	NoMethod = "no-method"
)

// problems makes problem documents of what a ServeMux itself says: that a route or a method is unknown, or that a path is not clean.
func problems(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&problemWriter{ResponseWriter: w, request: r}, r)
	})
}

type problemWriter struct {
	http.ResponseWriter
	request  *http.Request
	replaced bool
}

func (w *problemWriter) WriteHeader(status int) {
	header := w.Header()
	if header.Get("Content-Type") == problemType {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	route := w.request.Method + " " + w.request.URL.Path
	switch {
	case status == http.StatusNotFound:
		w.replace(status, NoRoute, "this daemon has no "+route)
	case status == http.StatusMethodNotAllowed:
		w.replace(status, NoMethod, "this daemon has no "+route+", only "+header.Get("Allow"))
	case status >= 300 && status < 400:
		header.Del("Location")
		w.replace(http.StatusNotFound, NoRoute, "this daemon has no "+route+", which is not a clean path")
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *problemWriter) replace(status int, code, detail string) {
	w.replaced = true
	w.Header().Del("X-Content-Type-Options")
	WriteProblem(w.ResponseWriter, status, code, detail)
}

func (w *problemWriter) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *problemWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// limitBodies bounds what a request may carry.
func limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		next.ServeHTTP(w, r)
	})
}
