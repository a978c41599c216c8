package paditui

import (
	"fmt"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Upgrade is the verb that puts the padi of this build in the place of the one that runs.
func (f *Face) Upgrade() *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade",
		Short: "Put the padi of this build in the place of the one that runs",
		Long: `Put the padi of this build in the place of the one that runs on this machine: that one saves everything and ends, and the new one
takes over. The terminals are kaval's and stay as they are, on the build that they have; see kaval upgrade.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ep, err := f.Endpoint()
			if err != nil {
				return err
			}
			up, err := client.UpgradePadi(cmd.Context(), f.env, ep)
			if err != nil {
				return err
			}
			if up.Already {
				f.note("padi (pid %d) is build %s already", up.After.PID, shortBuild(up.After.Build))
				return nil
			}
			f.note("padi is build %s now (pid %d), was %s (pid %d); its terminals go on",
				shortBuild(up.After.Build), up.After.PID, shortBuild(up.Before.Build), up.Before.PID)
			return nil
		},
	}
}

// Kaval is the verbs about padi's kaval.
func (f *Face) Kaval() *cobra.Command {
	cmd := &cobra.Command{Use: "kaval", Short: "Look after the kaval of a padi", RunE: BareHelp}
	cmd.AddCommand(f.kavalUpgrade(), f.kavalRestart())
	return cmd
}

func (f *Face) kavalUpgrade() *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade",
		Short: "Make padi's kaval the build of padi, with every terminal as it is",
		Long: `Make the kaval of a padi the build that the padi is, in the same process: no terminal ends, nothing that is printed is lost, and
whoever is attached goes on. The new build is first asked to read what it would take over; if it can't, nothing changes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.With(cmd.Context(), func(c *client.PadiClient, _ client.Endpoint) error {
				before, err := c.Kaval(cmd.Context())
				if err != nil {
					return err
				}
				u, ok := c.Workspace.(padi.KavalUpgrader)
				if !ok {
					return fmt.Errorf("%w: this padi cannot upgrade its kaval", kaval.ErrRefused)
				}
				after, err := u.UpgradeKaval(cmd.Context())
				if err != nil {
					return err
				}
				f.note("kaval (pid %d) is build %s now, was %s; its terminals go on", after.PID, shortBuild(after.Build), shortBuild(before.Build))
				return nil
			})
		},
	}
}

func (f *Face) kavalRestart() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restart",
		Short: "End padi's kaval with every terminal in it, and start another; restore brings the terminals back",
		Long: `End the kaval of a padi with every program in its terminals, and start another. The terminals are remembered, parked, and restore
brings them back. It is for a kaval that does not answer; upgrade ends nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.With(cmd.Context(), func(c *client.PadiClient, _ client.Endpoint) error {
				r, ok := c.Workspace.(padi.KavalRestarter)
				if !ok {
					return fmt.Errorf("%w: this padi cannot restart its kaval", kaval.ErrRefused)
				}
				status, err := r.RestartKaval(cmd.Context())
				if err != nil {
					return err
				}
				f.note("kaval runs anew (pid %d); %d terminal(s) parked: %s restore brings them back", status.PID, status.Parked, f.self)
				if asJSON {
					return drive.WriteJSON(f.env.Stdout, status)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print kaval's status as JSON")
	return cmd
}

// shortBuild is a build's id as people read it.
func shortBuild(build string) string { return build[:min(len(build), 12)] }
