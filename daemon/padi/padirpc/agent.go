package padirpc

import (
	"context"
	"fmt"
	"net/http"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

var _ padi.AgentKeeper = (*Client)(nil)

// Explain says why a terminal's agent is what its record says.
func (c *Client) Explain(ctx context.Context, id padi.TerminalID) (x padi.Explanation, err error) {
	err = c.get(ctx, path(id, "/explain"), nil, &x)
	return x, err
}

// Prompt hands a text to a terminal's agent. Over a line that breaks it is asked again with the same key, and typed once.
func (c *Client) Prompt(ctx context.Context, id padi.TerminalID, req padi.PromptRequest) (r padi.Receipt, err error) {
	err = c.change(ctx, http.MethodPost, path(id, "/prompt"), req, &r)
	return r, err
}

// RecentAgents are the command lines by which agents were started there last.
func (c *Client) RecentAgents(ctx context.Context) ([]padi.RecentAgent, error) {
	var out recentAgents
	err := c.get(ctx, "/v1/agents/recent", nil, &out)
	return out.Agents, err
}

type recentAgents struct {
	Agents []padi.RecentAgent `json:"agents"`
}

func (s *server) recentAgents(r *http.Request) (any, error) {
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	list, err := k.RecentAgents(r.Context())
	if list == nil {
		list = []padi.RecentAgent{}
	}
	return recentAgents{list}, err
}

func (s *server) prompt(r *http.Request) (any, error) {
	var req padi.PromptRequest
	if err := readBody(r, &req); err != nil {
		return nil, err
	}
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	return k.Prompt(r.Context(), id(r), req)
}

func (s *server) explain(r *http.Request) (any, error) {
	k, err := s.keeper()
	if err != nil {
		return nil, err
	}
	return k.Explain(r.Context(), id(r))
}

func (s *server) keeper() (padi.AgentKeeper, error) {
	k, ok := s.ws.(padi.AgentKeeper)
	if !ok {
		return nil, fmt.Errorf("%w: this padi does not look after agents", kaval.ErrRefused)
	}
	return k, nil
}
