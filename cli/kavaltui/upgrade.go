package kavaltui

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"kolu/cli/client"
)

func newUpgrade(t *tree) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Make the running kaval another build, with every terminal as it is",
		Long: `Make the running kaval of this machine another build, in the same process: no terminal ends, nothing that is printed is lost, and
whoever is attached goes on. The other build is first asked to read what it would take over; if it can't, nothing changes.
Without --to it is the build that kaval-tui itself belongs to.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ep, err := t.endpoint()
			if err != nil {
				return err
			}
			if to != "" && !filepath.IsAbs(to) {
				to = filepath.Join(t.env.Dir, to)
			}
			up, err := client.UpgradeKaval(cmd.Context(), t.env, ep, to)
			if err != nil {
				return err
			}
			if up.Already {
				t.note("kaval (pid %d) is build %s already", up.After.PID, short(up.After.Build))
				return nil
			}
			t.note("kaval (pid %d) is build %s now, was %s; its terminals go on", up.After.PID, short(up.After.Build), short(up.Before.Build))
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the kaval of the other build, a `path`")
	return cmd
}

// short is a build's id as people read it.
func short(build string) string { return build[:min(len(build), 12)] }
