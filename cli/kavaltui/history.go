package kavaltui

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
)

func newHistory(t *tree) *cobra.Command {
	var lines int
	cmd := &cobra.Command{
		Use:   "history <id>",
		Short: "Print the scrollback above a terminal's screen, with its colours",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("lines") && lines < 1 {
				return errors.New("--lines: want a whole number above 0")
			}
			return runHistory(cmd.Context(), t, args[0], lines)
		},
	}
	cmd.Flags().IntVar(&lines, "lines", 0, "only the `N` lines just above the screen")
	return cmd
}

func runHistory(ctx context.Context, t *tree, query string, lines int) error {
	return t.withAnyTerminal(ctx, query, func(c *client.KavalClient, id kaval.TerminalID) error {
		text, pages, err := drive.History(ctx, c, id, lines)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(t.env.Stdout, text); err != nil {
			return err
		}
		if lines > 0 {
			t.note("%s · older history (≤%d lines)", id.Short(), lines)
		} else {
			t.note("%s · %d older page(s)", id.Short(), pages)
		}
		return nil
	})
}
