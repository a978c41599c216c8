package paditui

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
)

// Recent lists how agents were started last.
func (f *Face) Recent() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "recent",
		Short: "List the command lines by which agents were started last",
		Long: `List the command lines by which agents were started last, the latest first: the program and how it runs, without what was said to it. Each can be
run as it is: kolu create --toplevel -- … .`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := f.recentAgents(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				return drive.WriteJSON(f.env.Stdout, list)
			}
			for _, r := range list {
				if _, err := fmt.Fprintln(f.env.Stdout, drive.Clean(r.Command)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of {kind, command, at}")
	return cmd
}

func (f *Face) recentAgents(ctx context.Context) (list []padi.RecentAgent, err error) {
	err = f.With(ctx, func(c *client.PadiClient, _ client.Endpoint) error {
		k, err := c.Agents()
		if err != nil {
			return err
		}
		list, err = k.RecentAgents(ctx)
		return err
	})
	return list, err
}
