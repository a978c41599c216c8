// Package paditui is the command tree of padi-tui, the workspace client, and of pulam-tui, its older name. Its verbs are methods
// of a [Face], so that kolu has the same ones under its own name. It parses, asks a padi through cli/client, prints, and
// chooses an exit code. Everything that can be wrong with a command line is found before anything is dialled.
package paditui

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
	"kolu/internal/shellquote"
)

// Connect reaches the padi that an endpoint means.
type Connect func(ctx context.Context, env *cli.Env, ep client.Endpoint) (*client.PadiClient, error)

// New is the tree of this process's padi-tui.
func New(env *cli.Env) *cobra.Command { return NewWith(env, client.Padi) }

// NewWith is New with another way to reach a padi.
func NewWith(env *cli.Env, connect Connect) *cobra.Command {
	f := NewFace(env, "padi-tui", connect)
	root := f.root("See and drive the workspace of a padi, here or on another machine", longHelp)
	root.AddCommand(f.Status("status"), f.Watch(), f.Wait(WaitAgent), f.Explain(), f.Recent(), f.Create(), f.Send(), f.Prompt(), f.Snapshot(), f.History(), f.Kill(), f.Worktree(), f.Record(), f.Kaval(), f.Upgrade())
	root.AddCommand(f.SessionVerbs()...)
	return root
}

// NewPulam is the tree of pulam-tui.
func NewPulam(env *cli.Env) *cobra.Command { return NewPulamWith(env, client.Padi) }

// NewPulamWith is NewPulam with another way to reach a padi.
func NewPulamWith(env *cli.Env, connect Connect) *cobra.Command {
	f := NewFace(env, "pulam-tui", connect)
	root := f.root("The older name of padi-tui's status, watch and wait", longHelp)
	root.AddCommand(f.Status("status"), f.Watch(), f.Wait(WaitAgent), f.Explain())
	return root
}

const longHelp = `It shows what each terminal is in: repository, pull request, agent and what that is doing. Without a flag it speaks to
the padi that $PADI_SOCKET names, else to the only one that runs, else to the one keyed to the environment's state root;
when none runs, it starts one. Terminals are named by their id or the beginning of it; one on another machine is written host/id,
and then --host isn't needed. status, watch and wait take several hosts: --host a,b, --group, --all.

` + ExitStatus

// ExitStatus is the part of a help text that says what the exit codes mean.
const ExitStatus = `EXIT STATUS
  0    done; wait: the condition was met; watch: stopped
  1    bad usage, no such terminal, no daemon, a broken line
  2    wait: the time ran out
  3    wait: the terminal ended first; prompt: no agent has the terminal
  4    of several hosts, some did not answer (1 when none did)
  5    prompt: staged; 6: busy; 7: blocked
  130  wait: interrupted`

// Face is one program's view of a padi: what its verbs share.
type Face struct {
	env     *cli.Env
	self    string
	flags   client.Flags
	connect Connect
}

// NewFace makes the verbs of a program called self.
func NewFace(env *cli.Env, self string, connect Connect) *Face {
	return &Face{env: env, self: self, connect: connect}
}

// Bind adds the endpoint flags to a command and everything below it.
func (f *Face) Bind(root *cobra.Command) {
	for _, flag := range f.flags.Padi() {
		root.PersistentFlags().VarPF(flag.Value, flag.Name, "", flag.Usage).NoOptDefVal = flag.Bare
	}
}

// BareHelp is what a command without a verb does: help on stdout, and exit 1.
func BareHelp(cmd *cobra.Command, _ []string) error {
	if err := cmd.Help(); err != nil {
		return err
	}
	return cli.Exit(1, nil)
}

func (f *Face) root(short, long string) *cobra.Command {
	root := &cobra.Command{
		Use: f.self, Short: short, Long: short + ".\n\n" + long, Version: padi.Contract, RunE: BareHelp,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	f.Bind(root)
	return root
}

// Endpoint checks the endpoint flags; it dials nothing.
func (f *Face) Endpoint() (client.Endpoint, error) { return f.flags.Endpoint(f.env.Dir) }

func (f *Face) note(format string, args ...any) {
	fmt.Fprintf(f.env.Stderr, "— %s\n", fmt.Sprintf(format, args...))
}

// With connects, runs fn and closes.
func (f *Face) With(ctx context.Context, fn func(c *client.PadiClient, ep client.Endpoint) error) error {
	ep, err := f.Endpoint()
	if err != nil {
		return err
	}
	return f.at(ctx, ep, func(c *client.PadiClient) error { return fn(c, ep) })
}

func (f *Face) at(ctx context.Context, ep client.Endpoint, fn func(c *client.PadiClient) error) error {
	c, err := f.connect(ctx, f.env, ep)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// withTerminal is With for a verb about one terminal, which may be written host/id.
func (f *Face) withTerminal(ctx context.Context, word string, fn func(c *client.PadiClient, id padi.TerminalID) error) error {
	ep, query, err := f.flags.At(f.env.Dir, word)
	if err != nil {
		return err
	}
	return f.at(ctx, ep, func(c *client.PadiClient) error {
		id, err := f.resolve(ctx, c, ep, query)
		if err != nil {
			return err
		}
		return fn(c, id)
	})
}

// resolve finds the terminal of a query, and says what became of kaval; ep is where c leads, for the command that shows what there is.
func (f *Face) resolve(ctx context.Context, c *client.PadiClient, ep client.Endpoint, query string) (padi.TerminalID, error) {
	v, err := f.viewOf(ctx, c)
	if err != nil {
		return "", err
	}
	f.noteKaval("", v.kaval)
	ids := make([]padi.TerminalID, len(v.records))
	for i, r := range v.records {
		ids[i] = r.ID
	}
	list := "status"
	if f.self == "kolu" {
		list = "ls"
	}
	return drive.Resolve(ids, query, shellquote.Join(append([]string{f.self, list}, ep.Args()...)))
}
