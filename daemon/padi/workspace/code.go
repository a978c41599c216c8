package workspace

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/repo"
)

var (
	_ padi.CodeTree  = (*Workspace)(nil)
	_ padi.Worktrees = (*Workspace)(nil)
)

// checkRepo refuses a path that means something only to whoever asks.
func checkRepo(dir string) error {
	if !filepath.IsAbs(dir) {
		return kaval.Invalidf("repo %q is not an absolute path", dir)
	}
	return nil
}

// Files lists the files of a checkout.
func (w *Workspace) Files(ctx context.Context, req padi.FilesRequest) (padi.FileList, error) {
	if err := checkRepo(req.Repo); err != nil {
		return padi.FileList{}, err
	}
	return repo.Files(ctx, req)
}

// Directory lists one directory of a checkout.
func (w *Workspace) Directory(_ context.Context, req padi.PathRequest) (padi.FileList, error) {
	if err := checkRepo(req.Repo); err != nil {
		return padi.FileList{}, err
	}
	return repo.Directory(req)
}

// File reads a file of a checkout.
func (w *Workspace) File(ctx context.Context, req padi.PathRequest) (padi.File, error) {
	if err := checkRepo(req.Repo); err != nil {
		return padi.File{}, err
	}
	return repo.File(ctx, req)
}

// GitStatus says how a checkout differs.
func (w *Workspace) GitStatus(ctx context.Context, req padi.GitStatusRequest) (padi.GitStatus, error) {
	if err := checkRepo(req.Repo); err != nil {
		return padi.GitStatus{}, err
	}
	return repo.Status(ctx, req)
}

// GitDiff says how one file differs.
func (w *Workspace) GitDiff(ctx context.Context, req padi.GitDiffRequest) (padi.GitDiff, error) {
	if err := checkRepo(req.Repo); err != nil {
		return padi.GitDiff{}, err
	}
	return repo.Diff(ctx, req)
}

// Worktrees lists the checkouts of a repository, with the terminals that are in each.
func (w *Workspace) Worktrees(ctx context.Context, dir string) ([]padi.WorktreeInfo, error) {
	if err := checkRepo(dir); err != nil {
		return nil, err
	}
	if err := w.ready(ctx); err != nil {
		return nil, err
	}
	trees, err := repo.Worktrees(ctx, dir)
	others := map[padi.TerminalID]bool{} // a worktree lies within the main checkout as a rule, and those in it are not in that
	for i := len(trees) - 1; i >= 0; i-- {
		in := w.terminalsIn(trees[i].Path)
		if trees[i].Main {
			in = slices.DeleteFunc(in, func(id padi.TerminalID) bool { return others[id] })
		}
		for _, id := range in {
			others[id] = true
		}
		trees[i].Terminals = in
	}
	return trees, err
}

// RemoveWorktree removes a worktree that no terminal is in. One that is asleep or parked would come back there, and counts too.
func (w *Workspace) RemoveWorktree(ctx context.Context, req padi.RemoveWorktree) (padi.RemovedWorktree, error) {
	if err := checkRepo(req.Repo); err != nil {
		return padi.RemovedWorktree{}, err
	}
	if err := w.ready(ctx); err != nil {
		return padi.RemovedWorktree{}, err
	}
	return repo.RemoveWorktree(ctx, req, w.terminalsIn)
}

// terminalsIn are the terminals whose directory is at or below path, which has no symbolic links in it.
func (w *Workspace) terminalsIn(path string) []padi.TerminalID {
	var in []padi.TerminalID
	for _, rec := range w.reg.records() {
		cwd := rec.CWD
		if real, err := filepath.EvalSymlinks(cwd); err == nil {
			cwd = real
		}
		if cwd == path || strings.HasPrefix(cwd, path+string(filepath.Separator)) {
			in = append(in, rec.ID)
		}
	}
	return in
}
