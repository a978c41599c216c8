package workspace

import (
	"context"
	"errors"
	"slices"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// FiredAgent is Fired of a wait that was met by an agent's state.
const FiredAgent = "agent"

// Wait blocks until the agent is in one of the states, or passes the other conditions on to kaval. A state that holds already is met
// at once; while kaval's line is lost nothing is met, since nothing is known.
func (w *Workspace) Wait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
	if err := checkWait(req); err != nil {
		return padi.WaitResult{}, err
	}
	start := time.Now()
	res, err := w.wait(ctx, id, req)
	if err == nil && res.Result == kaval.Met && req.Tail > 0 {
		err = w.addTail(ctx, id, req.Tail, &res)
	}
	if len(req.Until) > 0 {
		res.ElapsedMS = time.Since(start).Milliseconds()
	}
	return res, err
}

func (w *Workspace) wait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
	switch {
	case req.SettledMS > 0:
		return w.waitSettled(ctx, id, req)
	case len(req.Until) > 0:
		if err := w.ready(ctx); err != nil {
			return padi.WaitResult{}, err
		}
		return w.waitAgent(ctx, id, req)
	}
	if err := w.live(ctx, id); err != nil {
		return padi.WaitResult{}, err
	}
	res, err := w.opt.Kaval.Wait(ctx, id, kaval.WaitRequest{
		IdleMS: req.IdleMS, Match: req.Match, After: req.After, TimeoutMS: req.TimeoutMS,
	})
	return padi.WaitResult{WaitResult: res}, hostErr(err)
}

// waitSettled waits for a state and then for silence, until a silence ends in the state.
func (w *Workspace) waitSettled(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
	start := time.Now()
	for {
		step := padi.WaitRequest{Until: req.Until, TimeoutMS: left(req.TimeoutMS, start)}
		met, err := w.wait(ctx, id, step)
		if err != nil || met.Result != kaval.Met {
			return met, err
		}
		quiet, err := w.wait(ctx, id, padi.WaitRequest{IdleMS: req.SettledMS, TimeoutMS: left(req.TimeoutMS, start)})
		if err != nil || quiet.Result != kaval.Met {
			return quiet, err
		}
		now, _, err := w.reg.look(id, req.Until)
		if err != nil || now.Result != "" {
			now.Settled, now.Offset = now.Result == kaval.Met, quiet.Offset
			return now, err
		}
	}
}

// left is what remains of a timeout, at least a millisecond; 0 stays "no limit".
func left(timeoutMS int64, start time.Time) int64 {
	if timeoutMS == 0 {
		return 0
	}
	return max(timeoutMS-time.Since(start).Milliseconds(), 1)
}

// addTail reads the screen of a wait that was met. A terminal that ended in between is gone.
func (w *Workspace) addTail(ctx context.Context, id padi.TerminalID, lines int, res *padi.WaitResult) error {
	screen, err := w.Screen(ctx, id, kaval.ScreenRequest{Extent: kaval.Tail, Lines: lines, Trim: true})
	if errors.Is(err, kaval.ErrGone) || errors.Is(err, kaval.ErrNoTerminal) {
		*res = padi.WaitResult{WaitResult: kaval.WaitResult{ID: id, Result: kaval.Gone, ElapsedMS: res.ElapsedMS}}
		return nil
	}
	if err == nil {
		res.Screen = &screen.Text
	}
	return err
}

func checkWait(req padi.WaitRequest) error {
	asked := 0
	for _, set := range []bool{len(req.Until) > 0, req.IdleMS != 0, req.Match != ""} {
		if set {
			asked++
		}
	}
	switch {
	case asked != 1:
		return kaval.Invalidf("a wait needs exactly one of until, idleMs and match")
	case req.TimeoutMS < 0 || req.TimeoutMS > kaval.MaxWaitMS:
		return kaval.Invalidf("timeoutMs must be 0 to %d", kaval.MaxWaitMS)
	case req.IdleMS < 0 || req.IdleMS > kaval.MaxWaitMS:
		return kaval.Invalidf("idleMs must be 1 to %d", kaval.MaxWaitMS)
	case req.SettledMS < 0 || req.SettledMS > kaval.MaxWaitMS:
		return kaval.Invalidf("settledMs must be 1 to %d", kaval.MaxWaitMS)
	case req.SettledMS > 0 && len(req.Until) == 0:
		return kaval.Invalidf("settledMs goes with until")
	case req.Tail < 0 || req.Tail > kaval.ScrollbackLines:
		return kaval.Invalidf("tail must be 0 to %d", kaval.ScrollbackLines)
	case len(req.Until) > 0 && req.After != nil:
		return kaval.Invalidf("after goes with match, not with until")
	}
	for _, b := range req.Until {
		if b != padi.BucketWorking && b != padi.BucketAwaiting && b != padi.BucketWaiting {
			return kaval.Invalidf("until %q is not one of working, awaiting, waiting", b)
		}
	}
	return nil
}

func (w *Workspace) waitAgent(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
	start := time.Now()
	var timeout <-chan time.Time
	if req.TimeoutMS > 0 {
		timer := time.NewTimer(time.Duration(req.TimeoutMS) * time.Millisecond)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		res, changed, err := w.reg.look(id, req.Until)
		if err != nil {
			return padi.WaitResult{}, err
		}
		if res.Result == "" {
			select {
			case <-changed:
				continue
			case <-timeout:
				res.Result = kaval.Timeout
			case <-w.done:
				res.Result = kaval.Closed
			case <-ctx.Done():
				return padi.WaitResult{}, ctx.Err()
			}
		}
		res.ElapsedMS = time.Since(start).Milliseconds()
		return res, nil
	}
}

// look gives the answer of a wait as far as there is one (else an empty Result) and what tells of the next change.
func (r *registry) look(id padi.TerminalID, until []padi.Bucket) (padi.WaitResult, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := padi.WaitResult{WaitResult: kaval.WaitResult{ID: id}}
	e := r.entries[id]
	if e == nil {
		if !r.ended.has(id) {
			return res, nil, noTerminal(id)
		}
		res.Result, res.ExitCode = kaval.Gone, r.ended.codes[id]
		return res, nil, nil
	}
	res.Offset = e.output
	a := e.rec.Agent
	if r.connected && e.rec.State == padi.Active && a != nil && slices.Contains(until, a.State.Bucket()) {
		res.Result, res.Fired, res.Agent = kaval.Met, FiredAgent, copied(a)
	}
	return res, r.changed, nil
}
