package kavalrpc

import (
	"context"
	"iter"
	"slices"

	"kolu/daemon/call"
	"kolu/daemon/kaval"
)

// Watch yields events; the end of the line is its last error. Over a daemon.Redialer it goes on on the next line with what is
// different from what it has yielded.
func (c *Client) Watch(ctx context.Context) iter.Seq2[kaval.Event, error] {
	return func(yield func(kaval.Event, error) bool) {
		call.Events(ctx, c.calls, "/v1/watch", (&inventory{}).take)(yield)
	}
}

// inventory is what a watch has yielded.
type inventory struct {
	begun bool
	order []kaval.TerminalID
	terms map[kaval.TerminalID]kaval.Terminal
}

// take gives what an event says that was not said before: of every snapshot but the first, the differences alone.
func (v *inventory) take(e kaval.Event) []kaval.Event {
	switch e.Kind {
	case kaval.EventSnapshot:
		news := []kaval.Event{e}
		if v.begun {
			news = v.differences(e)
		}
		v.begun, v.order, v.terms = true, nil, map[kaval.TerminalID]kaval.Terminal{}
		for _, t := range e.Terminals {
			v.put(t)
		}
		return news
	case kaval.EventCreated, kaval.EventChanged:
		if e.Terminal != nil {
			v.put(*e.Terminal)
		}
	case kaval.EventExited:
		delete(v.terms, e.ID)
		v.order = slices.DeleteFunc(v.order, func(id kaval.TerminalID) bool { return id == e.ID })
	}
	return []kaval.Event{e}
}

func (v *inventory) put(t kaval.Terminal) {
	if v.terms == nil {
		v.terms = map[kaval.TerminalID]kaval.Terminal{}
	}
	if _, known := v.terms[t.ID]; !known {
		v.order = append(v.order, t.ID)
	}
	v.terms[t.ID] = t
}

func (v *inventory) differences(e kaval.Event) (news []kaval.Event) {
	now := map[kaval.TerminalID]bool{}
	for _, t := range e.Terminals {
		now[t.ID] = true
	}
	for _, id := range v.order {
		if !now[id] {
			news = append(news, kaval.Event{Kind: kaval.EventExited, ID: id, At: e.At})
		}
	}
	for _, t := range e.Terminals {
		old, known := v.terms[t.ID]
		switch {
		case !known:
			news = append(news, kaval.Event{Kind: kaval.EventCreated, ID: t.ID, Terminal: &t, At: e.At})
		case !sameTerminal(old, t):
			news = append(news, kaval.Event{Kind: kaval.EventChanged, ID: t.ID, Terminal: &t, At: e.At})
		}
	}
	return news
}

// sameTerminal reports whether two records say the same, save for how long ago the last output was and how much there is.
func sameTerminal(a, b kaval.Terminal) bool {
	status := a.Status == b.Status || a.Status != nil && b.Status != nil && *a.Status == *b.Status
	a.Status, b.Status = nil, nil
	a.IdleMS, b.IdleMS, a.LastActivity, b.LastActivity, a.Output, b.Output = 0, 0, 0, 0, 0, 0
	return status && a == b
}
