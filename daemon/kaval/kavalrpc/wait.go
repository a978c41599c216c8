package kavalrpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
)

// lateAnswer is how long after its own timeout a wait may still answer before it counts as timed out here: the line may be down.
const lateAnswer = 2 * time.Second

// Wait blocks in the host. On a new line it is asked again: for a match from the place where the first one began, so that nothing
// printed in between is missed; for a silence anew, so that no silence of the line is taken for one of the terminal; with what
// is left of its time.
func (c *Client) Wait(ctx context.Context, id kaval.TerminalID, req kaval.WaitRequest) (kaval.WaitResult, error) {
	if _, ok := c.dialer.(daemon.Redialer); !ok {
		var r kaval.WaitResult
		return r, c.getOf(ctx, id, "/wait", waitQuery(req), &r)
	}
	began := time.Now()
	limited, cancel := daemon.Limit(ctx, req.TimeoutMS, lateAnswer)
	defer cancel()
	r, err := c.lastingWait(limited, id, req, began)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		r, err = kaval.WaitResult{ID: id, Result: kaval.Timeout}, nil
	}
	if err == nil {
		r.ElapsedMS = time.Since(began).Milliseconds()
	}
	return r, err
}

func (c *Client) lastingWait(ctx context.Context, id kaval.TerminalID, req kaval.WaitRequest, began time.Time) (r kaval.WaitResult, err error) {
	path, err := of(id, "/wait")
	if err != nil {
		return r, err
	}
	if req.Match != "" && req.After == nil {
		at, err := c.output(ctx, id)
		if err != nil && !errors.Is(err, kaval.ErrGone) {
			return r, err
		}
		req.After = &at
	}
	tries := 0
	err = daemon.Retry(ctx, c.dialer, 1, func(ctx context.Context) (bool, error) {
		tries++
		now := req
		now.TimeoutMS = daemon.Remaining(req.TimeoutMS, began)
		return c.ask(ctx, http.MethodGet, path+"?"+waitQuery(now).Encode(), nil, nil, &r)
	})
	if tries > 1 && errors.Is(err, kaval.ErrNoTerminal) { // it was there when the wait began
		err = fmt.Errorf("%w: %s ended while the line was down", kaval.ErrGone, id.Short())
	}
	return r, err
}

// output is the offset after the last byte of a terminal.
func (c *Client) output(ctx context.Context, id kaval.TerminalID) (int64, error) {
	var t kaval.Terminal
	err := c.getOf(ctx, id, "", nil, &t)
	return t.Output, err
}

func waitQuery(req kaval.WaitRequest) url.Values {
	q := url.Values{}
	setNumber(q, "idleMs", req.IdleMS)
	set(q, "match", req.Match)
	setOptional(q, "after", req.After)
	setNumber(q, "timeoutMs", req.TimeoutMS)
	return q
}
