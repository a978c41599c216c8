package paditui

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
)

// Exit codes of a prompt that was not taken.
const (
	exitAgentGone = 3
	exitStaged    = 5
	exitBusy      = 6
	exitBlocked   = 7
)

type promptOptions struct {
	spec    drive.SendSpec
	file    string
	timeout string
	given   func(string) bool
	asJSON  bool
}

// Prompt hands a text to a terminal's agent and tells what became of it.
func (f *Face) Prompt() *cobra.Command {
	var opts promptOptions
	cmd := &cobra.Command{
		Use:   "prompt <id> [text…]",
		Short: "Hand a text to a terminal's agent, and say whether it was taken",
		Long: `Hand a text to a terminal's agent as one prompt, and say whether it was taken. It waits until there is a place to type at, types the text (as a paste,
if the agent has asked for that), waits until it is seen there, presses Enter, and watches what happens. The text comes from the arguments, from --file, or from stdin when
that is a pipe or a file.

  taken    (exit 0) the agent has it
  gone     (exit 3) no agent has the terminal, or the terminal ended
  staged   (exit 5) it was typed and still stands where it was typed; the same prompt again presses Enter without typing it twice
  busy     (exit 6) a turn is under way and the text is queued behind it
  blocked  (exit 7) nothing was typed: a dialog is up, there is no place to type at, or another text stands there`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.spec.ID, opts.spec.Words = args[0], args[1:]
			if cmd.Flags().Changed("file") {
				opts.spec.File = &opts.file
			}
			opts.given = cmd.Flags().Changed
			return f.runPrompt(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.file, "file", "", "hand over the text in this `path`")
	cmd.Flags().StringVar(&opts.timeout, "timeout", "", "give each step at most so many `ms` (30000)")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print the receipt as JSON")
	return cmd
}

func (f *Face) runPrompt(ctx context.Context, opts promptOptions) error {
	if _, _, err := f.flags.At(f.env.Dir, opts.spec.ID); err != nil {
		return err
	}
	opts.spec.Stdin, opts.spec.Self, opts.spec.Dir, opts.spec.NoPaste = f.env.Stdin, f.self, f.env.Dir, true
	payload, err := opts.spec.Payload()
	if err != nil {
		return errors.New(strings.Replace(err.Error(), "nothing to send — pass text, --file PATH, piped stdin, or --key NAME",
			"nothing to hand over — pass text, --file PATH, or piped stdin", 1))
	}
	req := padi.PromptRequest{Data: payload.Data}
	if req.TimeoutMS, err = drive.ParseTimeout(opts.timeout, opts.given("timeout")); err != nil {
		return err
	}
	if err := req.Check(); err != nil {
		return err
	}
	return f.withTerminal(ctx, opts.spec.ID, func(c *client.PadiClient, id padi.TerminalID) error {
		k, err := c.Agents()
		if err != nil {
			return err
		}
		r, err := k.Prompt(ctx, id, req)
		if err != nil {
			return err
		}
		return f.reportPrompt(r, opts.asJSON)
	})
}

func (f *Face) reportPrompt(r padi.Receipt, asJSON bool) error {
	if asJSON {
		if err := drive.WriteJSON(f.env.Stdout, r); err != nil {
			return err
		}
	}
	code := 1
	switch r.Result {
	case padi.Taken:
		f.note("%s · taken: %s", r.ID.Short(), strings.Join(r.Evidence, ", "))
		return nil
	case padi.Busy:
		code = exitBusy
	case padi.Staged:
		code = exitStaged
	case padi.Blocked:
		code = exitBlocked
	case padi.AgentGone:
		code = exitAgentGone
	}
	return cli.Exit(code, fmt.Errorf("%s · %s: %s", r.ID.Short(), r.Result, r.Reason))
}
