package kavaltui

import (
	"errors"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/daemon/kaval"
)

func newKill(t *tree) *cobra.Command {
	return &cobra.Command{
		Use:   "kill <id>",
		Short: "End a terminal and everything that runs in it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.withTerminal(cmd.Context(), args[0], func(c *client.KavalClient, term kaval.Terminal) error {
				if err := c.Kill(cmd.Context(), term.ID); err != nil && !errors.Is(err, kaval.ErrNoTerminal) && !errors.Is(err, kaval.ErrGone) {
					return err
				}
				t.note("killed %s", term.ID.Short())
				return nil
			})
		},
	}
}
