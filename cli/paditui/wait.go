package paditui

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// WaitKind says what a wait can be for.
type WaitKind int

// The kinds: an agent's state alone, as padi-tui has it; or output as well, with what belongs to driving, as kolu has it.
const (
	WaitAgent WaitKind = iota
	WaitAll
)

type waitOptions struct {
	kind             WaitKind
	until, timeout   string
	settled, snaplen string
	asJSON           bool
	any, all         bool
	words            []string
	given            func(string) bool
}

const agentStates = `An agent is working (busy), awaiting (asking you) or waiting (its turn has ended). The state is compared at once, so after a
submit wait in two steps: --until working, then --until awaiting,waiting.`

const severalIDs = `Several terminals, of this machine and of hosts (host/id), are waited for at once with --any or --all. Each one's outcome is told
as it comes. The exit code is 0 when one is met (--any) or all are (--all), else 4 when some could not be waited for and 1 when
none could, 2 when the time ran out for one, and 3 when one ended first.`

// Wait blocks until an agent's state, or output.
func (f *Face) Wait(kind WaitKind) *cobra.Command {
	opts := waitOptions{kind: kind}
	cmd := &cobra.Command{
		Use:   "wait <id>… --until <states>",
		Short: "Wait until a terminal's agent is in one of the states",
		Long:  "Wait until a terminal's agent is in one of the states.\n\n" + agentStates + "\n\n" + severalIDs,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.words, opts.given = args, cmd.Flags().Changed
			return f.runWait(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.until, "until", "", "the `states` to wait for: working, awaiting, waiting; a list with commas")
	cmd.Flags().StringVar(&opts.timeout, "timeout", "", "give up after so many `ms` (exit 2)")
	cmd.Flags().BoolVar(&opts.any, "any", false, "of several terminals, end when one meets the condition")
	cmd.Flags().BoolVar(&opts.all, "all", false, "of several terminals, wait until every one has met it or has ended (here --all is about terminals)")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print the outcome as JSON, of several terminals an array")
	if kind == WaitAll {
		cmd.Use = "wait <id>… --until idle:<ms>|match:<regex>|<states>"
		cmd.Short = "Wait until a terminal goes quiet, prints something, or its agent is in one of the states"
		cmd.Long = cmd.Short + `. match:<regex> looks at new output only, from the moment of
the wait on: start it before what shall print, or read the screen for what is there already.` + "\n\n" + agentStates + "\n\n" + severalIDs
		cmd.Flags().Lookup("until").Usage = "the `condition` to wait for: idle:<ms>, match:<regex>, or agent states"
		cmd.Flags().StringVar(&opts.settled, "settled", "", "with states: the terminal must also print nothing for so many `ms`")
		cmd.Flags().StringVar(&opts.snaplen, "snapshot", "", "also print the last `N` lines of content, read when the wait is met")
	}
	return cmd
}

// plan is a wait that was found good.
type plan struct {
	req padi.WaitRequest
}

func (o waitOptions) plan() (plan, error) {
	if !o.given("until") {
		return plan{}, errors.New("--until is required: " + o.wants())
	}
	until, err := o.parseUntil()
	if err != nil {
		return plan{}, err
	}
	switch {
	case o.any && o.all:
		return plan{}, errors.New("--any and --all exclude each other")
	case len(o.words) > 1 && !o.any && !o.all:
		return plan{}, errors.New("several terminals: say whether --any or --all must meet the condition")
	}
	p := plan{req: padi.WaitRequest{IdleMS: until.IdleMS, Match: until.Match, Until: until.Buckets}}
	if p.req.TimeoutMS, err = drive.ParseTimeout(o.timeout, o.given("timeout")); err != nil {
		return plan{}, err
	}
	if o.settled != "" || o.given("settled") {
		if p.req.SettledMS, err = drive.Millis(o.settled); err != nil {
			return plan{}, fmt.Errorf("--settled %q: %w", o.settled, err)
		}
		if len(until.Buckets) == 0 {
			return plan{}, errors.New("--settled is only for a wait for agent states")
		}
	}
	if o.given("snapshot") {
		n, err := drive.Millis(o.snaplen)
		if err != nil || n > kaval.ScrollbackLines {
			return plan{}, fmt.Errorf("--snapshot %q: want a number of lines from 1 to %d", o.snaplen, kaval.ScrollbackLines)
		}
		p.req.Tail = int(n)
	}
	return p, nil
}

func (o waitOptions) wants() string {
	if o.kind == WaitAll {
		return "idle:<ms>, match:<regex>, or a list of working, awaiting, waiting"
	}
	return "a list of working, awaiting, waiting"
}

func (o waitOptions) parseUntil() (drive.Until, error) {
	if o.kind == WaitAll {
		return drive.ParseUntil(o.until, true)
	}
	list, err := drive.ParseBuckets(o.until)
	return drive.Until{Buckets: list}, err
}

type metAgent struct {
	ID    padi.TerminalID `json:"id"`
	Agent *padi.Agent     `json:"agent"`
}

func (f *Face) runWait(ctx context.Context, opts waitOptions) error {
	p, err := opts.plan()
	if err != nil {
		return err
	}
	report := drive.WaitReport{
		Self: f.self, Stdout: f.env.Stdout, Stderr: f.env.Stderr, JSON: opts.asJSON, For: bucketList(p.req.Until),
	}
	if opts.kind == WaitAgent {
		report.MetJSON = func(w drive.WaitFrame) any { return metAgent{w.ID, w.Agent} }
	}
	if len(opts.words) > 1 {
		return f.waitMany(ctx, opts, p)
	}
	return f.withTerminal(ctx, opts.words[0], func(c *client.PadiClient, id padi.TerminalID) error {
		frame, err := performWait(ctx, c, id, p)
		if err == nil && frame.Screen != nil && !opts.asJSON {
			fmt.Fprint(f.env.Stdout, drive.EndLine(*frame.Screen))
		}
		return report.Report(ctx, id, frame, err)
	})
}

func performWait(ctx context.Context, c *client.PadiClient, id padi.TerminalID, p plan) (drive.WaitFrame, error) {
	res, err := drive.Wait(ctx, c, id, p.req)
	if errors.Is(err, kaval.ErrNoTerminal) {
		return drive.WaitFrame{ID: id, Result: kaval.Gone}, nil // it was there a moment ago
	}
	if err != nil {
		return drive.WaitFrame{}, err
	}
	frame := drive.Flat(res.WaitResult)
	frame.Agent, frame.Screen = res.Agent, res.Screen
	return frame, nil
}

func bucketList(buckets []padi.Bucket) string {
	words := make([]string, len(buckets))
	for i, b := range buckets {
		words[i] = string(b)
	}
	return strings.Join(words, " or ")
}
