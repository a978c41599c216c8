// Kolu keeps terminals, and the agents in them, alive and legible on any machine that ssh reaches. It is one program with
// six names; the one it is called by picks what it does.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/kavalcmd"
	"kolu/cli/kavaltui"
	"kolu/cli/kolucmd"
	"kolu/cli/padicmd"
	"kolu/cli/paditui"
)

func main() {
	env := cli.OS()
	os.Exit(cli.Main(tree(env.Name), env))
}

func tree(name string) func(*cli.Env) *cobra.Command {
	trees := map[string]func(*cli.Env) *cobra.Command{
		"kaval": kavalcmd.New, "padi": padicmd.New, "kaval-tui": kavaltui.New, "padi-tui": paditui.New, "pulam-tui": paditui.NewPulam,
	}
	if newRoot, ok := trees[name]; ok {
		return newRoot
	}
	return kolucmd.New
}
