package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// teach makes the mistakes of a command line name what to type instead.
func teach(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	if cmd.HasSubCommands() {
		cmd.Args = noSuchVerb
		return
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return argsError(cmd, args, check) }
	}
}

func noSuchVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := cmd.SuggestionsFor(args[0])
	for _, sub := range cmd.Commands() { // a tree that is not shown may have the very verb
		if found, _, err := sub.Find(args[:1]); sub.Hidden && err == nil && found != sub {
			near = append(near, sub.Name()+" "+found.Name())
		}
	}
	if len(near) > 0 {
		return fmt.Errorf("unknown command %q — did you mean %s %s?", args[0], cmd.CommandPath(), strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q — see %s --help", args[0], cmd.CommandPath())
}

// flagError is told of a flag that a command cannot take.
func flagError(cmd *cobra.Command, err error) error {
	help := "see " + cmd.CommandPath() + " --help"
	if cmd.HasSubCommands() {
		if words := cmd.Flags().Args(); len(words) > 0 {
			return noSuchVerb(cmd, words)
		}
		help = "the flags of a command go after its name, " + help
	}
	text, _, number := strings.Cut(err.Error(), ": strconv.")
	if number {
		text += ": want a whole number"
	}
	return fmt.Errorf("%s — %s", text, help)
}

// argsError says which argument is missing or too many, with the shape of the command.
func argsError(cmd *cobra.Command, args []string, check cobra.PositionalArgs) error {
	if check(cmd, args) == nil {
		return nil
	}
	what := errors.New("an argument is missing")
	for n := len(args) - 1; n >= 0; n-- {
		if check(cmd, args[:n]) == nil {
			what = fmt.Errorf("unexpected argument %q", args[n])
			break
		}
	}
	return fmt.Errorf("%w — usage: %s", what, cmd.UseLine())
}

// RefuseBlank refuses those of the named flags that were given without a value, as by an unset variable of a script.
func RefuseBlank(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flag(name); f != nil && f.Changed && strings.TrimSpace(f.Value.String()) == "" {
			return fmt.Errorf("--%s is blank: an unset variable? Leave the flag out or give a value", name)
		}
	}
	return nil
}
