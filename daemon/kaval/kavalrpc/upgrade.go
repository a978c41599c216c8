package kavalrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"kolu/daemon"
	"kolu/daemon/call"
	"kolu/daemon/kaval"
)

var _ kaval.Upgrader = (*Client)(nil)

// Upgrade asks once: whether an upgrade whose answer was lost has happened is told by the daemon's hello.
func (c *Client) Upgrade(ctx context.Context, executable string) (up kaval.Upgraded, err error) {
	data, err := json.Marshal(daemon.UpgradeRequest{Executable: executable})
	if err != nil {
		return up, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://kaval/v1/upgrade", bytes.NewReader(data))
	if err != nil {
		return up, err
	}
	resp, err := c.calls.HTTP.Do(req)
	if err != nil {
		return up, errors.Join(ctx.Err(), daemon.Unwrapped(err))
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return up, fmt.Errorf("%w: the kaval that runs there is a build without upgrade in place; it and its terminals are left alone", kaval.ErrUpgrade)
	default:
		return up, kaval.FromCode(daemon.ReadProblem(resp))
	}
	if err := daemon.ReadJSON(resp.Body, &up); err != nil {
		return up, fmt.Errorf("read answer: %w", call.LineError(err))
	}
	return up, nil
}
