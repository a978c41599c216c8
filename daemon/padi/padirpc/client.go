package padirpc

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
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Client is the workspace of a padi behind a Dialer. Over a daemon.Redialer nothing ends with a line: calls are asked again, waits and
// watches go on where they were, on the next line.
type Client struct {
	dialer daemon.Dialer
	http   *http.Client
	memory atomic.Value // string: the daemon's daemon.IdempotencyMemory, as the last answer had it
}

var _ padi.Workspace = (*Client)(nil)

// NewClient makes a client; it dials when it is first asked.
func NewClient(d daemon.Dialer) *Client { return &Client{dialer: d, http: daemon.HTTPClient(d)} }

// Close lets go of idle connections. The client can still be used.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Terminals gives every record, in registry order.
func (c *Client) Terminals(ctx context.Context) ([]padi.Record, error) {
	var out roster
	err := c.get(ctx, "/v1/terminals", nil, &out)
	return out.Terminals, err
}

// Terminal gives one record.
func (c *Client) Terminal(ctx context.Context, id padi.TerminalID) (rec padi.Record, err error) {
	err = c.get(ctx, path(id, ""), nil, &rec)
	return rec, err
}

// Create makes a terminal.
func (c *Client) Create(ctx context.Context, req padi.CreateRequest) (made padi.Created, err error) {
	err = c.change(ctx, http.MethodPost, "/v1/terminals", req, &made)
	return made, err
}

// Kill ends a terminal and forgets it.
func (c *Client) Kill(ctx context.Context, id padi.TerminalID) (rec padi.Record, err error) {
	err = c.change(ctx, http.MethodDelete, path(id, ""), nil, &rec)
	return rec, err
}

// Write hands input to the terminal's program.
func (c *Client) Write(ctx context.Context, id padi.TerminalID, in kaval.Input) error {
	return c.changeWithin(ctx, c.writeLimit(), http.MethodPost, path(id, "/input"), in, &nothing{})
}

// Resize sets the terminal's grid.
func (c *Client) Resize(ctx context.Context, id padi.TerminalID, size kaval.Size) error {
	return c.change(ctx, http.MethodPost, path(id, "/resize"), size, &nothing{})
}

// Screen gives what the terminal shows.
func (c *Client) Screen(ctx context.Context, id padi.TerminalID, req kaval.ScreenRequest) (screen kaval.Screen, err error) {
	q := url.Values{}
	text(q, "extent", string(req.Extent))
	number(q, "lines", int64(req.Lines))
	flag(q, "trim", req.Trim)
	flag(q, "ansi", req.ANSI)
	err = c.get(ctx, path(id, "/screen"), q, &screen)
	return screen, err
}

// History gives one page of the lines above the screen.
func (c *Client) History(ctx context.Context, id padi.TerminalID, req kaval.HistoryRequest) (page kaval.HistoryPage, err error) {
	q := url.Values{}
	optional(q, "before", req.Before)
	number(q, "max", int64(req.Max))
	optional(q, "epoch", req.Epoch)
	err = c.get(ctx, path(id, "/history"), q, &page)
	return page, err
}

// Kaval says how padi's kaval is.
func (c *Client) Kaval(ctx context.Context) (status padi.KavalStatus, err error) {
	err = c.get(ctx, "/v1/kaval", nil, &status)
	return status, err
}

func (c *Client) get(ctx context.Context, path string, q url.Values, out any) error {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return daemon.Retry(ctx, c.dialer, 1, func(ctx context.Context) (bool, error) {
		return c.ask(ctx, http.MethodGet, path, nil, nil, out)
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

// change asks for something to be done. When the line breaks before the answer it asks again with the same key, so that the daemon
// does it once whichever of the requests arrived.
func (c *Client) change(ctx context.Context, method, path string, in, out any) error {
	return c.changeWithin(ctx, 0, method, path, in, out)
}

// changeWithin is change, where each request is given so long for its answer; 0 is no limit.
func (c *Client) changeWithin(ctx context.Context, limit time.Duration, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	header := http.Header{daemon.IdempotencyKey: {uuid.NewString()}, "Content-Type": {"application/json"}}
	memory, _ := c.memory.Load().(string)
	return daemon.Retry(ctx, c.dialer, 2, func(ctx context.Context) (bool, error) {
		limited, cancel := daemon.Limit(ctx, limit.Milliseconds(), 0)
		defer cancel()
		answered, err := c.ask(limited, method, path, body, header, out)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			answered, err = false, fmt.Errorf("no answer within %s", limit)
		}
		if memory != "" {
			header.Set(daemon.IdempotencyMemory, memory) // from the second time on
		}
		return answered, err
	})
}

// ask sends one request. answered reports that the daemon's answer came whole, be it an error.
func (c *Client) ask(ctx context.Context, method, path string, body []byte, header http.Header, out any) (answered bool, err error) {
	resp, err := c.send(ctx, method, path, body, header)
	if err != nil {
		_, answered := errors.AsType[*refusal](err)
		return answered, plain(err)
	}
	defer resp.Body.Close()
	if err := daemon.ReadJSON(resp.Body, out); err != nil {
		return false, fmt.Errorf("read answer: %w", err)
	}
	return true, nil
}

// refusal is an error that the daemon answered.
type refusal struct{ error }

// plain is the error without the mark of a refusal.
func plain(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.error
	}
	return err
}

// send gives the response of a request that went well. What the daemon refused is a *refusal.
func (c *Client) send(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, &refusal{fmt.Errorf("terminal id is no id: %w", kaval.ErrNoTerminal)}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://padi"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, daemon.Unwrapped(err)
	}
	if memory := resp.Header.Get(daemon.IdempotencyMemory); memory != "" {
		c.memory.Store(memory)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readRefusal(resp)
}

// maxProblem bounds what is read of an error.
const maxProblem = 64 << 10

func readRefusal(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return err
	}
	var p problem
	if json.Unmarshal(body, &p) == nil && p.Code != "" && p.Landed != nil {
		return &refusal{p.err()}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	code, detail := daemon.ReadProblem(resp)
	return &refusal{padi.FromCode(code, detail)}
}

// path is the path of a terminal, or empty for an id that cannot be one: it would not survive the cleaning of a path.
func path(id padi.TerminalID, rest string) string {
	if id == "" || id == "." || id == ".." {
		return ""
	}
	return "/v1/terminals/" + url.PathEscape(string(id)) + rest
}

func text(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func number(q url.Values, name string, value int64) {
	if value != 0 {
		q.Set(name, strconv.FormatInt(value, 10))
	}
}

func optional(q url.Values, name string, value *int64) {
	if value != nil {
		q.Set(name, strconv.FormatInt(*value, 10))
	}
}

func flag(q url.Values, name string, value bool) {
	if value {
		q.Set(name, "true")
	}
}
