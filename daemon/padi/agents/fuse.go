package agents

import (
	"fmt"
	"slices"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// held is everything that is known of one terminal's agent.
type held struct {
	kind    string
	status  *kaval.ProgramStatus
	session *Session
	facts   *Facts
	view    *View // nil while the screen does not count
	trouble string
	// spoke is when the agent last said something itself, and prompted when it was last seen to take a prompt, in milliseconds since 1970. What is
	// older than either tells nothing of now.
	spoke, prompted int64
}

// fuse makes one answer of what the witnesses say, and says which of them it came from.
func (h held) fuse() *padi.Agent {
	a := &padi.Agent{Kind: h.kind}
	if h.session != nil {
		a.SessionID, a.StartedAt = h.session.ID, h.session.CreatedAt
	}
	if f := h.facts; f != nil {
		a.Model, a.Summary, a.ContextTokens, a.Tasks, a.Version = f.Model, f.Summary, f.ContextTokens, f.Tasks, f.Version
		if f.StartedAt != 0 {
			a.StartedAt = f.StartedAt
		}
	}
	a.State, a.Asks, a.Source, a.Message = h.state()
	if a.State == padi.Unknown {
		a.Source, a.Reason = "", h.reason()
	}
	return a
}

func (h held) state() (state padi.AgentState, asks, source, message string) {
	state, asks, source, message = h.witnessed()
	if h.prompted != 0 && state == padi.Waiting {
		return padi.Thinking, "", FromPrompt, ""
	}
	return state, asks, source, message
}

// answered reports whether something was said or written since the prompt that was taken last. That it is idle is no answer: Codex says so at the first key
// that is typed.
func (h held) answered() bool {
	return h.status != nil && h.status.At >= h.prompted && h.status.State != "idle" || h.status == nil && h.facts != nil && h.facts.At >= h.prompted
}

func (h held) witnessed() (state padi.AgentState, asks, source, message string) {
	if s := h.status; s != nil {
		if state := stateOf(s.State); state != padi.Unknown {
			return h.refined(state), s.Kind, FromStatus, s.Message
		}
	}
	f := h.facts
	if h.withdrawn() {
		f = nil
	}
	if f != nil && f.Own && f.State != "" {
		return f.State, f.Asks, FromFile, f.Message
	}
	v := h.view
	switch {
	case v != nil && v.State == padi.AwaitingUser: // what waits for an answer is in no file until it is answered
		return padi.AwaitingUser, v.Asks, FromScreen, v.Dialog
	case f != nil && f.State == padi.Waiting && v != nil && v.State == padi.Thinking:
		return padi.Unknown, "", "", ""
	case f != nil && f.State != "":
		return f.State, f.Asks, FromFile, f.Message
	case v != nil && v.State != "":
		return v.State, v.Asks, FromScreen, ""
	}
	return padi.Unknown, "", "", ""
}

// withdrawn reports whether the agent took back what it said of itself, as it does when it ends, and has written nothing since.
func (h held) withdrawn() bool {
	return h.status == nil && h.spoke != 0 && (h.facts == nil || h.facts.At < h.spoke)
}

// refined makes an agent's own "working" as exact as its files are.
func (h held) refined(state padi.AgentState) padi.AgentState {
	if state != padi.Thinking || h.facts == nil {
		return state
	}
	switch h.facts.State {
	case padi.ToolUse, padi.RunningBackground:
		return h.facts.State
	}
	return state
}

func (h held) reason() string {
	f, v := h.facts, h.view
	switch {
	case h.trouble != "":
		return h.trouble
	case h.withdrawn():
		return "it took back what it said of itself"
	case f != nil && f.State == padi.Waiting && v != nil && v.State == padi.Thinking:
		return "its files say that the turn has ended, its screen that it works"
	case f != nil && f.Drift != "":
		return f.Drift
	case h.session == nil && h.facts == nil:
		return "it says nothing itself and no session of it was found"
	case f != nil && f.State == "":
		return "its session says nothing yet"
	}
	return ""
}

// evidence is what each witness says, with the one that was believed.
func (h held) evidence(t kaval.Terminal, now time.Time) []padi.Evidence {
	_, _, source, _ := h.state()
	front := fmt.Sprintf("in front: %s, pid %d", t.ForegroundProcess, t.ForegroundPID)
	out := []padi.Evidence{{Source: FromTerminal, Detail: front}}
	if s := h.status; s != nil {
		detail := "OSC 7501: " + s.State
		if s.Kind != "" {
			detail += ", " + s.Kind
		}
		out = append(out, padi.Evidence{Source: FromStatus, State: stateOf(s.State), Detail: detail, AgeMS: now.UnixMilli() - s.At})
	}
	if h.facts != nil {
		out = append(out, h.facts.Evidence...)
	}
	if v := h.view; v != nil {
		out = append(out, padi.Evidence{Source: FromScreen, State: v.State, Detail: v.Dialog})
	}
	if h.trouble != "" {
		out = append(out, padi.Evidence{Source: FromFile, Detail: h.trouble})
	}
	used := slices.IndexFunc(out, func(e padi.Evidence) bool { return e.Source == source && e.State != "" })
	if used >= 0 {
		out[used].Used = true
	}
	return out
}
