// Package kavalcmd is the command `kaval`: the PTY daemon itself, and the front that ssh runs to reach it. The parts are
// wired together here: a ptyhost.Host served by kavalrpc on the spine of package daemon.
package kavalcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/front"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/kaval/ptyhost"
	"kolu/internal/version"
)

type options struct {
	socket, stateRoot, tools, padiSocket string

	stdio bool
	nonce string
	guard string

	handoff handoffFlags
}

const long = `kaval is the PTY daemon: it owns the terminals of this machine and outlives every client.

Without flags it serves in the foreground, logs to stderr as JSON, and ends at SIGINT or SIGTERM with every terminal in
it. When this very kaval runs already, it says so and ends with 0.

ENVIRONMENT
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
		Use:     "kaval",
		Short:   "the PTY daemon",
		Long:    long,
		Args:    cobra.NoArgs,
		Version: kaval.Contract,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.guard != "" {
				return daemon.Guard(cmd.Context(), o.guard, env.Stdin)
			}
			if err := cli.RefuseBlank(cmd, "socket", "state-root", "tools", "padi-socket", "nonce"); err != nil {
				return err
			}
			if err := o.check(env); err != nil {
				return err
			}
			if o.stdio {
				return front.Run(cmd.Context(), env, front.Config{Nonce: o.nonce, Contract: kaval.Contract, Reach: o.reach(env)})
			}
			if o.handoff.check >= 0 {
				return checkHandoff(env, o.handoff.check)
			}
			return serve(cmd.Context(), env, o)
		},
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	flags := cmd.Flags()
	flags.StringVar(&o.socket, "socket", "", "serve at this `path`; the daemon's other files lie beside it")
	flags.StringVar(&o.stateRoot, "state-root", "", "belong to the padi with this state `folder`")
	flags.StringVar(&o.tools, "tools", "", "the `folder` that the PATH of every terminal begins with")
	flags.StringVar(&o.padiSocket, "padi-socket", "", "what terminals get as PADI_SOCKET: a `path`")
	flags.BoolVar(&o.stdio, "stdio", false, "lead connections from stdin and stdout to the kaval of this machine")
	flags.StringVar(&o.nonce, "nonce", "", "`word` that marks the banner of --stdio")
	front.GuardFlag(cmd, &o.guard)
	o.handoff.bind(cmd)
	return cmd
}

func (o *options) check(env *cli.Env) error {
	if o.nonce != "" && !o.stdio {
		return errors.New("--nonce is only for --stdio")
	}
	for _, path := range []*string{&o.socket, &o.stateRoot, &o.tools, &o.padiSocket} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(env.Dir, *path)
		}
	}
	return nil
}

func (o *options) home(env *cli.Env) daemon.Home {
	switch {
	case o.socket != "":
		return daemon.HomeAt(daemon.Kaval, o.socket, o.stateRoot)
	case o.stateRoot != "":
		return daemon.HomeFor(daemon.Kaval, o.stateRoot, env.Getenv)
	}
	return daemon.Standalone(daemon.Kaval, env.Getenv)
}

func serve(ctx context.Context, env *cli.Env, o options) error {
	log := slog.New(slog.NewJSONHandler(env.Stderr, nil))
	home, before, memory := o.home(env), (*legacy)(nil), kavalrpc.NewMemory()
	var handoff *daemon.Handoff
	if o.handoff.take >= 0 {
		var err error
		if before, err = takeOver(o.handoff.take); err != nil {
			return err
		}
		handoff, home, memory = before.handoff, before.handoff.Home(daemon.Kaval), before.last.Memory
	}
	var host *ptyhost.Host
	err := daemon.Serve(ctx, daemon.ServeConfig{
		Handoff: handoff, Upgrade: o.upgrade(func() *ptyhost.Host { return host }, memory),
		Home: home, Contract: kaval.Contract, Build: version.BuildID(), Commit: version.Commit,
		LookupEnv: env.LookupEnv, Log: log, Guard: front.GuardCommand("kaval"),
		Restored: func(home daemon.Home) {
			if _, err := o.toolsDir(home); err != nil {
				log.Warn("tools not made again", "err", err)
			}
		},
		Open: func(context.Context, daemon.Hello) (http.Handler, error) {
			tools, err := o.toolsDir(home)
			if err != nil {
				return nil, fmt.Errorf("find tools: %w", err)
			}
			options := ptyhost.Options{
				Log: log, Socket: home.Socket(), PadiSocket: o.padiSocket, ToolsDir: tools, RunDir: home.Dir,
				Environ: daemon.DetachedEnv(env.Environ), Version: version.Version,
			}
			if before != nil {
				host = ptyhost.Resume(options, before.state, before.last.Late)
			} else {
				host = ptyhost.New(options)
			}
			return memory.Handler(host, log), nil
		},
	})
	if host != nil {
		host.Close()
	}
	if errors.Is(err, daemon.ErrRunning) {
		env.Errorf("%v", err)
		return nil
	}
	return err
}

func (o *options) toolsDir(home daemon.Home) (string, error) {
	if o.tools != "" {
		return o.tools, nil
	}
	return front.Tools(home.Dir)
}

// reach finds the kaval that a front leads to: the one that was named, else that of the primary padi, else the only one
// that runs, else one on its own, which is started.
func (o *options) reach(env *cli.Env) func(context.Context) (daemon.Hello, error) {
	return func(ctx context.Context) (daemon.Hello, error) {
		home := o.home(env)
		if o.socket == "" && o.stateRoot == "" {
			found, err := daemon.Find(daemon.Kaval, daemon.Want{Getenv: env.Getenv})
			if err == nil {
				return daemon.Greet(ctx, found.Home)
			}
			if _, none := errors.AsType[*daemon.NotRunningError](err); !none {
				return daemon.Hello{}, err
			}
		}
		return o.start(ctx, env, home)
	}
}

func (o *options) start(ctx context.Context, env *cli.Env, home daemon.Home) (daemon.Hello, error) {
	if err := daemon.OpenHome(home); err != nil {
		return daemon.Hello{}, err
	}
	tools, err := o.toolsDir(home)
	if err != nil {
		return daemon.Hello{}, fmt.Errorf("find tools: %w", err)
	}
	args := []string{"--tools", tools}
	for flag, value := range map[string]string{"--socket": o.socket, "--state-root": o.stateRoot, "--padi-socket": o.padiSocket} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	return daemon.Start(ctx, daemon.StartConfig{
		Home: home, Exe: filepath.Join(tools, "kaval"), Name: "kaval", Args: args, Environ: env.Environ, Log: front.Log(env.Stderr),
	})
}
