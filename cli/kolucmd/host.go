package kolucmd

import (
	"github.com/spf13/cobra"

	"kolu/cli"
)

// newHost groups the verbs about hosts themselves.
func newHost(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "List the hosts you reach, and look at what kolu has there",
	}
	cmd.AddCommand(newHostAdd(env), newHostList(env), newHostRemove(env), newHostRename(env), newHostDoctor(env), newHostForget(env))
	return cmd
}
