package client

import (
	"fmt"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Code is the padi as a reader of repositories.
func (c *PadiClient) Code() (padi.CodeTree, error) {
	return more[padi.CodeTree](c, "reads no repositories")
}

// Worktrees is the padi as a keeper of worktrees.
func (c *PadiClient) Worktrees() (padi.Worktrees, error) {
	return more[padi.Worktrees](c, "looks after no worktrees")
}

// more is what a padi can do beyond the workspace.
func more[T any](c *PadiClient, lacking string) (T, error) {
	v, ok := c.Workspace.(T)
	if !ok {
		return v, fmt.Errorf("%w: this padi %s", kaval.ErrRefused, lacking)
	}
	return v, nil
}
