package paditui

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/internal/keys"
)

type sendOptions struct {
	spec   drive.SendSpec
	file   string
	asJSON bool
}

// Send types text or presses keys.
func (f *Face) Send() *cobra.Command {
	var opts sendOptions
	cmd := &cobra.Command{
		Use:   "send <id> [text…]",
		Short: "Type text, or press keys, in a terminal",
		Long: `Type text, or press keys, in a terminal: never both in one send. Nothing is submitted unless you press Enter, as a send of its
own, after the text has settled. The text comes from the arguments, from --file, or from stdin when that is a pipe or a file.

KEYS
  ` + keys.Help(),
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.spec.ID, opts.spec.Words = args[0], args[1:]
			if cmd.Flags().Changed("file") {
				opts.spec.File = &opts.file
			}
			return f.runSend(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.file, "file", "", "send the bytes of this `path`, as they are")
	cmd.Flags().StringArrayVar(&opts.spec.Keys, "key", nil, "press a key by `name`; may be repeated")
	cmd.Flags().BoolVar(&opts.spec.Paste, "paste", false, "mark the text as a paste even if it is one line")
	cmd.Flags().BoolVar(&opts.spec.NoPaste, "no-paste", false, "don't mark the text as a paste")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print {id, bytes, paste, keys} as JSON")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return drive.SendFlagError(err) })
	return cmd
}

func (f *Face) runSend(ctx context.Context, opts sendOptions) error {
	if _, _, err := f.flags.At(f.env.Dir, opts.spec.ID); err != nil {
		return err
	}
	opts.spec.Stdin, opts.spec.Self, opts.spec.Dir = f.env.Stdin, f.self, f.env.Dir
	payload, err := opts.spec.Payload()
	if err != nil {
		return err
	}
	return f.withTerminal(ctx, opts.spec.ID, func(c *client.PadiClient, id padi.TerminalID) error {
		if err := drive.Write(ctx, c, id, payload); err != nil {
			return err
		}
		fmt.Fprintln(f.env.Stderr, payload.Trailer(id))
		if opts.asJSON {
			return drive.WriteJSON(f.env.Stdout, payload.Sent(id))
		}
		return nil
	})
}

// Snapshot prints a terminal's text.
func (f *Face) Snapshot() *cobra.Command {
	var viewport bool
	var tail, lines int
	cmd := &cobra.Command{
		Use:   "snapshot <id>",
		Short: "Print a terminal's text: all of it, its screen, or its last lines of content",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := drive.SnapshotRequest(viewport, drive.Given(tail, cmd.Flags().Changed("tail")), drive.Given(lines, cmd.Flags().Changed("lines")))
			if err != nil {
				return err
			}
			req.Trim = req.Extent == kaval.Tail
			return f.runSnapshot(cmd.Context(), args[0], req)
		},
	}
	cmd.Flags().BoolVar(&viewport, "viewport", false, "only what is on the screen now")
	cmd.Flags().IntVar(&tail, "tail", 0, "only the last `N` lines of content; blank ones at the end do not count")
	cmd.Flags().IntVar(&lines, "lines", 0, "another name of --tail `N`")
	return cmd
}

func (f *Face) runSnapshot(ctx context.Context, query string, req kaval.ScreenRequest) error {
	return f.withTerminal(ctx, query, func(c *client.PadiClient, id padi.TerminalID) error {
		screen, err := c.Screen(ctx, id, req)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(f.env.Stdout, drive.EndLine(screen.Text)); err != nil {
			return err
		}
		f.note("%s · %d line(s)", id.Short(), drive.CountLines(screen.Text))
		return nil
	})
}

// History prints the scrollback above the screen.
func (f *Face) History() *cobra.Command {
	var lines int
	cmd := &cobra.Command{
		Use:   "history <id>",
		Short: "Print the scrollback above a terminal's screen, with its colours",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("lines") && lines < 1 {
				return errors.New("--lines: want a whole number above 0")
			}
			return f.runHistory(cmd.Context(), args[0], lines)
		},
	}
	cmd.Flags().IntVar(&lines, "lines", 0, "only the `N` lines just above the screen")
	return cmd
}

func (f *Face) runHistory(ctx context.Context, query string, lines int) error {
	return f.withTerminal(ctx, query, func(c *client.PadiClient, id padi.TerminalID) error {
		text, pages, err := drive.History(ctx, c, id, lines)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(f.env.Stdout, text); err != nil {
			return err
		}
		f.note("%s · %d older page(s)", id.Short(), pages)
		return nil
	})
}

// Kill ends a terminal.
func (f *Face) Kill() *cobra.Command {
	return &cobra.Command{
		Use:   "kill <id>",
		Short: "End a terminal and everything that runs in it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withTerminal(cmd.Context(), args[0], func(c *client.PadiClient, id padi.TerminalID) error {
				rec, err := c.Kill(cmd.Context(), id)
				if err != nil && !errors.Is(err, kaval.ErrNoTerminal) {
					return err
				}
				if rec.PID > 0 {
					f.note("killed %s (pid %d)", id.Short(), rec.PID)
				} else {
					f.note("killed %s", id.Short())
				}
				return nil
			})
		},
	}
}
