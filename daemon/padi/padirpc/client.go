package padirpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"kolu/daemon"
	"kolu/daemon/call"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Client is the workspace of a padi behind a Dialer. Over a daemon.Redialer nothing ends with a line: calls are asked again, waits and
// watches go on where they were, on the next line.
type Client struct{ calls *call.Client }

var _ padi.Workspace = (*Client)(nil)

// NewClient makes a client; it dials when it is first asked.
func NewClient(d daemon.Dialer) *Client { return &Client{call.New(d, "padi", refused)} }

// Close lets go of idle connections. The client can still be used.
func (c *Client) Close() error { return c.calls.Close() }

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
	p := path(id, "/input")
	if p == "" {
		return errNoID
	}
	return c.calls.ChangeWithin(ctx, writeLimit, http.MethodPost, p, in, nil)
}

// Resize sets the terminal's grid.
func (c *Client) Resize(ctx context.Context, id padi.TerminalID, size kaval.Size) error {
	return c.change(ctx, http.MethodPost, path(id, "/resize"), size, nil)
}

// Screen gives what the terminal shows.
func (c *Client) Screen(ctx context.Context, id padi.TerminalID, req kaval.ScreenRequest) (screen kaval.Screen, err error) {
	q := call.Query{}
	q.Text("extent", string(req.Extent))
	q.Number("lines", int64(req.Lines))
	q.Flag("trim", req.Trim)
	q.Flag("ansi", req.ANSI)
	err = c.get(ctx, path(id, "/screen"), q, &screen)
	return screen, err
}

// History gives one page of the lines above the screen.
func (c *Client) History(ctx context.Context, id padi.TerminalID, req kaval.HistoryRequest) (page kaval.HistoryPage, err error) {
	q := call.Query{}
	q.Optional("before", req.Before)
	q.Number("max", int64(req.Max))
	q.Optional("epoch", req.Epoch)
	err = c.get(ctx, path(id, "/history"), q, &page)
	return page, err
}

// Kaval says how padi's kaval is.
func (c *Client) Kaval(ctx context.Context) (status padi.KavalStatus, err error) {
	err = c.get(ctx, "/v1/kaval", nil, &status)
	return status, err
}

// writeLimit is how long a daemon at the other end of a lasting line may take over a write, which has a limit of its own there.
const writeLimit = kaval.WriteDeadline + 5*time.Second

// get asks at a path; an empty one is that of an id that cannot be one.
func (c *Client) get(ctx context.Context, path string, q call.Query, out any) error {
	if path == "" {
		return errNoID
	}
	return c.calls.Get(ctx, path, url.Values(q), out)
}

// change is get for what changes something.
func (c *Client) change(ctx context.Context, method, path string, in, out any) error {
	if path == "" {
		return errNoID
	}
	return c.calls.Change(ctx, method, path, in, out)
}

var errNoID = fmt.Errorf("terminal id is no id: %w", kaval.ErrNoTerminal)

// maxProblem bounds what is read of an error.
const maxProblem = 64 << 10

// refused is the error that an answer other than 200 means.
func refused(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return &call.Broken{Err: err}
	}
	var p problem
	if json.Unmarshal(body, &p) == nil && p.Code != "" && p.Landed != nil {
		return p.err()
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return padi.FromCode(daemon.ReadProblem(resp))
}

// path is the path of a terminal, or empty for an id that cannot be one: it would not survive the cleaning of a path.
func path(id padi.TerminalID, rest string) string {
	if id == "" || id == "." || id == ".." {
		return ""
	}
	return "/v1/terminals/" + url.PathEscape(string(id)) + rest
}
