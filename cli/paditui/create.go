package paditui

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

type createOptions struct {
	toplevel                            bool
	parent, worktree, repo, cwd, intent string
	asJSON                              bool
	run                                 []string
	given                               func(string) bool
}

// Create makes a terminal of the workspace.
func (f *Face) Create() *cobra.Command {
	var opts createOptions
	cmd := &cobra.Command{
		Use:   "create (--toplevel | --parent <id>) [flags] [-- command [argument…]]",
		Short: "Make a terminal with a shell, and type a command at its first prompt",
		Long: `Make a terminal with a shell: a tile of its own (--toplevel), or a split beside another terminal (--parent). A command after --
is typed at the shell's first prompt. With --worktree the terminal starts in a fresh worktree, cut from the checkout as it stands.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.run, opts.given = args, cmd.Flags().Changed
			return f.runCreate(cmd.Context(), opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&opts.toplevel, "toplevel", false, "a tile of its own")
	cmd.Flags().StringVar(&opts.parent, "parent", "", "a split beside the terminal with this `id`")
	cmd.Flags().StringVar(&opts.worktree, "worktree", "", "start in a fresh worktree on this `branch`")
	cmd.Flags().StringVar(&opts.repo, "repo", "", "with --worktree: the checkout at this `path`; here, the current directory")
	cmd.Flags().StringVar(&opts.cwd, "cwd", "", "start in this `folder`; here, the current directory")
	cmd.Flags().StringVar(&opts.intent, "intent", "", "a `label` for people to see")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print {id, pid, worktree, ran} as JSON")
	return cmd
}

func (f *Face) runCreate(ctx context.Context, opts createOptions) error {
	ep, parent, err := f.flags.At(f.env.Dir, opts.parent)
	if err != nil {
		return err
	}
	req, err := opts.request(f.env, ep.Remote())
	if err != nil {
		return err
	}
	return f.at(ctx, ep, func(c *client.PadiClient) error {
		if parent != "" {
			if req.Placement.Parent, err = f.resolve(ctx, c, ep, parent); err != nil {
				return fmt.Errorf("--parent: %w", err)
			}
		}
		made, err := c.Create(ctx, req)
		if partial, ok := errors.AsType[*padi.PartialError](err); ok {
			return errors.Join(f.printLanded(ctx, c, partial, opts.asJSON), err)
		}
		if err != nil {
			return err
		}
		return f.printCreated(made, req, opts.asJSON)
	})
}

// request checks the flags and makes what can be said without asking the daemon.
func (o createOptions) request(env *cli.Env, remote bool) (padi.CreateRequest, error) {
	if err := o.check(remote); err != nil {
		return padi.CreateRequest{}, err
	}
	req := padi.CreateRequest{
		Placement: padi.Placement{Toplevel: o.toplevel}, Worktree: o.worktree, Repo: o.repo, CWD: o.cwd, Intent: o.intent, Run: o.run,
	}
	if remote {
		return req, nil
	}
	var err error
	switch {
	case o.worktree != "":
		req.Repo, err = within(env, o.repo, "--repo")
	default:
		req.CWD, err = within(env, o.cwd, "--cwd")
	}
	return req, err
}

func within(env *cli.Env, path, flag string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	dir, err := env.Here("cd somewhere, or pass " + flag + " with an absolute path")
	return filepath.Join(dir, path), err
}

func (o createOptions) check(remote bool) error {
	for _, flag := range []struct{ name, value string }{
		{"parent", o.parent}, {"worktree", o.worktree}, {"repo", o.repo}, {"cwd", o.cwd}, {"intent", o.intent},
	} {
		if o.given(flag.name) && strings.TrimSpace(flag.value) == "" {
			return fmt.Errorf("--%s is blank: an unset variable? Leave the flag out or give a value", flag.name)
		}
	}
	switch {
	case o.toplevel == o.given("parent"):
		return errors.New("say where it belongs: --toplevel for a tile of its own, or --parent <id> for a split — " +
			"a bare create used to mean --toplevel")
	case o.repo != "" && o.worktree == "":
		return errors.New("--repo is only for --worktree — use --cwd to start in a folder")
	case o.cwd != "" && o.worktree != "":
		return errors.New("--cwd and --worktree exclude each other: the terminal starts in the worktree")
	case remote && o.worktree != "" && o.repo == "":
		return errors.New("--worktree on another machine needs --repo: the path of the checkout there")
	case remote && o.repo != "" && !filepath.IsAbs(o.repo):
		return fmt.Errorf("--repo %q: on another machine the path must be absolute", o.repo)
	case remote && o.cwd != "" && !filepath.IsAbs(o.cwd):
		return fmt.Errorf("--cwd %q: on another machine the path must be absolute", o.cwd)
	}
	return nil
}

// printLanded prints what a create that failed has made, so that nothing is lost.
func (f *Face) printLanded(ctx context.Context, c *client.PadiClient, partial *padi.PartialError, asJSON bool) error {
	landed := partial.Landed
	if asJSON {
		return drive.WriteJSON(f.env.Stdout, landed)
	}
	if landed.ID != "" {
		if _, err := fmt.Fprintln(f.env.Stdout, landed.ID); err != nil {
			return err
		}
		f.note("terminal %s was made %s", landed.ID.Short(), fate(ctx, c, partial))
	}
	if landed.Worktree != nil {
		f.note("worktree %s was made at %s", drive.Clean(landed.Worktree.Branch), drive.Clean(landed.Worktree.Path))
	}
	return nil
}

// fate says what became of a terminal that was made, as far as is known.
func fate(ctx context.Context, c *client.PadiClient, partial *padi.PartialError) string {
	err := partial.Err
	if !ended(err) {
		_, err = c.Terminal(ctx, partial.Landed.ID)
	}
	switch {
	case err == nil:
		return "and is there"
	case ended(err):
		return "and has ended already"
	}
	return "and may be there still"
}

func ended(err error) bool {
	return errors.Is(err, kaval.ErrGone) || errors.Is(err, kaval.ErrNoTerminal)
}

func (f *Face) printCreated(made padi.Created, req padi.CreateRequest, asJSON bool) error {
	if asJSON {
		return drive.WriteJSON(f.env.Stdout, made)
	}
	if _, err := fmt.Fprintln(f.env.Stdout, made.ID); err != nil {
		return err
	}
	line := "created " + made.ID.Short() + " · top-level"
	if req.Placement.Parent != "" {
		line = "created " + made.ID.Short() + " · split of " + req.Placement.Parent.Short()
	}
	if made.Worktree != nil {
		line += fmt.Sprintf(" · worktree %s at %s", made.Worktree.Branch, made.Worktree.Path)
	}
	if made.Ran != "" {
		line += " · running `" + made.Ran + "`"
	}
	f.note("%s", drive.Clean(line))
	return nil
}
