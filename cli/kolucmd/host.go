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
	takeNoEndpoint(cmd)
	cmd.AddCommand(newHostAdd(env), newHostList(env), newHostRemove(env), newHostRename(env), newHostDoctor(env), newHostForget(env))
	return cmd
}

// endpointFlags are the flags of reaching a host, which the tree has for all its verbs.
var endpointFlags = []string{"host", "socket", "state-root", "group", "all", "timeout-host", "ssh"}

// takeNoEndpoint covers the tree's endpoint flags below cmd by ones that help does not show: they are still understood, so that each verb
// can say why it does not take them.
func takeNoEndpoint(cmd *cobra.Command) {
	for _, name := range endpointFlags {
		if name == "all" {
			cmd.PersistentFlags().Bool(name, false, "")
		} else {
			cmd.PersistentFlags().StringArray(name, nil, "")
		}
		if err := cmd.PersistentFlags().MarkHidden(name); err != nil {
			panic(err) // it was made the line before
		}
	}
}

// sshFlag is how a verb that connects to a host does so.
func sshFlag(cmd *cobra.Command, way *string) {
	cmd.Flags().StringVar(way, "ssh", "", "the `way` to reach the host: auto, master or native")
}
