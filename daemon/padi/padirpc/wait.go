package padirpc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"kolu/daemon"
	"kolu/daemon/call"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Wait blocks in the daemon until its answer. On a new line it is asked again: for a match from the place where the first one began,
// so that nothing printed in between is missed; for a silence anew, so that no silence of the line is taken for one of the
// terminal; with what is left of its time.
func (c *Client) Wait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (res padi.WaitResult, err error) {
	if !c.calls.Lasting() {
		return res, c.get(ctx, path(id, "/wait"), waitQuery(req), &res)
	}
	began := time.Now()
	over, err := call.Within(ctx, req.TimeoutMS, func(ctx context.Context) error { return c.lastingWait(ctx, id, req, began, &res) })
	if over {
		res = padi.WaitResult{WaitResult: kaval.WaitResult{ID: id, Result: kaval.Timeout}}
	}
	if err == nil {
		res.ElapsedMS = time.Since(began).Milliseconds()
	}
	return res, err
}

func (c *Client) lastingWait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest, began time.Time, res *padi.WaitResult) error {
	p := path(id, "/wait")
	if p == "" {
		return errNoID
	}
	if req.Match != "" && req.After == nil {
		screen, err := c.Screen(ctx, id, kaval.ScreenRequest{Extent: kaval.Tail})
		if err != nil && !errors.Is(err, kaval.ErrGone) {
			return err
		}
		req.After = &screen.Offset
	}
	tries, err := c.calls.Ask(ctx, p, 1, func() url.Values {
		now := req
		now.TimeoutMS = daemon.Remaining(req.TimeoutMS, began)
		return url.Values(waitQuery(now))
	}, res)
	if tries > 1 && errors.Is(err, kaval.ErrNoTerminal) { // it was there when the wait began
		err = fmt.Errorf("%w: %s ended while the line was down", kaval.ErrGone, id.Short())
	}
	return err
}

func waitQuery(req padi.WaitRequest) call.Query {
	q := call.Query{}
	until := make([]string, len(req.Until))
	for i, b := range req.Until {
		until[i] = string(b)
	}
	q.Text("until", strings.Join(until, ","))
	q.Number("idleMs", req.IdleMS)
	q.Text("match", req.Match)
	q.Optional("after", req.After)
	q.Number("timeoutMs", req.TimeoutMS)
	return q
}
