package padi

import (
	"bytes"
	"context"
	"unicode/utf8"

	"kolu/daemon/kaval"
)

// AgentKeeper is a Workspace whose padi looks after the agents in its terminals.
type AgentKeeper interface {
	// Explain says why a terminal's agent is what its record says.
	Explain(ctx context.Context, id TerminalID) (Explanation, error)
	// Prompt hands a text to a terminal's agent and says what became of it. That it was not taken is no error.
	Prompt(ctx context.Context, id TerminalID, req PromptRequest) (Receipt, error)
	// RecentAgents are the command lines by which agents were started here last, the latest first, without what was said to them.
	RecentAgents(ctx context.Context) ([]RecentAgent, error)
}

// RecentAgent is one way in which an agent was started.
type RecentAgent struct {
	Kind    string `json:"kind"`
	Command string `json:"command"`      // a line for a shell
	At      int64  `json:"at,omitempty"` // milliseconds since 1970 by the host's clock; 0 where its start was not seen
}

// PromptRequest asks for a text to be handed to an agent, as one prompt.
type PromptRequest struct {
	// Data is the text; line breaks at its end are left out.
	Data []byte `json:"data"`
	// TimeoutMS is how long the agent may take to show a place to type at, and again to take what was typed; 0 means 30 seconds.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
}

// maxMarks is what marks a text as a paste.
const maxMarks = 12

// Check says what is wrong with a request before anything is done; the error is kaval.ErrInvalid.
func (r PromptRequest) Check() error {
	text := r.Text()
	switch {
	case len(text) == 0:
		return kaval.Invalidf("the prompt is empty")
	case len(text)+maxMarks > kaval.MaxInput:
		return kaval.Invalidf("the prompt is larger than the %d MiB that one write may carry", kaval.MaxInput>>20)
	case !utf8.Valid(text):
		return kaval.Invalidf("the prompt is not UTF-8")
	case bytes.ContainsFunc(text, isKey):
		return kaval.Invalidf("the prompt has control characters, which a terminal would take for keys")
	case r.TimeoutMS < 0 || r.TimeoutMS > kaval.MaxWaitMS:
		return kaval.Invalidf("timeoutMs must be 0 to %d", kaval.MaxWaitMS)
	}
	return nil
}

func isKey(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0
}

// Text is what is typed: with plain line breaks, and without those at its end.
func (r PromptRequest) Text() []byte {
	return bytes.TrimRight(bytes.ReplaceAll(r.Data, []byte("\r\n"), []byte("\n")), "\n")
}

// PromptResult is what became of a prompt.
type PromptResult string

// The results. Taken: the agent has it. Busy: it is queued behind a turn that is under way. Staged: it was typed, and stands in the composer. Blocked: nothing was typed, since a
// dialog is up, or there is no composer, or another text is in it. Gone: no agent has the terminal, or it ended.
const (
	Taken     PromptResult = "taken"
	Busy      PromptResult = "busy"
	Staged    PromptResult = "staged"
	Blocked   PromptResult = "blocked"
	AgentGone PromptResult = "gone"
)

// Receipt is the one answer to a prompt.
type Receipt struct {
	ID     TerminalID   `json:"id"`
	Result PromptResult `json:"result"`
	// Reason says what stood in the way, of a result other than Taken.
	Reason string `json:"reason,omitempty"`
	// Evidence is what was seen, in its order.
	Evidence []string `json:"evidence,omitempty"`
	// Bracketed says that the text was marked as a paste, which the program had asked for.
	Bracketed bool   `json:"bracketed,omitempty"`
	Bytes     int    `json:"bytes,omitempty"` // that were typed, without Enter
	Enters    int    `json:"enters,omitempty"`
	ElapsedMS int64  `json:"elapsedMs"`
	Agent     *Agent `json:"agent,omitempty"` // as it was at the end
	// Screen is what the terminal showed at the end, of a result other than Taken and Busy.
	Screen   string `json:"screen,omitempty"`
	ExitCode *int   `json:"exitCode,omitempty"` // with AgentGone, when the terminal ended and it is known
}
