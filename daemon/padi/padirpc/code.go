package padirpc

import (
	"context"
	"fmt"
	"net/http"

	"kolu/daemon/call"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

var (
	_ padi.CodeTree  = (*Client)(nil)
	_ padi.Worktrees = (*Client)(nil)
)

// Files lists the files of a checkout.
func (c *Client) Files(ctx context.Context, req padi.FilesRequest) (list padi.FileList, err error) {
	q := call.Query{"repo": {req.Repo}}
	q.Flag("ignored", req.Ignored)
	err = c.get(ctx, "/v1/repo/files", q, &list)
	return list, err
}

// Directory lists one directory of a checkout.
func (c *Client) Directory(ctx context.Context, req padi.PathRequest) (list padi.FileList, err error) {
	err = c.get(ctx, "/v1/repo/directory", pathQuery(req), &list)
	return list, err
}

// File reads a file of a checkout.
func (c *Client) File(ctx context.Context, req padi.PathRequest) (file padi.File, err error) {
	err = c.get(ctx, "/v1/repo/file", pathQuery(req), &file)
	return file, err
}

func pathQuery(req padi.PathRequest) call.Query {
	q := call.Query{"repo": {req.Repo}}
	q.Text("path", req.Path)
	return q
}

// GitStatus says how a checkout differs.
func (c *Client) GitStatus(ctx context.Context, req padi.GitStatusRequest) (status padi.GitStatus, err error) {
	q := call.Query{"repo": {req.Repo}}
	q.Text("mode", string(req.Mode))
	err = c.get(ctx, "/v1/repo/status", q, &status)
	return status, err
}

// GitDiff says how one file differs.
func (c *Client) GitDiff(ctx context.Context, req padi.GitDiffRequest) (diff padi.GitDiff, err error) {
	q := call.Query{"repo": {req.Repo}, "path": {req.Path}}
	q.Text("oldPath", req.OldPath)
	q.Text("mode", string(req.Mode))
	err = c.get(ctx, "/v1/repo/diff", q, &diff)
	return diff, err
}

type worktrees struct {
	Worktrees []padi.WorktreeInfo `json:"worktrees"`
}

// Worktrees lists the checkouts of a repository.
func (c *Client) Worktrees(ctx context.Context, repo string) ([]padi.WorktreeInfo, error) {
	var out worktrees
	err := c.get(ctx, "/v1/worktrees", call.Query{"repo": {repo}}, &out)
	return out.Worktrees, err
}

// RemoveWorktree removes a worktree and its branch.
func (c *Client) RemoveWorktree(ctx context.Context, req padi.RemoveWorktree) (gone padi.RemovedWorktree, err error) {
	err = c.change(ctx, http.MethodPost, "/v1/worktrees/remove", req, &gone)
	return gone, err
}

// codeRoutes are the questions about repositories.
func (s *server) codeRoutes() map[string]func(*http.Request) (any, error) {
	return map[string]func(*http.Request) (any, error){
		"GET /v1/repo/files":        ofCode(s, files),
		"GET /v1/repo/directory":    ofCode(s, directory),
		"GET /v1/repo/file":         ofCode(s, file),
		"GET /v1/repo/status":       ofCode(s, gitStatus),
		"GET /v1/repo/diff":         ofCode(s, gitDiff),
		"GET /v1/worktrees":         s.worktrees,
		"POST /v1/worktrees/remove": s.removeWorktree,
	}
}

// ofCode is a question for a padi that reads repositories.
func ofCode(s *server, answer func(context.Context, padi.CodeTree, *query) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		code, ok := s.ws.(padi.CodeTree)
		if !ok {
			return nil, fmt.Errorf("%w: this padi reads no repositories", kaval.ErrRefused)
		}
		return answer(r.Context(), code, &query{values: r.URL.Query()})
	}
}

func files(ctx context.Context, code padi.CodeTree, q *query) (any, error) {
	req := padi.FilesRequest{Repo: q.text("repo"), Ignored: q.flag("ignored")}
	if q.err != nil {
		return nil, q.err
	}
	return code.Files(ctx, req)
}

func directory(ctx context.Context, code padi.CodeTree, q *query) (any, error) {
	return code.Directory(ctx, padi.PathRequest{Repo: q.text("repo"), Path: q.text("path")})
}

func file(ctx context.Context, code padi.CodeTree, q *query) (any, error) {
	return code.File(ctx, padi.PathRequest{Repo: q.text("repo"), Path: q.text("path")})
}

func gitStatus(ctx context.Context, code padi.CodeTree, q *query) (any, error) {
	return code.GitStatus(ctx, padi.GitStatusRequest{Repo: q.text("repo"), Mode: padi.DiffMode(q.text("mode"))})
}

func gitDiff(ctx context.Context, code padi.CodeTree, q *query) (any, error) {
	return code.GitDiff(ctx, padi.GitDiffRequest{
		Repo: q.text("repo"), Path: q.text("path"), OldPath: q.text("oldPath"), Mode: padi.DiffMode(q.text("mode")),
	})
}

func (s *server) trees() (padi.Worktrees, error) {
	trees, ok := s.ws.(padi.Worktrees)
	if !ok {
		return nil, fmt.Errorf("%w: this padi looks after no worktrees", kaval.ErrRefused)
	}
	return trees, nil
}

func (s *server) worktrees(r *http.Request) (any, error) {
	trees, err := s.trees()
	if err != nil {
		return nil, err
	}
	list, err := trees.Worktrees(r.Context(), r.URL.Query().Get("repo"))
	return worktrees{list}, err
}

func (s *server) removeWorktree(r *http.Request) (any, error) {
	var req padi.RemoveWorktree
	if err := readBody(r, &req); err != nil {
		return nil, err
	}
	trees, err := s.trees()
	if err != nil {
		return nil, err
	}
	return trees.RemoveWorktree(r.Context(), req)
}
