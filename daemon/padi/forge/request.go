package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 8 << 20
	// maxCached bounds how many answers are kept to ask whether they changed, which costs nothing of the rate.
	maxCached = 512
	// restAfter is how long GitHub is left alone when it says that it is too much, and not for how long.
	restAfter = time.Minute
)

// failure is an answer that is none. Its code is that of a padi.PR.
type failure struct {
	code   string
	detail string
}

func (f *failure) Error() string { return f.detail }

// code is the code of an error.
func code(ctx context.Context, err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ctx.Err() != nil || (ok && timeout.Timeout()) {
		return "timed-out"
	}
	return "unknown"
}

// cached is an answer with the mark by which GitHub knows it.
type cached struct {
	etag  string
	value any
	used  time.Time
}

// get asks for one thing. With a token that is refused it asks once more, for the user may have logged in anew.
func get[T any](ctx context.Context, g *GitHub, path string) (value T, err error) {
	token, err := g.tokens.get(ctx)
	if err != nil {
		return value, err
	}
	value, err = getWith[T](ctx, g, path, token)
	if f, ok := errors.AsType[*failure](err); ok && f.code == "not-authenticated" {
		g.tokens.forget()
		fresh, tokenErr := g.tokens.get(ctx)
		if tokenErr != nil || fresh == token {
			return value, err
		}
		return getWith[T](ctx, g, path, fresh)
	}
	return value, err
}

func getWith[T any](ctx context.Context, g *GitHub, path, token string) (value T, err error) {
	known, err := g.before(path)
	if err != nil {
		return value, err
	}
	resp, err := g.send(ctx, path, token, known.etag)
	if err != nil {
		return value, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && known.value != nil:
		g.keep(path, known)
		return known.value.(T), nil
	case resp.StatusCode != http.StatusOK:
		return value, g.refused(resp)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&value); err != nil {
		if ctx.Err() != nil {
			return value, ctx.Err()
		}
		return value, &failure{"unknown", fmt.Sprintf("read GitHub's answer: %v", err)}
	}
	if etag := resp.Header.Get("ETag"); etag != "" {
		g.keep(path, cached{etag: etag, value: value})
	}
	return value, nil
}

// before gives what is known, or refuses while GitHub wants to be left alone.
func (g *GitHub) before(path string) (cached, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.blocked) {
		return cached{}, &failure{"rate-limited", "GitHub wants no request before " + g.blocked.Format(time.TimeOnly)}
	}
	return g.cache[path], nil
}

func (g *GitHub) keep(path string, c cached) {
	c.used = time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cache[path] = c
	if len(g.cache) <= maxCached {
		return
	}
	oldest := path
	for p, other := range g.cache {
		if other.used.Before(g.cache[oldest].used) {
			oldest = p
		}
	}
	delete(g.cache, oldest)
}

func (g *GitHub) send(ctx context.Context, path, token, etag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", g.agent)
	req.Header.Set("Authorization", "Bearer "+token)
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := g.client.Do(req)
	if err != nil && code(ctx, err) != "timed-out" {
		return nil, &failure{"unreachable", fmt.Sprintf("reach GitHub: %v", err)}
	}
	return resp, err
}

// refused is the failure of an answer that is none.
func (g *GitHub) refused(resp *http.Response) error {
	detail := "GitHub answered " + resp.Status
	limited := resp.Header.Get("X-RateLimit-Remaining") == "0" || resp.Header.Get("Retry-After") != ""
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return &failure{"not-authenticated", detail}
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusForbidden && limited:
		g.mu.Lock()
		g.blocked = time.Now().Add(rest(resp.Header))
		g.mu.Unlock()
		return &failure{"rate-limited", detail}
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusNotFound: // it hides what one may not see
		return &failure{"forbidden", detail}
	}
	return &failure{"unknown", detail}
}

// rest is how long GitHub says to wait, at most an hour.
func rest(h http.Header) time.Duration {
	wait := restAfter
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil {
		wait = time.Duration(s) * time.Second
	} else if at, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil {
		wait = time.Until(time.Unix(at, 0))
	}
	return min(max(wait, time.Second), time.Hour)
}
