package paditui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
)

type recordOptions struct {
	since        time.Duration
	last         int
	text, asJSON bool
}

// Record shows who sent what to which terminal.
func (f *Face) Record() *cobra.Command {
	opts := recordOptions{last: padi.DefaultRecorded}
	var keep string
	cmd := &cobra.Command{
		Use:   "record [id]",
		Short: "Show who sent what to which terminal",
		Long: `Show who sent what to which terminal: when, from which terminal, with which program, how many bytes. With an id, or its beginning,
only what went to that terminal or came from it; it may have ended. What was typed is not kept, unless --keep-text asks for it. What goes to kaval past padi is not in it: whoever is attached, and kaval-tui.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("keep-text") {
				if len(args) > 0 {
					return errors.New("--keep-text is for every terminal: leave the id out")
				}
				return f.keepText(cmd.Context(), keep)
			}
			word := strings.Join(args, "")
			if len(args) > 0 && strings.TrimSpace(word) == "" {
				return errors.New("the id is blank: an unset variable? Leave it out to see all")
			}
			return f.runRecord(cmd.Context(), word, opts)
		},
	}
	cmd.Flags().DurationVar(&opts.since, "since", 0, "only what was sent within this `time`, as 90s, 10m or 24h")
	cmd.Flags().IntVar(&opts.last, "last", opts.last, "only the last `N`")
	cmd.Flags().BoolVar(&opts.text, "text", false, "also the texts that were kept")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print a JSON array, with the texts that were kept")
	cmd.Flags().StringVar(&keep, "keep-text", "", "show nothing; `on` keeps the text of what is sent from now on, at most 4 KB of each and passwords too; off ends that")
	return cmd
}

func (f *Face) runRecord(ctx context.Context, word string, opts recordOptions) error {
	switch {
	case opts.since < 0:
		return errors.New("--since: want a time, as 90s, 10m or 24h")
	case opts.last < 1 || opts.last > padi.MaxRecorded:
		return fmt.Errorf("--last: want a whole number from 1 to %d", padi.MaxRecorded)
	}
	ep, id, err := f.flags.At(f.env.Dir, word)
	if err != nil {
		return err
	}
	req := padi.RecordedRequest{Terminal: id, Limit: opts.last}
	if opts.since > 0 {
		req.Since = time.Now().Add(-opts.since).UnixMilli()
	}
	return f.at(ctx, ep, func(c *client.PadiClient) error {
		rec, err := c.Recorder()
		if err != nil {
			return err
		}
		found, err := rec.Recorded(ctx, req)
		if err != nil {
			return err
		}
		return f.printRecord(found, opts)
	})
}

func (f *Face) printRecord(found padi.Recorded, opts recordOptions) error {
	if opts.asJSON {
		return drive.WriteJSON(f.env.Stdout, found.Sendings)
	}
	if len(found.Sendings) == 0 {
		f.note("nothing was sent")
		return nil
	}
	if found.More {
		f.note("there is more: --last shows as much as %d", padi.MaxRecorded)
	}
	return cli.Table(f.env.Stdout, recordRows(found.Sendings, opts.text))
}

func recordRows(sendings []padi.Sending, text bool) [][]string {
	rows := [][]string{{"TIME", "FROM", "TO", "WITH", "WHAT", "BYTES", "RESULT"}}
	if text {
		rows[0] = append(rows[0], "TEXT")
	}
	for _, s := range sendings {
		from := s.From.Terminal.Short()
		if s.From.Host != "" {
			from = strings.TrimSuffix(s.From.Host+"/"+from, "/")
		}
		result := "ok"
		if s.Code != "" {
			result = s.Code
		}
		row := []string{
			time.UnixMilli(s.At).Format(time.DateTime), orDash(from), orDash(s.To.Short()), orDash(s.From.Face), orDash(s.Kind), fmt.Sprint(s.Bytes), orDash(result),
		}
		if text {
			row = append(row, orDash(s.Text))
		}
		rows = append(rows, row)
	}
	return rows
}

// keepText has texts kept from now on, or no more.
func (f *Face) keepText(ctx context.Context, word string) error {
	words := map[string]string{"on": "kept from now on", "off": "not kept any more"}
	if words[word] == "" {
		return fmt.Errorf("--keep-text: want on or off, not %q", word)
	}
	return f.With(ctx, func(c *client.PadiClient, _ client.Endpoint) error {
		rec, err := c.Recorder()
		if err != nil {
			return err
		}
		if err := rec.RecordText(ctx, word == "on"); err != nil {
			return err
		}
		f.note("the text of what is sent is %s", words[word])
		return nil
	})
}
