package kolucmd

import (
	"github.com/spf13/cobra"

	"kolu/cli"
)

// newHost groups the verbs about hosts themselves.
func newHost(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Look at the hosts you reach, and at what kolu has there",
	}
	cmd.AddCommand(newHostDoctor(env), newHostForget(env))
	return cmd
}
