package kavalrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"kolu/daemon"
	"kolu/daemon/kaval"
)

// maxAnswer bounds a JSON answer: the whole text of a terminal is the largest.
const maxAnswer = 256 << 20

// Client is a kaval.Host at the other end of a connection, wherever that is. Every attachment and watch has a connection of its own,
// so a stream that nobody reads cannot hold up a call. Over a daemon.Redialer nothing ends with a line: calls are asked again, waits and
// streams go on where they were, on the next line.
type Client struct {
	dialer daemon.Dialer
	http   *http.Client
	memory atomic.Value // string: the daemon's daemon.IdempotencyMemory, as the last answer had it
}

var _ kaval.Host = (*Client)(nil)

// NewClient makes a client that dials when it is used. Close it to drop idle connections.
func NewClient(d daemon.Dialer) *Client { return &Client{dialer: d, http: daemon.HTTPClient(d)} }

// Close drops the connections that no call uses.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

func (c *Client) Info(ctx context.Context) (info kaval.Info, err error) {
	return info, c.get(ctx, "/v1/info", nil, &info)
}

func (c *Client) List(ctx context.Context) ([]kaval.Terminal, error) {
	var list terminals
	err := c.get(ctx, "/v1/terminals", nil, &list)
	return list.Terminals, err
}

func (c *Client) Spawn(ctx context.Context, req kaval.SpawnRequest) (t kaval.Terminal, err error) {
	return t, c.change(ctx, http.MethodPost, "/v1/terminals", req, &t)
}

func (c *Client) Kill(ctx context.Context, id kaval.TerminalID) error {
	path, err := of(id, "")
	if err != nil {
		return err
	}
	return c.change(ctx, http.MethodDelete, path, nil, nil)
}

func (c *Client) Write(ctx context.Context, id kaval.TerminalID, in kaval.Input) error {
	if len(in.Data) > kaval.MaxInput {
		return kaval.Invalidf("input of %d bytes is more than %d", len(in.Data), kaval.MaxInput)
	}
	path, err := of(id, "/input")
	if err != nil {
		return err
	}
	return c.changeWithin(ctx, c.writeLimit(), http.MethodPost, path, in, nil)
}

func (c *Client) Resize(ctx context.Context, id kaval.TerminalID, size kaval.Size) error {
	path, err := of(id, "/resize")
	if err != nil {
		return err
	}
	return c.change(ctx, http.MethodPost, path, size, nil)
}

func (c *Client) Screen(ctx context.Context, id kaval.TerminalID, req kaval.ScreenRequest) (s kaval.Screen, err error) {
	q := url.Values{}
	set(q, "extent", string(req.Extent))
	setNumber(q, "lines", int64(req.Lines))
	setFlag(q, "trim", req.Trim)
	setFlag(q, "ansi", req.ANSI)
	return s, c.getOf(ctx, id, "/screen", q, &s)
}

func (c *Client) History(ctx context.Context, id kaval.TerminalID, req kaval.HistoryRequest) (p kaval.HistoryPage, err error) {
	if req.Max < 1 {
		return p, kaval.Invalidf("max must be at least 1")
	}
	q := url.Values{}
	setNumber(q, "max", int64(req.Max))
	setOptional(q, "before", req.Before)
	setOptional(q, "epoch", req.Epoch)
	return p, c.getOf(ctx, id, "/history", q, &p)
}

// of is the path of a terminal. An id that cannot stand in a path is one that no terminal has.
func of(id kaval.TerminalID, what string) (string, error) {
	if id == "" || id == "." || id == ".." {
		return "", fmt.Errorf("%w: %q", kaval.ErrNoTerminal, string(id))
	}
	return "/v1/terminals/" + url.PathEscape(string(id)) + what, nil
}

func (c *Client) getOf(ctx context.Context, id kaval.TerminalID, what string, q url.Values, v any) error {
	path, err := of(id, what)
	if err != nil {
		return err
	}
	return c.get(ctx, path, q, v)
}

func (c *Client) get(ctx context.Context, path string, q url.Values, v any) error {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return daemon.Retry(ctx, c.dialer, 1, func(ctx context.Context) (bool, error) {
		return c.ask(ctx, http.MethodGet, path, nil, nil, v)
	})
}

// writeLimit is how long a daemon at the other end of a lasting line may take over a write, which has a limit of its own there. On
// this machine the caller's limit counts.
func (c *Client) writeLimit() time.Duration {
	if _, ok := c.dialer.(daemon.Redialer); ok {
		return kaval.WriteDeadline + 5*time.Second
	}
	return 0
}

// change sends a request that changes something. When the line broke before the answer came it is sent again, under the same key, so
// that it is done once at most.
func (c *Client) change(ctx context.Context, method, path string, in, out any) error {
	return c.changeWithin(ctx, 0, method, path, in, out)
}

// changeWithin is change, where each request is given so long for its answer; 0 is no limit.
func (c *Client) changeWithin(ctx context.Context, limit time.Duration, method, path string, in, out any) error {
	var data []byte
	if in != nil {
		var err error
		if data, err = json.Marshal(in); err != nil {
			return err
		}
	}
	header := http.Header{daemon.IdempotencyKey: {uuid.NewString()}}
	memory, _ := c.memory.Load().(string)
	return daemon.Retry(ctx, c.dialer, 2, func(ctx context.Context) (bool, error) {
		limited, cancel := daemon.Limit(ctx, limit.Milliseconds(), 0)
		defer cancel()
		answered, err := c.ask(limited, method, path, data, header, out)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			answered, err = false, fmt.Errorf("no answer within %s", limit)
		}
		if memory != "" {
			header.Set(daemon.IdempotencyMemory, memory) // from the second time on
		}
		return answered, err
	})
}

// ask sends a request once. answered reports that the answer came whole, be it an error.
func (c *Client) ask(ctx context.Context, method, path string, data []byte, header http.Header, out any) (answered bool, err error) {
	resp, err := c.do(ctx, method, path, data, header)
	if err == nil {
		err = c.decode(resp, out)
	}
	_, broken := errors.AsType[*lineBroke](err)
	return !broken, err
}

// lineBroke is a request to which no answer came.
type lineBroke struct{ err error }

func (e *lineBroke) Error() string { return e.err.Error() }
func (e *lineBroke) Unwrap() error { return e.err }

// do sends a request and gives an answer that is no problem; its body is the caller's to close.
func (c *Client) do(ctx context.Context, method, path string, data []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://kaval"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	if data != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &lineBroke{daemon.Unwrapped(err)}
	}
	if memory := resp.Header.Get(daemon.IdempotencyMemory); memory != "" {
		c.memory.Store(memory)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, kaval.FromCode(daemon.ReadProblem(resp))
	}
	return resp, nil
}

func (c *Client) decode(resp *http.Response, v any) error {
	defer resp.Body.Close()
	if v == nil {
		v = &struct{}{}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(v); err != nil {
		return &lineBroke{fmt.Errorf("read answer: %w", lineError(err))}
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // so that the connection can be used again
	return nil
}

func set(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}

func setNumber(q url.Values, key string, n int64) {
	if n != 0 {
		q.Set(key, strconv.FormatInt(n, 10))
	}
}

func setOptional(q url.Values, key string, n *int64) {
	if n != nil {
		q.Set(key, strconv.FormatInt(*n, 10))
	}
}

func setFlag(q url.Values, key string, on bool) {
	if on {
		q.Set(key, "true")
	}
}
