package kolucmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/fleet/inventory"
)

const listHelp = `The list is hosts.toml in $XDG_CONFIG_HOME/kolu (else ~/.config/kolu), which you may edit too; $KOLU_HOSTS adds names to it.`

func newHostAdd(env *cli.Env) *cobra.Command {
	h := inventory.Host{}
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Put a host on the list, so that --group and --all mean it too",
		Long: `Put a host on the list, so that --group and --all mean it too. Nothing is dialled. Without --ssh the name itself is what ssh is
given.

` + listHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyOwn(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("ssh") && strings.TrimSpace(h.SSH) == "" {
				return errors.New("--ssh is blank: an unset variable? Leave the flag out or give a value")
			}
			h.Name = args[0]
			if h.SSH == "" {
				h.SSH = h.Name
			}
			path := inventory.Path(env.Getenv)
			if err := inventory.Add(cmd.Context(), path, h); err != nil {
				return withHint(err)
			}
			note(env, "added %s (ssh %s) to %s", h.Name, h.SSH, path)
			return nil
		},
	}
	cmd.Flags().StringVar(&h.SSH, "ssh", "", "what ssh is given: an alias, user@name or ssh://user@name:port (the `target`)")
	cmd.Flags().StringSliceVar(&h.Groups, "group", nil, "a `group` that it belongs to; may be repeated")
	return cmd
}

func newHostList(env *cli.Env) *cobra.Command {
	asJSON := false
	var groups []string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "Show the hosts on the list",
		Long:    "Show the hosts on the list. Nothing is dialled.\n\n" + listHelp,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := onlyOwn(cmd); err != nil {
				return err
			}
			return runHostList(env, groups, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of {name, ssh, groups}")
	cmd.Flags().StringSliceVar(&groups, "group", nil, "only those of a `group`; may be repeated")
	return cmd
}

func runHostList(env *cli.Env, groups []string, asJSON bool) error {
	list, err := inventory.Load(env.Getenv)
	if err != nil {
		return err
	}
	for _, w := range list.Warnings {
		env.Errorf("%s", cli.Clean(w))
	}
	hosts := list.Hosts
	if len(groups) > 0 {
		if hosts, err = list.Choose(inventory.Selection{Groups: groups}); err != nil {
			return err
		}
	}
	if asJSON {
		if hosts == nil {
			hosts = []inventory.Host{}
		}
		return cli.JSON(env.Stdout, hosts)
	}
	if len(hosts) == 0 {
		_, err := fmt.Fprintln(env.Stdout, "no hosts.")
		return err
	}
	rows := [][]string{{"NAME", "SSH", "GROUPS"}}
	for _, h := range hosts {
		rows = append(rows, []string{strings.Join(h.Names(), ","), h.SSH, strings.Join(h.Groups, ",")})
	}
	return cli.Table(env.Stdout, rows)
}

func newHostRemove(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Take a host off the list; nothing changes on it",
		Long:    "Take a host off the list. Nothing changes on the host: kolu host forget removes what is there.\n\n" + listHelp,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyOwn(cmd); err != nil {
				return err
			}
			path := inventory.Path(env.Getenv)
			if err := inventory.Remove(cmd.Context(), path, args[0]); err != nil {
				return whose(env, err, args[0])
			}
			note(env, "removed %s from %s", args[0], path)
			return nil
		},
	}
}

func newHostRename(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "Give a host on the list another name",
		Long:  "Give a host on the list another name; it stays the same machine, in the same groups.\n\n" + listHelp,
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyOwn(cmd); err != nil {
				return err
			}
			if err := inventory.Rename(cmd.Context(), inventory.Path(env.Getenv), args[0], args[1]); err != nil {
				return whose(env, err, args[0])
			}
			note(env, "renamed %s to %s", args[0], args[1])
			return nil
		},
	}
}

func note(env *cli.Env, format string, args ...any) {
	fmt.Fprintf(env.Stderr, "— %s\n", cli.Clean(fmt.Sprintf(format, args...)))
}

// onlyOwn refuses the flags of reaching a host.
func onlyOwn(cmd *cobra.Command) error {
	for _, name := range endpointFlags {
		if f := cmd.InheritedFlags().Lookup(name); f != nil && f.Changed && cmd.LocalNonPersistentFlags().Lookup(name) == nil {
			return fmt.Errorf("--%s is not for this verb, which dials nothing", name)
		}
	}
	return nil
}

// withHint adds what to do about a host that is listed already.
func withHint(err error) error {
	if errors.Is(err, inventory.ErrExists) {
		return fmt.Errorf("%w — `kolu host list` shows it, `kolu host remove` takes it off", err)
	}
	return err
}

// whose says that a name comes from the environment, where it does.
func whose(env *cli.Env, err error, name string) error {
	if !errors.Is(err, inventory.ErrNone) {
		return withHint(err)
	}
	if list, lerr := inventory.Load(env.Getenv); lerr == nil {
		if _, ok := list.Find(name); ok {
			return fmt.Errorf("%w in the file: $%s names it", err, inventory.HostsVar)
		}
		if i := slices.IndexFunc(list.Hosts, func(h inventory.Host) bool { return strings.EqualFold(h.Name, name) }); i >= 0 {
			return fmt.Errorf("%w — is %s meant?", err, list.Hosts[i].Name)
		}
	}
	return fmt.Errorf("%w — `kolu host list` shows those that are", err)
}

// sshTarget is what ssh is given for a host that the user named.
func sshTarget(env *cli.Env, name string) (string, error) {
	list, err := inventory.Load(env.Getenv)
	if err != nil {
		return "", err
	}
	h, err := list.Resolve(name)
	return h.SSH, err
}
