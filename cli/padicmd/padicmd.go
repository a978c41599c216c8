// Package padicmd is the command `padi`: the workspace daemon itself, and the front that ssh runs to reach it. The parts are
// wired together here: a workspace over a supervised kaval, served by padirpc on the spine of package daemon.
package padicmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/front"
	"kolu/daemon"
	"kolu/daemon/padi"
)

type options struct {
	socket, stateRoot string

	stdio bool
	nonce string
	guard string
}

const long = `padi is the workspace daemon: it knows what the terminals of this machine are doing, and keeps its own kaval up, which
owns them. It is keyed to a state folder; a second padi on the same folder says so and ends with 0.

Without flags it serves in the foreground and ends at SIGINT or SIGTERM; the terminals live on in kaval. It logs to
padi.log in the state folder.

ENVIRONMENT
  KOLU_PADI_STATE_DIR   the state folder; else $HOME/.local/state/padi
  XDG_RUNTIME_DIR       where the socket goes if it outlives the login; else /tmp
  KOLU_RUNTIME_DIR      the one directory for all sockets: a private fleet
  KOLU_DAEMON_BIND_PID  end when this process ends

EXIT STATUS
  0  ended on request, or already running
  1  could not serve, or stopped answering`

// New makes the command.
func New(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "padi",
		Short:   "the workspace daemon",
		Long:    long,
		Args:    cobra.NoArgs,
		Version: padi.Contract,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.guard != "" {
				return daemon.Guard(cmd.Context(), o.guard, env.Stdin)
			}
			if err := cli.RefuseBlank(cmd, "socket", "state-root", "nonce"); err != nil {
				return err
			}
			if o.stdio {
				return front.Run(cmd.Context(), env, front.Config{Nonce: o.nonce, Contract: padi.Contract, Reach: o.reach(env), Agent: true})
			}
			if err := o.check(env); err != nil {
				return err
			}
			return serve(cmd.Context(), env, o)
		},
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	flags := cmd.Flags()
	flags.StringVar(&o.socket, "socket", "", "serve at this `path`; the daemon's other files lie beside it")
	flags.StringVar(&o.stateRoot, "state-root", "", "the state `folder`")
	flags.BoolVar(&o.stdio, "stdio", false, "lead connections from stdin and stdout to the padi of this machine, starting it if need be")
	flags.StringVar(&o.nonce, "nonce", "", "`word` that marks the banner of --stdio")
	front.GuardFlag(cmd, &o.guard)
	return cmd
}

// check makes the paths absolute and settles the state root.
func (o *options) check(env *cli.Env) error {
	if o.nonce != "" && !o.stdio {
		return errors.New("--nonce is only for --stdio")
	}
	for _, path := range []*string{&o.socket, &o.stateRoot} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(env.Dir, *path)
		}
	}
	if o.stateRoot == "" {
		root, err := daemon.StateRoot(env.Getenv)
		if err != nil {
			return err
		}
		o.stateRoot = root
	}
	o.stateRoot = filepath.Clean(o.stateRoot)
	return nil
}

func (o *options) home(env *cli.Env) daemon.Home {
	if o.socket != "" {
		return daemon.HomeAt(daemon.Padi, o.socket, o.stateRoot)
	}
	return daemon.HomeFor(daemon.Padi, o.stateRoot, env.Getenv)
}

// reach adopts or starts the padi of the state root.
func (o *options) reach(env *cli.Env) func(context.Context) (daemon.Hello, error) {
	return func(ctx context.Context) (daemon.Hello, error) {
		if err := o.check(env); err != nil {
			return daemon.Hello{}, err
		}
		home := o.home(env)
		if err := daemon.OpenHome(home); err != nil {
			return daemon.Hello{}, err
		}
		tools, err := front.Tools(home.Dir)
		if err != nil {
			return daemon.Hello{}, fmt.Errorf("find tools: %w", err)
		}
		args := []string{"--state-root", o.stateRoot}
		if o.socket != "" {
			args = append(args, "--socket", o.socket)
		}
		return daemon.Start(ctx, daemon.StartConfig{
			Home: home, Exe: filepath.Join(tools, "padi"), Name: "padi", Args: args, Environ: env.Environ, Log: front.Log(env.Stderr),
		})
	}
}
