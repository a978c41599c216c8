package paditui

import (
	"github.com/spf13/cobra"
)

// Debrief waits until a terminal's agent is done and everything it started is quiet, and prints what the terminal shows then.
func (f *Face) Debrief() *cobra.Command {
	opts := waitOptions{kind: WaitAll, until: "awaiting,waiting"}
	cmd := &cobra.Command{
		Use:   "debrief <id>…",
		Short: "Wait until a terminal's agent is done and quiet, and print what it shows",
		Long: `Wait until a terminal's agent has ended its turn or asks something, and the terminal has then been quiet for a while, and print its last lines. It is
wait --until awaiting,waiting --settled 15000 --snapshot 40. Since a state that holds already counts, hand over the prompt before: kolu prompt.` + "\n\n" + severalIDs,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.words = args
			opts.given = func(name string) bool { return name != "timeout" || cmd.Flags().Changed(name) }
			return f.runWait(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.settled, "quiet", "15000", "for how many `ms` the terminal must print nothing")
	cmd.Flags().StringVar(&opts.snaplen, "tail", "40", "print the last `N` lines of content")
	cmd.Flags().StringVar(&opts.timeout, "timeout", "", "give up after so many `ms` (exit 2)")
	cmd.Flags().BoolVar(&opts.any, "any", false, "of several terminals, end when one is done")
	cmd.Flags().BoolVar(&opts.all, "all", false, "of several terminals, wait until every one is done or has ended (here --all is about terminals)")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print the outcome as JSON, of several terminals an array")
	return cmd
}
