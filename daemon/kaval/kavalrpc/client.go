package kavalrpc

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"kolu/daemon"
	"kolu/daemon/call"
	"kolu/daemon/kaval"
)

// Client is a kaval.Host at the other end of a connection, wherever that is. Every attachment and watch has a connection of its own,
// so a stream that nobody reads cannot hold up a call. Over a daemon.Redialer nothing ends with a line: calls are asked again, waits and
// streams go on where they were, on the next line.
type Client struct{ calls *call.Client }

var _ kaval.Host = (*Client)(nil)

// NewClient makes a client that dials when it is used. Close it to drop idle connections.
func NewClient(d daemon.Dialer) *Client {
	return &Client{call.New(d, "kaval", func(resp *http.Response) error { return kaval.FromCode(daemon.ReadProblem(resp)) })}
}

// Close drops the connections that no call uses.
func (c *Client) Close() error { return c.calls.Close() }

func (c *Client) Info(ctx context.Context) (info kaval.Info, err error) {
	return info, c.calls.Get(ctx, "/v1/info", nil, &info)
}

func (c *Client) List(ctx context.Context) ([]kaval.Terminal, error) {
	var list terminals
	err := c.calls.Get(ctx, "/v1/terminals", nil, &list)
	return list.Terminals, err
}

func (c *Client) Spawn(ctx context.Context, req kaval.SpawnRequest) (t kaval.Terminal, err error) {
	return t, c.calls.Change(ctx, http.MethodPost, "/v1/terminals", req, &t)
}

func (c *Client) Kill(ctx context.Context, id kaval.TerminalID) error {
	path, err := of(id, "")
	if err != nil {
		return err
	}
	return c.calls.Change(ctx, http.MethodDelete, path, nil, nil)
}

func (c *Client) Write(ctx context.Context, id kaval.TerminalID, in kaval.Input) error {
	if len(in.Data) > kaval.MaxInput {
		return kaval.Invalidf("input of %d bytes is more than %d", len(in.Data), kaval.MaxInput)
	}
	path, err := of(id, "/input")
	if err != nil {
		return err
	}
	return c.calls.ChangeWithin(ctx, writeLimit, http.MethodPost, path, in, nil)
}

func (c *Client) Resize(ctx context.Context, id kaval.TerminalID, size kaval.Size) error {
	path, err := of(id, "/resize")
	if err != nil {
		return err
	}
	return c.calls.Change(ctx, http.MethodPost, path, size, nil)
}

func (c *Client) Screen(ctx context.Context, id kaval.TerminalID, req kaval.ScreenRequest) (s kaval.Screen, err error) {
	q := call.Query{}
	q.Text("extent", string(req.Extent))
	q.Number("lines", int64(req.Lines))
	q.Flag("trim", req.Trim)
	q.Flag("ansi", req.ANSI)
	return s, c.getOf(ctx, id, "/screen", q, &s)
}

func (c *Client) History(ctx context.Context, id kaval.TerminalID, req kaval.HistoryRequest) (p kaval.HistoryPage, err error) {
	if req.Max < 1 {
		return p, kaval.Invalidf("max must be at least 1")
	}
	q := call.Query{}
	q.Number("max", int64(req.Max))
	q.Optional("before", req.Before)
	q.Optional("epoch", req.Epoch)
	return p, c.getOf(ctx, id, "/history", q, &p)
}

// of is the path of a terminal. An id that cannot stand in a path is one that no terminal has.
func of(id kaval.TerminalID, what string) (string, error) {
	if id == "" || id == "." || id == ".." {
		return "", fmt.Errorf("%w: %q", kaval.ErrNoTerminal, string(id))
	}
	return "/v1/terminals/" + url.PathEscape(string(id)) + what, nil
}

func (c *Client) getOf(ctx context.Context, id kaval.TerminalID, what string, q call.Query, v any) error {
	path, err := of(id, what)
	if err != nil {
		return err
	}
	return c.calls.Get(ctx, path, url.Values(q), v)
}

// writeLimit is how long a daemon at the other end of a lasting line may take over a write, which has a limit of its own there.
const writeLimit = kaval.WriteDeadline + 5*time.Second
