package paditui

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
)

// Status shows the workspace once. use is the verb's name.
func (f *Face) Status(use string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use,
		Short: "Show the terminals: repository, pull request, agent, foreground program, idle time",
		Long: `Show the terminals: repository, pull request, agent, foreground program, idle time. Of several hosts each row says its host, and
the rows of a host are printed as soon as it answers.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.flags.Several() {
				return f.statusMany(cmd.Context(), asJSON)
			}
			records, err := f.records(cmd.Context())
			if err != nil {
				return err
			}
			return printStatus(f.env.Stdout, records, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of the whole records, of several hosts each with its host")
	return cmd
}

// records reads the roster and lets the line go before anything is printed.
func (f *Face) records(ctx context.Context) (records []padi.Record, err error) {
	err = f.With(ctx, func(c *client.PadiClient, _ client.Endpoint) error {
		records, err = c.Terminals(ctx)
		return err
	})
	return records, err
}

func printStatus(w io.Writer, records []padi.Record, asJSON bool) error {
	if asJSON {
		if records == nil {
			records = []padi.Record{}
		}
		return drive.WriteJSON(w, records)
	}
	if len(records) == 0 {
		_, err := fmt.Fprintln(w, "no terminals.")
		return err
	}
	return cli.Table(w, statusRows(records))
}

// statusRows are the rows in the order of the ids; a column for the state comes in when some terminal is not active.
func statusRows(records []padi.Record) [][]string {
	sorted := slices.SortedFunc(slices.Values(records), func(a, b padi.Record) int { return strings.Compare(string(a.ID), string(b.ID)) })
	dormant := slices.ContainsFunc(records, func(r padi.Record) bool { return r.State != padi.Active })
	rows := [][]string{{"ID", "REPO·BRANCH", "PR", "AGENT", "FOREGROUND", "IDLE"}}
	for _, r := range sorted {
		rows = append(rows, []string{r.ID.Short(), repoCell(r.Git), prCell(r.PR), agentCell(r), foregroundCell(r), idleCell(r)})
	}
	if dormant {
		rows[0] = slices.Insert(rows[0], 1, "STATE")
		for i, r := range sorted {
			rows[i+1] = slices.Insert(rows[i+1], 1, string(r.State))
		}
	}
	return rows
}
