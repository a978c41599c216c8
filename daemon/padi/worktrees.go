package padi

import (
	"context"
	"errors"
)

// Worktrees looks after the worktrees of repositories on a padi's machine. CreateRequest.Worktree makes one.
type Worktrees interface {
	// Worktrees lists the checkouts of the repository that the absolute path repo is in, the main one first.
	Worktrees(ctx context.Context, repo string) ([]WorktreeInfo, error)
	// RemoveWorktree removes a worktree and its branch. It refuses the main checkout, one that is locked, one that a terminal is in, and
	// without Force one with changes. A branch with commits that are nowhere else stays without Force, which the answer says.
	RemoveWorktree(ctx context.Context, req RemoveWorktree) (RemovedWorktree, error)
}

// The refusals of RemoveWorktree.
var (
	ErrNoWorktree     = errors.New("no such worktree")
	ErrWorktreeDirty  = errors.New("worktree has changes that are in no commit")
	ErrWorktreeLocked = errors.New("worktree is locked")
	ErrWorktreeBusy   = errors.New("a terminal is in the worktree")
	ErrWorktreeMain   = errors.New("the main checkout is no worktree to remove")
)

// WorktreeInfo is one checkout of a repository.
type WorktreeInfo struct {
	Path   string `json:"path"`
	Head   string `json:"head,omitempty"`   // the commit; empty before the first
	Branch string `json:"branch,omitempty"` // empty when detached or bare
	Main   bool   `json:"main,omitempty"`
	Bare   bool   `json:"bare,omitempty"`
	Locked bool   `json:"locked,omitempty"`
	Reason string `json:"reason,omitempty"` // why it is locked
	// Gone reports that the directory is not there any more.
	Gone      bool         `json:"gone,omitempty"`
	Terminals []TerminalID `json:"terminals,omitempty"` // that are in it
}

// RemoveWorktree names a worktree by its path, its branch or its directory's name.
type RemoveWorktree struct {
	Repo     string `json:"repo"`
	Worktree string `json:"worktree"`
	Force    bool   `json:"force,omitempty"`
}

// RemovedWorktree is what was removed.
type RemovedWorktree struct {
	Worktree
	// BranchKept says why the branch is still there.
	BranchKept string `json:"branchKept,omitempty"`
}
