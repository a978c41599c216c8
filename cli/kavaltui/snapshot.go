package kavaltui

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
)

func newSnapshot(t *tree) *cobra.Command {
	var viewport bool
	var tail, lines int
	cmd := &cobra.Command{
		Use:   "snapshot <id>",
		Short: "Print a terminal's text: all of it, its screen, or its last lines",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := drive.SnapshotRequest(viewport, drive.Given(tail, cmd.Flags().Changed("tail")), drive.Given(lines, cmd.Flags().Changed("lines")))
			if err != nil {
				return err
			}
			return runSnapshot(cmd.Context(), t, args[0], req)
		},
	}
	cmd.Flags().BoolVar(&viewport, "viewport", false, "only what is on the screen now")
	cmd.Flags().IntVar(&tail, "tail", 0, "only the last `N` lines of the buffer, blank ones included")
	cmd.Flags().IntVar(&lines, "lines", 0, "another name of --tail `N`")
	return cmd
}

func runSnapshot(ctx context.Context, t *tree, query string, req kaval.ScreenRequest) error {
	return t.withAnyTerminal(ctx, query, func(c *client.KavalClient, id kaval.TerminalID) error {
		screen, err := c.Screen(ctx, id, req)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(t.env.Stdout, drive.EndLine(screen.Text)); err != nil {
			return err
		}
		t.note("%s · %d line(s)", id.Short(), drive.CountLines(screen.Text))
		return nil
	})
}
