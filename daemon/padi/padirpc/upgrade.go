package padirpc

import (
	"context"
	"fmt"
	"net/http"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

var _ padi.KavalUpgrader = (*Client)(nil)

// UpgradeKaval makes padi's kaval the padi's own build.
func (c *Client) UpgradeKaval(ctx context.Context) (status padi.KavalStatus, err error) {
	err = c.change(ctx, http.MethodPost, "/v1/kaval/upgrade", nothing{}, &status)
	return status, err
}

func (s *server) upgradeKaval(r *http.Request) (any, error) {
	u, ok := s.ws.(padi.KavalUpgrader)
	if !ok {
		return nil, fmt.Errorf("%w: this padi cannot upgrade its kaval", kaval.ErrRefused)
	}
	return u.UpgradeKaval(r.Context())
}
