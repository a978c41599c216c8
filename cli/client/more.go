package client

import (
	"fmt"
	"os"

	"kolu/cli"
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

// Recorder is the padi as a keeper of who sent what.
func (c *PadiClient) Recorder() (padi.Recorder, error) {
	return more[padi.Recorder](c, "keeps no record")
}

// senderOf is who this process is in a padi's record: its name, the terminal that it runs in, and for a padi of another machine this one.
func senderOf(env *cli.Env, where Where) padi.Sender {
	s := padi.Sender{Face: env.Name, Terminal: padi.TerminalID(env.Getenv("KAVAL_TERMINAL_ID"))}
	if where.Host != "" {
		if name, err := os.Hostname(); err == nil {
			s.Host = name
		}
	}
	return s
}

// more is what a padi can do beyond the workspace.
func more[T any](c *PadiClient, lacking string) (T, error) {
	v, ok := c.Workspace.(T)
	if !ok {
		return v, fmt.Errorf("%w: this padi %s", kaval.ErrRefused, lacking)
	}
	return v, nil
}
