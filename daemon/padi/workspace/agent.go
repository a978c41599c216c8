package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents/submit"
)

var _ padi.AgentKeeper = (*Workspace)(nil)

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

// RecentAgents are the command lines by which agents were started here last.
func (w *Workspace) RecentAgents(ctx context.Context) ([]padi.RecentAgent, error) {
	if err := w.ready(ctx); err != nil {
		return nil, err
	}
	return w.agents.Recent(), nil
}

// Prompt hands a text to a terminal's agent. Prompts to one terminal follow one another.
func (w *Workspace) Prompt(ctx context.Context, id padi.TerminalID, req padi.PromptRequest) (padi.Receipt, error) {
	if err := req.Check(); err != nil {
		return padi.Receipt{}, err
	}
	if err := w.live(ctx, id); errors.Is(err, kaval.ErrGone) {
		return padi.Receipt{ID: id, Result: padi.AgentGone, Reason: err.Error()}, nil
	} else if err != nil {
		return padi.Receipt{}, err
	}
	turn, free := w.turns.claim(id)
	defer free()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return padi.Receipt{}, ctx.Err()
	}
	defer func() { <-turn }()
	r, err := submit.Prompt(ctx, &promptTarget{w: w, id: id}, req)
	if err != nil {
		w.sent(ctx, padi.SendPrompt, id, req.Data, err)
		return padi.Receipt{}, fmt.Errorf("prompt %s: %w", id.Short(), hostErr(err))
	}
	r.ID = id
	code := string(r.Result)
	if r.Result == padi.Taken {
		code = ""
	}
	w.record(ctx, padi.SendPrompt, id, req.Data, code)
	if r.Result == padi.Taken {
		w.reg.agentMoved(id)
		if rec, ok := w.reg.record(id); ok {
			r.Agent = rec.Agent
		}
	}
	return r, nil
}

// promptTarget is a terminal as a prompt sees it.
type promptTarget struct {
	w  *Workspace
	id padi.TerminalID
}

func (t *promptTarget) Look(ctx context.Context) (submit.Look, error) {
	rec, code, err := t.w.reg.lookAt(t.id)
	if errors.Is(err, kaval.ErrGone) {
		return submit.Look{Gone: true, ExitCode: code}, nil
	}
	if err != nil {
		return submit.Look{}, err
	}
	screen, err := t.w.agentScreen(ctx, t.id)
	if errors.Is(err, kaval.ErrGone) || errors.Is(err, kaval.ErrNoTerminal) {
		return submit.Look{Gone: true}, nil
	}
	if err != nil {
		return submit.Look{}, err
	}
	l := submit.Look{Agent: rec.Agent, Screen: screen, IdleMS: rec.IdleMS}
	if rec.Foreground != nil {
		l.Front = rec.Foreground.Name
	}
	l.View, l.Kind = t.w.agents.View(t.id, screen)
	l.WordAt = t.w.agents.WordAt(t.id)
	return l, nil
}

// Taken is told as soon as the agent has the prompt.
func (t *promptTarget) Taken(pressed time.Time) { t.w.agents.Prompted(t.id, pressed) }

func (t *promptTarget) Write(ctx context.Context, data []byte) error {
	return t.w.opt.Kaval.Write(ctx, t.id, kaval.Input{Data: data})
}

// lookAt is a record that runs. kaval.ErrGone says that it does not, with its exit code where that is known.
func (r *registry) lookAt(id padi.TerminalID) (padi.Record, *int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	switch {
	case e != nil && e.rec.State == padi.Active:
		return e.show(), nil, nil
	case e != nil:
		return padi.Record{}, nil, notRunning(e.rec)
	case r.ended.has(id):
		return padi.Record{}, r.ended.codes[id], fmt.Errorf("terminal %s: %w", id.Short(), kaval.ErrGone)
	}
	return padi.Record{}, nil, noTerminal(id)
}
