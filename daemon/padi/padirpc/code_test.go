package padirpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon"
	"kolu/daemon/padi"
)

// library answers questions about repositories with what it was asked.
type library struct {
	told
	asked any
}

func (l *library) Files(_ context.Context, req padi.FilesRequest) (padi.FileList, error) {
	l.asked = req
	return padi.FileList{Paths: []string{"new\nline"}, Truncated: true}, l.err
}
func (l *library) Directory(_ context.Context, req padi.PathRequest) (padi.FileList, error) {
	l.asked = req
	return padi.FileList{Paths: []string{"a/"}}, l.err
}
func (l *library) File(_ context.Context, req padi.PathRequest) (padi.File, error) {
	l.asked = req
	return padi.File{Path: req.Path, Size: 4, Encoding: "utf-8", Content: "text"}, l.err
}
func (l *library) GitStatus(_ context.Context, req padi.GitStatusRequest) (padi.GitStatus, error) {
	l.asked = req
	return padi.GitStatus{Mode: req.Mode, Files: []padi.FileChange{{Path: "a", Status: "R", OldPath: "b"}}, Base: &padi.DiffBase{Ref: "x", SHA: "y"}}, l.err
}
func (l *library) GitDiff(_ context.Context, req padi.GitDiffRequest) (padi.GitDiff, error) {
	l.asked = req
	return padi.GitDiff{NewFileName: req.Path, Hunks: []string{"@@"}}, l.err
}
func (l *library) Worktrees(_ context.Context, repo string) ([]padi.WorktreeInfo, error) {
	l.asked = repo
	return []padi.WorktreeInfo{{Path: "/r", Main: true}}, l.err
}
func (l *library) RemoveWorktree(_ context.Context, req padi.RemoveWorktree) (padi.RemovedWorktree, error) {
	l.asked = req
	return padi.RemovedWorktree{Worktree: padi.Worktree{Path: "/w", Branch: "b"}, BranchKept: "why"}, l.err
}

// TestQuestionsAboutRepositories holds that each arrives as it was asked and comes back as it was answered, errors too.
func TestQuestionsAboutRepositories(t *testing.T) {
	l := &library{}
	c := client(t, daemon.Unix(serve(t, l)))
	ctx := t.Context()
	odd := "/r ä&=?#/\n"
	for name, q := range map[string]struct {
		want  any
		near  func() (any, error)
		there func() (any, error)
	}{
		"files": {padi.FilesRequest{Repo: odd, Ignored: true},
			func() (any, error) { return c.Files(ctx, padi.FilesRequest{Repo: odd, Ignored: true}) },
			func() (any, error) { return l.Files(ctx, padi.FilesRequest{}) }},
		"directory": {padi.PathRequest{Repo: odd, Path: odd},
			func() (any, error) { return c.Directory(ctx, padi.PathRequest{Repo: odd, Path: odd}) },
			func() (any, error) { return l.Directory(ctx, padi.PathRequest{}) }},
		"file": {padi.PathRequest{Repo: odd, Path: odd},
			func() (any, error) { return c.File(ctx, padi.PathRequest{Repo: odd, Path: odd}) },
			func() (any, error) { return l.File(ctx, padi.PathRequest{Path: odd}) }},
		"status": {padi.GitStatusRequest{Repo: odd, Mode: padi.Branch},
			func() (any, error) { return c.GitStatus(ctx, padi.GitStatusRequest{Repo: odd, Mode: padi.Branch}) },
			func() (any, error) { return l.GitStatus(ctx, padi.GitStatusRequest{Mode: padi.Branch}) }},
		"diff": {padi.GitDiffRequest{Repo: odd, Path: odd, OldPath: "was", Mode: padi.Local},
			func() (any, error) {
				return c.GitDiff(ctx, padi.GitDiffRequest{Repo: odd, Path: odd, OldPath: "was", Mode: padi.Local})
			},
			func() (any, error) { return l.GitDiff(ctx, padi.GitDiffRequest{Path: odd}) }},
		"worktrees": {odd,
			func() (any, error) { return c.Worktrees(ctx, odd) },
			func() (any, error) { return l.Worktrees(ctx, "") }},
		"remove": {padi.RemoveWorktree{Repo: odd, Worktree: "w", Force: true},
			func() (any, error) {
				return c.RemoveWorktree(ctx, padi.RemoveWorktree{Repo: odd, Worktree: "w", Force: true})
			},
			func() (any, error) { return l.RemoveWorktree(ctx, padi.RemoveWorktree{}) }},
	} {
		l.err = nil
		got, err := q.near()
		asked := l.asked
		want, _ := q.there()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if diff := cmp.Diff(q.want, asked); diff != "" {
			t.Errorf("%s was asked otherwise: %s", name, diff)
		}
		for _, sentinel := range []error{padi.ErrNoRepo, padi.ErrOutside, padi.ErrFileGone, padi.ErrGitFailed, padi.ErrNoGit, padi.ErrNoBase,
			padi.ErrNoWorktree, padi.ErrWorktreeDirty, padi.ErrWorktreeLocked, padi.ErrWorktreeBusy, padi.ErrWorktreeMain} {
			l.err = sentinel
			if _, err := q.near(); !errors.Is(err, sentinel) || err.Error() != sentinel.Error() {
				t.Errorf("%s: %v came as %v", name, sentinel, err)
			}
		}
	}
}
