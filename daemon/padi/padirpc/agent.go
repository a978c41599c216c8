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
