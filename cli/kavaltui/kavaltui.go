// Package kavaltui is the command tree of kaval-tui, the raw multiplexer's client: list, create, send, wait, snapshot, history,
// attach and kill. It parses, asks a kaval through cli/client, prints, and chooses an exit code. Everything that can be wrong
// with a command line is found before anything is dialled.
package kavaltui

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/internal/shellquote"
)

// Connect reaches the kaval that an endpoint means. start allows one to be started on this machine when none runs.
type Connect func(ctx context.Context, env *cli.Env, ep client.Endpoint, start bool) (*client.KavalClient, error)

// New is the tree of this process's kaval-tui.
func New(env *cli.Env) *cobra.Command { return NewWith(env, client.Kaval) }

// NewWith is New with another way to reach a kaval.
func NewWith(env *cli.Env, connect Connect) *cobra.Command {
	t := &tree{env: env, self: "kaval-tui", connect: connect}
	root := &cobra.Command{
		Use:               t.self,
		Short:             "Drive the terminals of a kaval, here or on another machine",
		Long:              longHelp,
		Version:           kaval.Contract,
		RunE:              bareHelp,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	for _, f := range t.flags.Kaval() {
		root.PersistentFlags().Var(f.Value, f.Name, f.Usage)
	}
	root.AddCommand(newList(t), newCreate(t), newSend(t), newWait(t), newSnapshot(t), newHistory(t), newAttach(t), newKill(t), newUpgrade(t))
	return root
}

const longHelp = `kaval-tui drives the terminals of a kaval: it starts programs, types into them, reads their screens and waits for
them. Without a flag it speaks to the kaval that $KAVAL_SOCKET names, else to the one of the primary padi, else to the
only one that runs. Terminals are named by their id or the beginning of it; one on another machine is written host/id, and then
--host isn't needed.

EXIT STATUS
  0    done; wait: the condition was met; attach: detached
  1    bad usage, no such terminal, no daemon, a broken line
  2    wait: the time ran out
  3    wait: the terminal ended first
  130  wait: interrupted
  attach ends with the exit code of the program when that ends.`

func bareHelp(cmd *cobra.Command, _ []string) error {
	if err := cmd.Help(); err != nil {
		return err
	}
	return cli.Exit(1, nil)
}

// tree is what the verbs share.
type tree struct {
	env     *cli.Env
	self    string
	flags   client.Flags
	connect Connect
}

// endpoint checks the endpoint flags; it dials nothing.
func (t *tree) endpoint() (client.Endpoint, error) { return t.flags.Endpoint(t.env.Dir) }

// hint is a command line of this program for the same endpoint, quoted for a shell.
func (t *tree) hint(ep client.Endpoint, words ...string) string {
	return shellquote.Join(append(append([]string{t.self}, words...), ep.Args()...))
}

// note prints one trailer on stderr.
func (t *tree) note(format string, args ...any) {
	fmt.Fprintf(t.env.Stderr, "— %s\n", fmt.Sprintf(format, args...))
}

// with connects, runs fn and closes.
func (t *tree) with(ctx context.Context, start bool, fn func(c *client.KavalClient, ep client.Endpoint) error) error {
	ep, err := t.endpoint()
	if err != nil {
		return err
	}
	return t.at(ctx, ep, start, func(c *client.KavalClient) error { return fn(c, ep) })
}

func (t *tree) at(ctx context.Context, ep client.Endpoint, start bool, fn func(c *client.KavalClient) error) error {
	c, err := t.connect(ctx, t.env, ep, start)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// withTerminal is with for a verb about one live terminal, which may be written host/id.
func (t *tree) withTerminal(ctx context.Context, word string, fn func(c *client.KavalClient, term kaval.Terminal) error) error {
	ep, query, err := t.flags.At(t.env.Dir, word)
	if err != nil {
		return err
	}
	return t.at(ctx, ep, false, func(c *client.KavalClient) error {
		term, err := t.resolve(ctx, c, ep, query)
		if err != nil {
			return err
		}
		return fn(c, term)
	})
}

// withAnyTerminal is withTerminal for a verb that the daemon can also answer about a terminal that has ended: a whole id is asked
// for even when no live terminal has it.
func (t *tree) withAnyTerminal(ctx context.Context, word string, fn func(c *client.KavalClient, id kaval.TerminalID) error) error {
	ep, query, err := t.flags.At(t.env.Dir, word)
	if err != nil {
		return err
	}
	return t.at(ctx, ep, false, func(c *client.KavalClient) error {
		term, missing := t.resolve(ctx, c, ep, query)
		if missing == nil {
			return fn(c, term.ID)
		}
		id, whole := wholeID(query)
		if _, none := errors.AsType[*drive.NoMatchError](missing); !none || !whole {
			return missing
		}
		if err := fn(c, id); !errors.Is(err, kaval.ErrNoTerminal) {
			return err
		}
		return missing
	})
}

// wholeID is the id that a query spells out to its end.
func wholeID(query string) (kaval.TerminalID, bool) {
	const canonical = 36
	id, err := uuid.Parse(query)
	return kaval.TerminalID(id.String()), err == nil && len(query) == canonical
}

// resolve finds the terminal of a query; ep is where c leads, for the command that shows what there is.
func (t *tree) resolve(ctx context.Context, c *client.KavalClient, ep client.Endpoint, query string) (kaval.Terminal, error) {
	terms, err := c.List(ctx)
	if err != nil {
		return kaval.Terminal{}, err
	}
	ids := make([]kaval.TerminalID, len(terms))
	byID := map[kaval.TerminalID]kaval.Terminal{}
	for i, term := range terms {
		ids[i], byID[term.ID] = term.ID, term
	}
	id, err := drive.Resolve(ids, query, t.hint(ep, "list"))
	return byID[id], err
}
