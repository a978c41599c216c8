package padi

import "context"

// AgentKeeper is a Workspace whose padi looks after the agents in its terminals.
type AgentKeeper interface {
	// Explain says why a terminal's agent is what its record says.
	Explain(ctx context.Context, id TerminalID) (Explanation, error)
}
