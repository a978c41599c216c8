package workspace

import (
	"context"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// agentScreen is a terminal's screen as the agents are known by it.
func (w *Workspace) agentScreen(ctx context.Context, id padi.TerminalID) (kaval.Screen, error) {
	return w.opt.Kaval.Screen(ctx, id, kaval.ScreenRequest{Extent: kaval.Viewport})
}

// Explain says why a terminal's agent is what it is.
func (w *Workspace) Explain(ctx context.Context, id padi.TerminalID) (padi.Explanation, error) {
	rec, err := w.Terminal(ctx, id)
	if err != nil {
		return padi.Explanation{}, err
	}
	x, ok := w.agents.Explain(id)
	if !ok {
		x = padi.Explanation{ID: id, Resume: rec.Resume, Evidence: []padi.Evidence{{Source: "terminal", Detail: "the terminal is " + string(rec.State)}}}
	}
	return x, nil
}
