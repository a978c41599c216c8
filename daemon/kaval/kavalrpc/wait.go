package kavalrpc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"kolu/daemon"
	"kolu/daemon/call"
	"kolu/daemon/kaval"
)

// Wait blocks in the host. On a new line, and when another build takes the daemon over, it is asked again: for a match from the place
// where the first one began, so that nothing printed in between is missed; for a silence anew, so that no silence of the line is
// taken for one of the terminal; with what is left of its time.
func (c *Client) Wait(ctx context.Context, id kaval.TerminalID, req kaval.WaitRequest) (r kaval.WaitResult, err error) {
	began := time.Now()
	over, err := call.Within(ctx, req.TimeoutMS, func(ctx context.Context) error { return c.lastingWait(ctx, id, req, began, &r) })
	if over {
		r = kaval.WaitResult{ID: id, Result: kaval.Timeout}
	}
	if err == nil {
		r.ElapsedMS = time.Since(began).Milliseconds()
	}
	return r, err
}

func (c *Client) lastingWait(ctx context.Context, id kaval.TerminalID, req kaval.WaitRequest, began time.Time, r *kaval.WaitResult) error {
	path, err := of(id, "/wait")
	if err != nil {
		return err
	}
	if req.Match != "" && req.After == nil {
		at, err := c.output(ctx, id)
		if err != nil && !errors.Is(err, kaval.ErrGone) {
			return err
		}
		req.After = &at
	}
	tries, err := c.calls.Ask(ctx, path, plainTries, func() url.Values {
		now := req
		now.TimeoutMS = daemon.Remaining(req.TimeoutMS, began)
		return url.Values(waitQuery(now))
	}, r)
	if err == nil && r.Moved {
		*r = kaval.WaitResult{}
		return c.lastingWait(ctx, id, req, began, r)
	}
	if tries > 1 && errors.Is(err, kaval.ErrNoTerminal) { // it was there when the wait began
		err = fmt.Errorf("%w: %s ended while the line was down", kaval.ErrGone, id.Short())
	}
	return err
}

// output is the offset after the last byte of a terminal.
func (c *Client) output(ctx context.Context, id kaval.TerminalID) (int64, error) {
	var t kaval.Terminal
	err := c.getOf(ctx, id, "", nil, &t)
	return t.Output, err
}

func waitQuery(req kaval.WaitRequest) call.Query {
	q := call.Query{}
	q.Number("idleMs", req.IdleMS)
	q.Text("match", req.Match)
	q.Optional("after", req.After)
	q.Number("timeoutMs", req.TimeoutMS)
	return q
}
