package kolucmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/cli/paditui"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/internal/shellquote"
)

func newTry(env *cli.Env, f *paditui.Face) *cobra.Command {
	return &cobra.Command{
		Use:   "try",
		Short: "A tour of half a minute that is also a test: make a terminal, type, wait, read, clean up",
		Long: `A tour of half a minute that is also a test. It reaches a padi, or brings one up, makes a terminal, types a command, waits, presses
Enter, waits for the answer and reads it off the screen. Each step is printed as the command you would type, with what came
back. It ends the terminal that it made and nothing else. The exit code is 0 only when the answer was really on the screen.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			start := time.Now()
			return f.With(cmd.Context(), func(c *client.PadiClient, ep client.Endpoint) error {
				return runTry(cmd.Context(), env, c, ep, start)
			})
		},
	}
}

const (
	tryPatience = 20 * time.Second // for each step
	trySettleMS = 300
)

// tour is one run of try.
type tour struct {
	out   io.Writer
	c     *client.PadiClient
	padi  []string // the endpoint as flags of padi-tui
	kaval []string // and of kaval-tui
	id    padi.TerminalID
	// typed is what goes to the shell; answer is what only a shell that ran it prints.
	typed, answer string
}

func runTry(ctx context.Context, env *cli.Env, c *client.PadiClient, ep client.Endpoint, start time.Time) (err error) {
	a, b := rand.IntN(9000)+1000, rand.IntN(9000)+1000
	t := &tour{
		out: env.Stdout, c: c, padi: ep.Args(),
		typed:  fmt.Sprintf(`echo kolu-"%d"-"%d"`, a, b),
		answer: fmt.Sprintf("kolu-%d-%d", a, b),
	}
	if t.kaval, err = kavalArgs(ctx, c, ep); err != nil {
		return err
	}
	if err := t.reached(time.Since(start)); err != nil {
		return err
	}
	if err := t.create(ctx); err != nil {
		return err
	}
	err = t.drive(ctx)
	if err = errors.Join(err, t.end(ctx)); err != nil {
		return err
	}
	if err := t.say("It works. The terminal is gone, padi stays. Try next: padi-tui status%s · kolu --help", shellquoted(t.padi)); err != nil {
		return err
	}
	if dir := t.tools(); dir != "" && !onPath(env, dir) {
		return t.say("These programs are in %s: PATH=%s:$PATH", dir, shellquote.Join([]string{dir}))
	}
	return nil
}

// tools is the directory on this machine with the programs of the padi that was reached; "" where it is not known.
func (t *tour) tools() string {
	if t.c.Where.Host != "" || t.c.Hello.Executable == "" {
		return ""
	}
	return filepath.Dir(t.c.Hello.Executable)
}

// onPath reports that the shell finds programs of kolu, those of dir or others.
func onPath(env *cli.Env, dir string) bool {
	for _, place := range filepath.SplitList(env.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(place, "padi-tui")); place == dir || err == nil {
			return true
		}
	}
	return false
}

// kavalArgs name the same daemons to kaval-tui, which takes the socket of a kaval.
func kavalArgs(ctx context.Context, c *client.PadiClient, ep client.Endpoint) ([]string, error) {
	if ep.Socket == "" && ep.StateRoot == "" {
		return ep.Args(), nil
	}
	status, err := c.Kaval(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask padi for its kaval: %w", err)
	}
	return client.Endpoint{Socket: status.Socket}.Args(), nil
}

func shellquoted(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return " " + shellquote.Join(args)
}

func (t *tour) say(format string, args ...any) error {
	_, err := fmt.Fprintf(t.out, format+"\n", args...)
	return err
}

// show prints a step as the command that does it, and what came back.
func (t *tour) show(command, back string) error {
	if err := t.say("$ %s", command); err != nil {
		return err
	}
	for line := range strings.Lines(strings.TrimRight(back, "\n")) {
		if err := t.say("    %s", cli.Clean(strings.TrimRight(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

func (t *tour) reached(took time.Duration) error {
	where := "on this machine"
	if h := t.c.Where.Host; h != "" {
		where = fmt.Sprintf("on %s (%s transport; build: %s)", h, t.c.Where.Link.Transport, t.c.Where.Link.Rung)
	}
	how := "reached"
	if t.c.Where.Started {
		how = "started"
	}
	return t.say("%s padi %s in %s: pid %d, build %.12s, socket %s", how, where, took.Round(time.Millisecond), t.c.Hello.PID,
		t.c.Hello.Build, t.c.Hello.Socket)
}

func (t *tour) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	made, err := t.c.Create(ctx, padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Intent: "kolu try"})
	if partial, ok := errors.AsType[*padi.PartialError](err); ok {
		t.id = partial.Landed.ID
		return errors.Join(fmt.Errorf("create a terminal: %w", err), t.end(ctx))
	}
	if err != nil {
		return fmt.Errorf("create a terminal: %w", err)
	}
	t.id = made.ID
	return t.show("id=$(padi-tui create --toplevel --intent 'kolu try'"+shellquoted(t.padi)+")", string(made.ID))
}

// drive is the loop that an agent is driven by: text, settle, Enter, wait, read.
func (t *tour) drive(ctx context.Context) error {
	kavalTUI := func(verb, rest string) string { return "kaval-tui " + verb + shellquoted(t.kaval) + ` "$id" ` + rest }
	settle := fmt.Sprintf("--until idle:%d --timeout %d", trySettleMS, tryPatience.Milliseconds())
	if err := t.settle(ctx, kavalTUI("wait", settle)); err != nil {
		return err
	}
	if err := t.send(ctx, kavalTUI("send", shellquote.Join([]string{t.typed})), t.typed); err != nil {
		return err
	}
	if err := t.settle(ctx, kavalTUI("wait", settle)); err != nil {
		return err
	}
	before, err := t.screen(ctx)
	if err != nil {
		return err
	}
	if strings.Contains(before.Text, t.answer) {
		return errors.New("the answer was on the screen before Enter was pressed")
	}
	if err := t.send(ctx, kavalTUI("send", "--key Enter"), "\r"); err != nil {
		return err
	}
	match := fmt.Sprintf("--until match:%s --timeout %d", t.answer, tryPatience.Milliseconds())
	if err := t.match(ctx, kavalTUI("wait", match), before.Offset); err != nil {
		return err
	}
	return t.read(ctx, kavalTUI("snapshot", "--viewport"))
}

func (t *tour) send(ctx context.Context, command, data string) error {
	if err := drive.Write(ctx, t.c, t.id, drive.Payload{Data: []byte(data)}); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return t.show(command, fmt.Sprintf("sent %d byte(s)", len(data)))
}

func (t *tour) settle(ctx context.Context, command string) error {
	res, err := t.wait(ctx, padi.WaitRequest{IdleMS: trySettleMS})
	if err != nil {
		return err
	}
	return t.show(command, fmt.Sprintf("%s after %d ms", res.Result, res.ElapsedMS))
}

func (t *tour) match(ctx context.Context, command string, after int64) error {
	res, err := t.wait(ctx, padi.WaitRequest{Match: t.answer, After: &after})
	if err != nil {
		return err
	}
	return t.show(command, fmt.Sprintf("%s after %d ms: %s", res.Result, res.ElapsedMS, res.MatchedLine))
}

func (t *tour) wait(ctx context.Context, req padi.WaitRequest) (padi.WaitResult, error) {
	req.TimeoutMS = tryPatience.Milliseconds()
	ctx, cancel := context.WithTimeout(ctx, 2*tryPatience)
	defer cancel()
	res, err := t.c.Wait(ctx, t.id, req)
	if err != nil {
		return res, fmt.Errorf("wait: %w", err)
	}
	if res.Result != kaval.Met {
		return res, fmt.Errorf("wait: the outcome is %q, want met", res.Result)
	}
	return res, nil
}

func (t *tour) screen(ctx context.Context) (kaval.Screen, error) {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	screen, err := t.c.Screen(ctx, t.id, kaval.ScreenRequest{Extent: kaval.Viewport, Trim: true})
	if err != nil {
		return screen, fmt.Errorf("snapshot: %w", err)
	}
	return screen, nil
}

// read looks for the answer as a line of its own.
func (t *tour) read(ctx context.Context, command string) error {
	screen, err := t.screen(ctx)
	if err != nil {
		return err
	}
	if err := t.show(command, screen.Text); err != nil {
		return err
	}
	for line := range strings.Lines(screen.Text) {
		if strings.TrimSpace(line) == t.answer {
			return nil
		}
	}
	return fmt.Errorf("the screen does not show %q, which the shell should have printed", t.answer)
}

// end kills the terminal that the tour made, also when the tour was interrupted.
func (t *tour) end(ctx context.Context) error {
	if t.id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryPatience)
	defer cancel()
	if _, err := t.c.Kill(ctx, t.id); err != nil && !errors.Is(err, kaval.ErrNoTerminal) {
		return fmt.Errorf("kill the terminal %s that the tour made: %w", t.id, err)
	}
	return t.show(`kaval-tui kill`+shellquoted(t.kaval)+` "$id"`, "killed "+t.id.Short())
}
