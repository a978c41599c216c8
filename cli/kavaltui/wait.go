package kavaltui

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
)

type waitOptions struct {
	until, timeout string
	asJSON         bool
}

func newWait(t *tree) *cobra.Command {
	var opts waitOptions
	cmd := &cobra.Command{
		Use:   "wait <id> --until idle:<ms>|match:<regex>",
		Short: "Wait until a terminal goes quiet or prints something",
		Long: `Wait in the daemon until a terminal printed nothing for so many milliseconds (idle:<ms>), or until new output matches
a regular expression (match:<regex>; RE2, raw bytes, escapes included). New is what comes after the wait began: for what
may be there already, read the screen. Quiet does not tell "finished" from "is asking":
read the screen after it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWait(cmd.Context(), t, args[0], opts, cmd.Flags().Changed)
		},
	}
	cmd.Flags().StringVar(&opts.until, "until", "", "the `condition` to wait for: idle:<ms> or match:<regex>")
	cmd.Flags().StringVar(&opts.timeout, "timeout", "", "give up after so many `ms` (exit 2)")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print one JSON frame, whatever the outcome")
	return cmd
}

func (o waitOptions) request(given func(string) bool) (kaval.WaitRequest, error) {
	if !given("until") {
		return kaval.WaitRequest{}, errors.New("--until is required: idle:<ms> or match:<regex>")
	}
	until, err := drive.ParseUntil(o.until, false)
	if err != nil {
		return kaval.WaitRequest{}, err
	}
	timeout, err := drive.ParseTimeout(o.timeout, given("timeout"))
	return kaval.WaitRequest{IdleMS: until.IdleMS, Match: until.Match, TimeoutMS: timeout}, err
}

func runWait(ctx context.Context, t *tree, query string, opts waitOptions, given func(string) bool) error {
	req, err := opts.request(given)
	if err != nil {
		return err
	}
	w := drive.WaitReport{Self: t.self, Stdout: t.env.Stdout, Stderr: t.env.Stderr, JSON: opts.asJSON}
	return t.withAnyTerminal(ctx, query, func(c *client.KavalClient, id kaval.TerminalID) error {
		res, err := c.Wait(ctx, id, req)
		if errors.Is(err, kaval.ErrNoTerminal) {
			return err
		}
		return w.Report(ctx, id, drive.Flat(res), err)
	})
}
