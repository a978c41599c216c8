package kolucmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/fleet/doctor"
)

func newHostForget(env *cli.Env) *cobra.Command {
	asJSON, all, way := false, false, ""
	cmd := &cobra.Command{
		Use:   "forget HOST",
		Short: "Remove what kolu left on a host: builds, their roots, and our ssh master",
		Long: `Remove what kolu left on a host: its builds, the roots that keep them in a Nix store, what broken attempts left, and on this machine our
ssh master to the host. What was removed is printed, and what remains with the command that finishes it.

While a daemon there holds terminals nothing is removed, and they are named. Daemons without terminals stay, and so does the
build they run; --all ends those daemons too, unless somebody else keeps them running, and removes their runtime directories and builds in a
home that other machines may share. Doing it twice is no error.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := hostOptions(env, cmd, args[0], way)
			if err != nil {
				return err
			}
			target, err := sshTarget(env, args[0])
			if err != nil {
				return err
			}
			done, err := doctor.Forget(cmd.Context(), target, all, o)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(env.Stdout, done)
			}
			return printForgotten(env.Stdout, done)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was done as one JSON object")
	sshFlag(cmd, &way)
	cmd.Flags().BoolVar(&all, "all", false, "on this host, everything: also end the daemons that hold no terminals, and remove what they run")
	return cmd
}

func printForgotten(w io.Writer, done doctor.Forgotten) error {
	text := ""
	for _, group := range []struct {
		word  string
		items []string
	}{{"ended", done.Ended}, {"removed", done.Removed}, {"removed", done.Masters}} {
		for _, item := range group.items {
			text += fmt.Sprintf("%-8s %s\n", group.word, cli.Clean(item))
		}
	}
	for _, k := range done.Kept {
		text += fmt.Sprintf("%-8s %s (%s)", "kept", cli.Clean(k.What), cli.Clean(k.Why))
		if k.Remedy != "" {
			text += " — " + cli.Clean(k.Remedy)
		}
		text += "\n"
	}
	if text == "" {
		text = "nothing of kolu's was on " + cli.Clean(done.Host) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
