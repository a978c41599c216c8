package kavaltui

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/internal/keys"
)

type sendOptions struct {
	spec   drive.SendSpec
	file   string
	asJSON bool
}

func newSend(t *tree) *cobra.Command {
	var opts sendOptions
	cmd := &cobra.Command{
		Use:   "send <id> [text…]",
		Short: "Type text, or press keys, in a terminal",
		Long: `Type text, or press keys, in a terminal: never both in one send, since a key in the same breath as text is lost in the
paste handling of many programs. Nothing is submitted unless you press Enter, as a send of its own:

  kaval-tui send $id "fix the failing test"
  kaval-tui wait $id --until idle:300 --timeout 15000
  kaval-tui send $id --key Enter

The text comes from the arguments (joined by one space), from --file, or from stdin when that is a pipe or a file. Text of several
lines, and text from a file or stdin, goes as one paste. Agents fold long pastes: put a long prompt into a file and send a
line that points to it.

KEYS
  ` + keys.Help(),
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.spec.ID, opts.spec.Words = args[0], args[1:]
			if cmd.Flags().Changed("file") {
				opts.spec.File = &opts.file
			}
			return runSend(cmd.Context(), t, opts)
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

func runSend(ctx context.Context, t *tree, opts sendOptions) error {
	if _, _, err := t.flags.At(t.env.Dir, opts.spec.ID); err != nil {
		return err
	}
	opts.spec.Stdin, opts.spec.Self, opts.spec.Dir = t.env.Stdin, t.self, t.env.Dir
	payload, err := opts.spec.Payload()
	if err != nil {
		return err
	}
	return t.withTerminal(ctx, opts.spec.ID, func(c *client.KavalClient, term kaval.Terminal) error {
		if err := drive.Write(ctx, c, term.ID, payload); err != nil {
			return err
		}
		fmt.Fprintln(t.env.Stderr, payload.Trailer(term.ID))
		if opts.asJSON {
			return drive.WriteJSON(t.env.Stdout, payload.Sent(term.ID))
		}
		return nil
	})
}
