package paditui

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

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
			view, err := f.look(cmd.Context())
			if err != nil {
				return err
			}
			f.notes("", view)
			if asJSON && view.link != nil {
				return drive.WriteJSON(f.env.Stdout, remoteRecords(view.records, view.link))
			}
			return printStatus(f.env.Stdout, view.records, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of the whole records: of another machine with the way there (link), of several each with its host")
	return cmd
}

// view is what a padi shows at one moment.
type view struct {
	records []padi.Record
	kaval   padi.KavalStatus // zero where it is not known
	skew    string           // that padi is another build
	link    *client.Link     // nil on this machine
}

// look reads the roster and lets the line go before anything is printed.
func (f *Face) look(ctx context.Context) (v view, err error) {
	err = f.With(ctx, func(c *client.PadiClient, _ client.Endpoint) error {
		v, err = f.viewOf(ctx, c)
		return err
	})
	return v, err
}

// viewOf asks both questions at once.
func (f *Face) viewOf(ctx context.Context, c *client.PadiClient) (v view, err error) {
	v.skew = c.Where.Skew(c.Hello, f.env.Getenv)
	var asking sync.WaitGroup
	asking.Go(func() {
		if k, err := c.Kaval(ctx); err == nil { // the rows say what matters
			v.kaval = k
		}
	})
	v.link = c.Where.Link
	v.records, err = c.Terminals(ctx)
	asking.Wait()
	return v, err
}

// notes says what a reader of the rows of a host, or of this machine, should know.
func (f *Face) notes(host string, v view) {
	if v.skew != "" {
		f.note("%s", v.skew)
	}
	f.noteKaval(host, v.kaval)
}

// noteKaval says what became of a host's kaval, or of this machine's: that its rows are as they were when it was last heard of, that
// it was replaced, or that only the line to it was lost. The last is news for a minute.
func (f *Face) noteKaval(host string, k padi.KavalStatus) {
	if line := f.kavalNews(k); line != "" {
		if host != "" {
			line = host + ": " + line
		}
		f.note("%s", cli.Clean(line))
	}
}

// lineNewsMS is for how long it is said that a lost line was made again.
const lineNewsMS = 60_000

func (f *Face) kavalNews(k padi.KavalStatus) string {
	switch {
	case k.State == "" || k.State == "connecting":
	case k.State != "connected":
		why := ""
		if k.Detail != "" {
			why = " (" + k.Detail + ")"
		}
		return fmt.Sprintf("kaval is %s%s: its terminals are shown as they were last known", k.State, why)
	case k.RestartedAt > 0 && k.Parked > 0:
		return fmt.Sprintf("kaval was unresponsive — kolu restarted it; your session is ready to restore: %s restore (%d parked)", f.self, k.Parked)
	case k.LineRestoredAt > 0 && k.At-k.LineRestoredAt < lineNewsMS:
		return "the line to kaval was lost and is back; terminals and agents kept running, nothing to restore"
	}
	return ""
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
