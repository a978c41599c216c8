package agents

import "kolu/daemon/padi"

// owners say which terminal has which conversation: of one kind of agent, each belongs to at most one.
type owners map[string]padi.TerminalID

// choose gives the conversation of a terminal out of the candidates, and notes it. What it has it keeps as long as it is among them, unless it is
// provably of before this run of the agent and another one provably began in it. Without a candidate that is free it has none.
func (o owners) choose(id padi.TerminalID, since int64, candidates []Session) *Session {
	var has, free *Session
	for i := range candidates {
		c := &candidates[i]
		if c.Certain {
			o.give(id, c.ID)
			return c
		}
		if since != 0 && c.UpdatedAt != 0 && c.UpdatedAt < since && o[c.ID] != id {
			continue // nobody went on with it in this run, as far as anything shows
		}
		switch owner, taken := o[c.ID]; {
		case taken && owner == id:
			has = c
		case !taken && (free == nil || born(since, *c) && !born(since, *free)):
			free = c
		}
	}
	switch {
	case has != nil && free != nil && since != 0 && has.CreatedAt != 0 && has.CreatedAt < since && born(since, *free):
		o.give(id, free.ID)
		return free
	case has != nil:
		return has
	case free != nil:
		o.give(id, free.ID)
		return free
	}
	o.release(id)
	return nil
}

// born reports whether a conversation provably began in the run.
func born(since int64, s Session) bool { return since != 0 && s.CreatedAt >= since }

func (o owners) give(id padi.TerminalID, session string) {
	o.release(id)
	o[session] = id
}

func (o owners) release(id padi.TerminalID) {
	for session, owner := range o {
		if owner == id {
			delete(o, session)
		}
	}
}
