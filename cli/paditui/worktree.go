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
	"kolu/daemon/padi"
)

// Worktree is the verbs about the worktrees of a repository.
func (f *Face) Worktree() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worktree",
		Short: "List and remove the worktrees of a repository",
		Long:  "List and remove the worktrees of a repository. create --worktree makes one.",
		RunE:  BareHelp,
	}
	cmd.AddCommand(f.worktreeList(), f.worktreeRemove())
	return cmd
}

// treeOptions name a repository.
type treeOptions struct {
	repo          string
	force, asJSON bool
}

func (o *treeOptions) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.repo, "repo", "", "the checkout at this `path`; here, the current directory")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
}

// at checks the flags and gives the repository's path on the machine of ep.
func (o *treeOptions) at(env *cli.Env, ep client.Endpoint, given bool) (string, error) {
	switch {
	case given && strings.TrimSpace(o.repo) == "":
		return "", errors.New("--repo is blank: an unset variable? Leave the flag out or give a value")
	case ep.Remote() && o.repo == "":
		return "", errors.New("on another machine --repo is needed: the path of the checkout there")
	case ep.Remote() && !filepath.IsAbs(o.repo):
		return "", fmt.Errorf("--repo %q: on another machine the path must be absolute", o.repo)
	}
	return within(env, o.repo, "--repo")
}

func (f *Face) worktreeList() *cobra.Command {
	var opts treeOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the checkouts of a repository, with what is in them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.withTrees(cmd, &opts, func(ctx context.Context, trees padi.Worktrees, repo string) error {
				list, err := trees.Worktrees(ctx, repo)
				switch {
				case err != nil:
					return err
				case opts.asJSON:
					return drive.WriteJSON(f.env.Stdout, list)
				}
				return cli.Table(f.env.Stdout, treeRows(list))
			})
		},
	}
	opts.bind(cmd)
	return cmd
}

func treeRows(list []padi.WorktreeInfo) [][]string {
	rows := [][]string{{"BRANCH", "HEAD", "STATE", "TERMINALS", "PATH"}}
	for _, t := range list {
		ids := make([]string, len(t.Terminals))
		for i, id := range t.Terminals {
			ids[i] = id.Short()
		}
		rows = append(rows, []string{orDash(t.Branch), orDash(t.Head[:min(len(t.Head), 8)]), treeState(t), orDash(strings.Join(ids, ",")), drive.Clean(t.Path)})
	}
	return rows
}

func treeState(t padi.WorktreeInfo) string {
	var words []string
	for _, w := range []struct {
		on   bool
		word string
	}{{t.Main, "main"}, {t.Bare, "bare"}, {t.Locked, "locked"}, {t.Gone, "gone"}} {
		if w.on {
			words = append(words, w.word)
		}
	}
	return orDash(strings.Join(words, ","))
}

func (f *Face) worktreeRemove() *cobra.Command {
	var opts treeOptions
	cmd := &cobra.Command{
		Use:   "remove <path | branch | name>",
		Short: "Remove a worktree and its branch",
		Long: `Remove a worktree and its branch. It is refused for the main checkout, for one that is locked, for one that a terminal is in (running,
asleep or parked), and for one with changes that are in no commit. A branch whose commits are nowhere else stays. --force drops such changes and
such a branch; it doesn't unlock, and ends no terminal.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(args[0]) == "" {
				return errors.New("say which worktree: by its path, its branch or its directory's name")
			}
			return f.withTrees(cmd, &opts, func(ctx context.Context, trees padi.Worktrees, repo string) error {
				gone, err := trees.RemoveWorktree(ctx, padi.RemoveWorktree{Repo: repo, Worktree: args[0], Force: opts.force})
				if err != nil {
					return removeHint(err)
				}
				return f.printRemoved(gone, opts.asJSON)
			})
		},
	}
	opts.bind(cmd)
	cmd.Flags().BoolVar(&opts.force, "force", false, "also with changes, and a branch whose commits are nowhere else")
	return cmd
}

// removeHint ends a refusal with what helps.
func removeHint(err error) error {
	for _, hint := range []struct {
		of   error
		next string
	}{
		{padi.ErrWorktreeDirty, "commit them, or pass --force to lose them"},
		{padi.ErrWorktreeLocked, "git worktree unlock it first"},
		{padi.ErrWorktreeBusy, "kill it first"},
	} {
		if errors.Is(err, hint.of) {
			return fmt.Errorf("%w — %s", err, hint.next)
		}
	}
	return err
}

func (f *Face) printRemoved(gone padi.RemovedWorktree, asJSON bool) error {
	line := "removed " + gone.Path
	switch {
	case gone.BranchKept != "":
		line += " · branch " + gone.Branch + " stays: " + gone.BranchKept
	case gone.Branch != "":
		line += " · and branch " + gone.Branch
	}
	f.note("%s", drive.Clean(line))
	if asJSON {
		return drive.WriteJSON(f.env.Stdout, gone)
	}
	return nil
}

// withTrees checks the flags, connects and runs fn.
func (f *Face) withTrees(cmd *cobra.Command, opts *treeOptions, fn func(ctx context.Context, trees padi.Worktrees, repo string) error) error {
	ep, err := f.Endpoint()
	if err != nil {
		return err
	}
	repo, err := opts.at(f.env, ep, cmd.Flags().Changed("repo"))
	if err != nil {
		return err
	}
	return f.at(cmd.Context(), ep, func(c *client.PadiClient) error {
		trees, err := c.Worktrees()
		if err != nil {
			return err
		}
		return fn(cmd.Context(), trees, repo)
	})
}
