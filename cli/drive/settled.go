package drive

import (
	"context"
	"fmt"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Waiter is the part of a workspace that waits need.
type Waiter interface {
	Wait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error)
	Screen(ctx context.Context, id padi.TerminalID, req kaval.ScreenRequest) (kaval.Screen, error)
}

// Wait is w.Wait, and an error where the padi is too old to know of silence within a state. The screen that was asked for is read here where the
// padi did not give it.
func Wait(ctx context.Context, w Waiter, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
	res, err := w.Wait(ctx, id, req)
	switch {
	case err != nil || res.Result != kaval.Met:
		return res, err
	case req.SettledMS > 0 && !res.Settled:
		return res, fmt.Errorf("%w: the padi there is of a build that has no wait --settled", kaval.ErrRefused)
	case req.Tail > 0 && res.Screen == nil:
		screen, err := w.Screen(ctx, id, kaval.ScreenRequest{Extent: kaval.Tail, Lines: req.Tail, Trim: true})
		res.Screen = &screen.Text
		return res, err
	}
	return res, nil
}
