package kavaltui

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
)

func newList(t *tree) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the live terminals",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), false, func(c *client.KavalClient, ep client.Endpoint) error {
				err := runList(cmd.Context(), t.env, c, ep, asJSON)
				if skew := c.Where.Skew(c.Hello, t.env.Getenv); skew != "" {
					t.note("%s", skew)
				}
				for _, other := range client.Others(t.env, ep, c) {
					t.note("another kaval runs here, %s: `%s`", other.Label, t.hint(client.Endpoint{Socket: other.Socket}, "list"))
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func runList(ctx context.Context, env *cli.Env, c *client.KavalClient, ep client.Endpoint, asJSON bool) error {
	terms, err := c.List(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		if terms == nil {
			terms = []kaval.Terminal{}
		}
		return drive.WriteJSON(env.Stdout, terms)
	}
	if len(terms) == 0 {
		_, err := fmt.Fprintln(env.Stdout, "no live terminals.")
		return err
	}
	home, err := homeOf(ctx, env, c, ep)
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "PID", "IDLE", "CMD", "CWD"}}
	for _, term := range terms {
		rows = append(rows, []string{
			term.ID.Short(), strconv.Itoa(term.PID), drive.Age(term.IdleMS), command(term), drive.Tilde(term.CWD, home),
		})
	}
	drive.AlignRight(rows, 1, 2)
	return cli.Table(env.Stdout, rows)
}

func command(term kaval.Terminal) string {
	if title := drive.Clean(term.Title); title != "" {
		return title
	}
	return drive.Base(term.ForegroundProcess)
}

// homeOf is the home directory on the machine of the daemon.
func homeOf(ctx context.Context, env *cli.Env, c *client.KavalClient, ep client.Endpoint) (string, error) {
	if !ep.Remote() {
		return env.Getenv("HOME"), nil
	}
	info, err := c.Info(ctx)
	return info.Home, err
}
