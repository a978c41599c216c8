package padirpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// lateAnswer is how long after its own timeout a wait may still answer before it counts as timed out here: the line may be down.
const lateAnswer = 2 * time.Second

// Wait blocks in the daemon until its answer. On a new line it is asked again: for a match from the place where the first one began,
// so that nothing printed in between is missed; for a silence anew, so that no silence of the line is taken for one of the
// terminal; with what is left of its time.
func (c *Client) Wait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
	if _, ok := c.dialer.(daemon.Redialer); !ok {
		var res padi.WaitResult
		return res, c.get(ctx, path(id, "/wait"), waitQuery(req), &res)
	}
	began := time.Now()
	limited, cancel := daemon.Limit(ctx, req.TimeoutMS, lateAnswer)
	defer cancel()
	res, err := c.lastingWait(limited, id, req, began)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		res, err = padi.WaitResult{WaitResult: kaval.WaitResult{ID: id, Result: kaval.Timeout}}, nil
	}
	if err == nil {
		res.ElapsedMS = time.Since(began).Milliseconds()
	}
	return res, err
}

func (c *Client) lastingWait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest, began time.Time) (res padi.WaitResult, err error) {
	if req.Match != "" && req.After == nil {
		screen, err := c.Screen(ctx, id, kaval.ScreenRequest{Extent: kaval.Tail})
		if err != nil && !errors.Is(err, kaval.ErrGone) {
			return res, err
		}
		req.After = &screen.Offset
	}
	tries := 0
	err = daemon.Retry(ctx, c.dialer, 1, func(ctx context.Context) (bool, error) {
		tries++
		now := req
		now.TimeoutMS = daemon.Remaining(req.TimeoutMS, began)
		return c.ask(ctx, http.MethodGet, path(id, "/wait")+"?"+waitQuery(now).Encode(), nil, nil, &res)
	})
	if tries > 1 && errors.Is(err, kaval.ErrNoTerminal) { // it was there when the wait began
		err = fmt.Errorf("%w: %s ended while the line was down", kaval.ErrGone, id.Short())
	}
	return res, err
}

func waitQuery(req padi.WaitRequest) url.Values {
	q := url.Values{}
	until := make([]string, len(req.Until))
	for i, b := range req.Until {
		until[i] = string(b)
	}
	text(q, "until", strings.Join(until, ","))
	number(q, "idleMs", req.IdleMS)
	text(q, "match", req.Match)
	optional(q, "after", req.After)
	number(q, "timeoutMs", req.TimeoutMS)
	return q
}
