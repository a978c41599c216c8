// Package kolucmd is the command tree of kolu: every verb of the workspace in one command, `kolu mcp` for agents, `kolu try` for a
// first look, and the other programs' trees under their own names. The verbs are those of package paditui.
package kolucmd

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/kavaltui"
	"kolu/cli/paditui"
	"kolu/internal/version"
)

// New is the tree of this process's kolu.
func New(env *cli.Env) *cobra.Command { return NewWith(env, client.Padi, client.Kaval) }

// NewWith is New with other ways to reach the daemons.
func NewWith(env *cli.Env, padi paditui.Connect, kaval kavaltui.Connect) *cobra.Command {
	f := paditui.NewFace(env, "kolu", padi)
	root := &cobra.Command{
		Use:   "kolu",
		Short: "Keep terminals and coding agents alive, here and on any machine you reach with ssh",
		Long: `kolu keeps terminals, and the coding agents in them, alive and legible on any machine you can reach with ssh. With --host a verb
works on that machine, where nothing need be installed.

kolu try is a tour of half a minute. The other programs are here too: kolu kaval-tui, where attach is, and kolu padi-tui.

` + paditui.ExitStatus,
		Version: version.Version, RunE: paditui.BareHelp,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	f.Bind(root)
	ls := f.Status("ls")
	ls.Aliases = []string{"status", "list"}
	root.AddCommand(ls, f.Watch(), f.Create(), f.Send(), f.Prompt(), f.Wait(paditui.WaitAll), f.Debrief(), f.Explain(), f.Recent(), f.Snapshot(), f.History(), f.Kill(), f.Worktree(), f.Record(), f.Kaval(),
		newTry(env, f), newMCP(env, f, padi), newForward(env, f, padi), newHost(env), newBridge(env), newVersion(env))
	root.AddCommand(f.SessionVerbs()...)
	root.AddCommand(hidden(kavaltui.NewWith(env, kaval), paditui.NewWith(env, padi), paditui.NewPulamWith(env, padi))...)
	return root
}

// hidden are the trees of the other programs: they work here too, and have help of their own.
func hidden(trees ...*cobra.Command) []*cobra.Command {
	for _, tree := range trees {
		tree.Hidden = true
	}
	return trees
}

func newVersion(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			commit := version.Commit
			if commit == "" {
				commit = "unknown"
			}
			_, err := fmt.Fprintf(env.Stdout, "kolu %s\ncommit %s\nbuild %s\nsystem %s/%s\n",
				version.Version, commit, version.BuildID(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
