package padirpc

import (
	"context"
	"fmt"
	"net/http"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

var (
	_ padi.SessionKeeper  = (*Client)(nil)
	_ padi.KavalRestarter = (*Client)(nil)
)

// Session says what is remembered.
func (c *Client) Session(ctx context.Context) (s padi.Session, err error) {
	err = c.get(ctx, "/v1/session", nil, &s)
	return s, err
}

// Restore starts parked terminals again.
func (c *Client) Restore(ctx context.Context, req padi.RestoreRequest) (done padi.Restored, err error) {
	err = c.change(ctx, http.MethodPost, "/v1/session/restore", req, &done)
	return done, err
}

// Forget gives up the parked terminals.
func (c *Client) Forget(ctx context.Context) (f padi.Forgotten, err error) {
	err = c.change(ctx, http.MethodPost, "/v1/session/forget", struct{}{}, &f)
	return f, err
}

type backups struct {
	Backups []padi.Backup `json:"backups"`
}

// Backups lists the sessions that are kept.
func (c *Client) Backups(ctx context.Context) ([]padi.Backup, error) {
	var out backups
	err := c.get(ctx, "/v1/backups", nil, &out)
	return out.Backups, err
}

type recallRequest struct {
	Name string `json:"name"`
}

// Recall brings the terminals of a backup back, parked.
func (c *Client) Recall(ctx context.Context, name string) (r padi.Recalled, err error) {
	err = c.change(ctx, http.MethodPost, "/v1/backups/recall", recallRequest{name}, &r)
	return r, err
}

// Sleep ends a terminal's programs and keeps its record.
func (c *Client) Sleep(ctx context.Context, id padi.TerminalID) (rec padi.Record, err error) {
	err = c.change(ctx, http.MethodPost, path(id, "/sleep"), struct{}{}, &rec)
	return rec, err
}

// Wake starts a sleeping terminal again.
func (c *Client) Wake(ctx context.Context, id padi.TerminalID, req padi.WakeRequest) (start padi.Restart, err error) {
	err = c.change(ctx, http.MethodPost, path(id, "/wake"), req, &start)
	return start, err
}

// Rename sets a terminal's intent.
func (c *Client) Rename(ctx context.Context, id padi.TerminalID, req padi.RenameRequest) (rec padi.Record, err error) {
	err = c.change(ctx, http.MethodPost, path(id, "/intent"), req, &rec)
	return rec, err
}

// RestartKaval puts another kaval in the place of the one that runs.
func (c *Client) RestartKaval(ctx context.Context) (status padi.KavalStatus, err error) {
	err = c.change(ctx, http.MethodPost, "/v1/kaval/restart", struct{}{}, &status)
	return status, err
}

// sessionRoutes are those of a padi that remembers.
func (s *server) sessionRoutes() map[string]func(*http.Request) (any, error) {
	return map[string]func(*http.Request) (any, error){
		"GET /v1/session": session(s, func(k padi.SessionKeeper, r *http.Request, _ struct{}) (any, error) { return k.Session(r.Context()) }),
		"POST /v1/session/restore": session(s, func(k padi.SessionKeeper, r *http.Request, req padi.RestoreRequest) (any, error) {
			return k.Restore(r.Context(), req)
		}),
		"POST /v1/session/forget": session(s, func(k padi.SessionKeeper, r *http.Request, _ struct{}) (any, error) { return k.Forget(r.Context()) }),
		"GET /v1/backups": session(s, func(k padi.SessionKeeper, r *http.Request, _ struct{}) (any, error) {
			list, err := k.Backups(r.Context())
			if list == nil {
				list = []padi.Backup{}
			}
			return backups{list}, err
		}),
		"POST /v1/backups/recall": session(s, func(k padi.SessionKeeper, r *http.Request, req recallRequest) (any, error) {
			return k.Recall(r.Context(), req.Name)
		}),
		"POST /v1/terminals/{id}/sleep": session(s, func(k padi.SessionKeeper, r *http.Request, _ struct{}) (any, error) {
			return k.Sleep(r.Context(), id(r))
		}),
		"POST /v1/terminals/{id}/wake": session(s, func(k padi.SessionKeeper, r *http.Request, req padi.WakeRequest) (any, error) {
			return k.Wake(r.Context(), id(r), req)
		}),
		"POST /v1/terminals/{id}/intent": session(s, func(k padi.SessionKeeper, r *http.Request, req padi.RenameRequest) (any, error) {
			return k.Rename(r.Context(), id(r), req)
		}),
		"POST /v1/kaval/restart": s.restartKaval,
	}
}

// session answers a request with the body of one shape, of a padi that remembers.
func session[Req any](s *server, answer func(padi.SessionKeeper, *http.Request, Req) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		k, ok := s.ws.(padi.SessionKeeper)
		if !ok {
			return nil, fmt.Errorf("%w: this padi remembers no session", kaval.ErrRefused)
		}
		var req Req
		if r.Method != http.MethodGet {
			if err := readBody(r, &req); err != nil {
				return nil, err
			}
		}
		return answer(k, r, req)
	}
}

func (s *server) restartKaval(r *http.Request) (any, error) {
	k, ok := s.ws.(padi.KavalRestarter)
	if !ok {
		return nil, fmt.Errorf("%w: this padi cannot restart its kaval", kaval.ErrRefused)
	}
	return k.RestartKaval(r.Context())
}
