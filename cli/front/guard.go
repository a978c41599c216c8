package front

import "github.com/spf13/cobra"

// guardFlag names the daemon that a process guards.
const guardFlag = "guard"

// GuardFlag makes a command able to be the guard of its daemon; see daemon.Guard. People don't see the flag.
func GuardFlag(cmd *cobra.Command, who *string) {
	cmd.Flags().StringVar(who, guardFlag, "", "")
	if err := cmd.Flags().MarkHidden(guardFlag); err != nil {
		panic(err) // the flag was made the line before
	}
}

// GuardCommand is the command line of a guard but for its last argument.
func GuardCommand(name string) []string { return []string{name, "--" + guardFlag} }
