package drive

import (
	"context"
	"slices"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Waiter is the part of a workspace that waits need.
type Waiter interface {
	Terminal(ctx context.Context, id padi.TerminalID) (padi.Record, error)
	Wait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error)
}

// Wait is w.Wait, and where settledMS is set and the wait is for an agent's state, it is met only when the terminal also stayed
// quiet for so long in that state: a main loop can end its turn while something it started still prints.
func Wait(ctx context.Context, w Waiter, id padi.TerminalID, req padi.WaitRequest, settledMS int64) (padi.WaitResult, error) {
	if settledMS == 0 || len(req.Until) == 0 {
		return w.Wait(ctx, id, req)
	}
	start := time.Now()
	for {
		left, ok := remaining(req.TimeoutMS, start)
		if !ok {
			return timedOut(id, start), nil
		}
		met, err := w.Wait(ctx, id, padi.WaitRequest{Until: req.Until, TimeoutMS: left})
		if err != nil || met.Result != kaval.Met {
			met.ElapsedMS = time.Since(start).Milliseconds()
			return met, err
		}
		if left, ok = remaining(req.TimeoutMS, start); !ok {
			return timedOut(id, start), nil
		}
		quiet, err := w.Wait(ctx, id, padi.WaitRequest{IdleMS: settledMS, TimeoutMS: left})
		if err != nil || quiet.Result != kaval.Met {
			quiet.ElapsedMS = time.Since(start).Milliseconds()
			return quiet, err
		}
		rec, err := w.Terminal(ctx, id)
		if err != nil {
			return padi.WaitResult{}, err
		}
		if rec.Agent != nil && slices.Contains(req.Until, rec.Agent.State.Bucket()) {
			met.Agent, met.ElapsedMS, met.Offset = rec.Agent, time.Since(start).Milliseconds(), quiet.Offset
			return met, nil
		}
	}
}

// remaining is what is left of a timeout; 0 stays "no limit".
func remaining(timeoutMS int64, start time.Time) (int64, bool) {
	if timeoutMS == 0 {
		return 0, true
	}
	left := timeoutMS - time.Since(start).Milliseconds()
	return left, left > 0
}

func timedOut(id padi.TerminalID, start time.Time) padi.WaitResult {
	return padi.WaitResult{WaitResult: kaval.WaitResult{ID: id, Result: kaval.Timeout, ElapsedMS: time.Since(start).Milliseconds()}}
}
