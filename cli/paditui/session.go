package paditui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
)

// SessionVerbs are the verbs about what padi remembers.
func (f *Face) SessionVerbs() []*cobra.Command {
	return []*cobra.Command{f.Restore(), f.Session(), f.Backups(), f.Sleep(), f.Wake(), f.Rename()}
}

type restoreOptions struct {
	optOut           []string
	noResume, asJSON bool
}

// Restore starts parked terminals again.
func (f *Face) Restore() *cobra.Command {
	var opts restoreOptions
	cmd := &cobra.Command{
		Use:   "restore [id…]",
		Short: "Start the terminals again that went with a reboot or with their kaval",
		Long: `Start the parked terminals again, those that went with a reboot or with their kaval: all of them, or those named. Each comes back under
its id, in its place and its folder, and the agent that ran in it goes on with its conversation. One that can't be started stays
parked, and the exit code is 1.`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.runRestore(cmd.Context(), args, opts) },
	}
	cmd.Flags().BoolVar(&opts.noResume, "no-resume", false, "bare shells: no agent goes on, and none is offered again")
	cmd.Flags().StringSliceVar(&opts.optOut, "opt-out", nil, "a bare shell for this `id` alone; may be repeated")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print {terminals, failed} as JSON")
	return cmd
}

func (f *Face) runRestore(ctx context.Context, words []string, opts restoreOptions) error {
	for _, word := range append(append([]string{}, words...), opts.optOut...) {
		if strings.TrimSpace(word) == "" {
			return errors.New("an id is blank: an unset variable? Leave it out to restore all")
		}
	}
	return f.withSession(ctx, func(c *client.PadiClient, k padi.SessionKeeper, ep client.Endpoint) error {
		req := padi.RestoreRequest{NoResume: opts.noResume}
		var err error
		if req.IDs, err = f.resolveAll(ctx, c, ep, words); err != nil {
			return err
		}
		if req.OptOut, err = f.resolveAll(ctx, c, ep, opts.optOut); err != nil {
			return err
		}
		done, err := k.Restore(ctx, req)
		if err != nil {
			return err
		}
		return f.printRestored(done, opts.asJSON)
	})
}

func (f *Face) resolveAll(ctx context.Context, c *client.PadiClient, ep client.Endpoint, words []string) (ids []padi.TerminalID, err error) {
	for _, word := range words {
		id, err := f.resolve(ctx, c, ep, word)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (f *Face) printRestored(done padi.Restored, asJSON bool) error {
	if asJSON {
		if err := drive.WriteJSON(f.env.Stdout, done); err != nil {
			return err
		}
	}
	for _, t := range done.Terminals {
		f.noteRestart("restored", t)
	}
	for _, t := range done.Failed {
		f.note("%s", drive.Clean(fmt.Sprintf("%s stays parked: %s", t.ID.Short(), t.Reason)))
	}
	switch {
	case len(done.Failed) > 0:
		return fmt.Errorf("%d of %d could not be restored", len(done.Failed), len(done.Failed)+len(done.Terminals))
	case len(done.Terminals) == 0:
		f.note("nothing is parked")
	}
	return nil
}

func (f *Face) noteRestart(verb string, t padi.Restart) {
	line := verb + " " + t.ID.Short()
	if t.Resumed != "" {
		line += " · running `" + t.Resumed + "`"
	}
	for _, n := range t.Notes {
		line += " · " + n
	}
	f.note("%s", drive.Clean(line))
}

// Session shows what padi remembers.
func (f *Face) Session() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Show what is remembered: what runs, sleeps, and waits to be restored",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askAll(cmd.Context(), f, asJSON, func(ctx context.Context, k padi.SessionKeeper) (padi.Session, error) { return k.Session(ctx) }, answerView[padi.Session]{sessionRows, sessionNote})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print {path, savedAt, active, sleeping, parked} as JSON, of several hosts an array, each with its host")
	cmd.AddCommand(f.sessionForget())
	return cmd
}

func sessionRows(s padi.Session) [][]string {
	rows := [][]string{{"ID", "STATE", "INTENT", "AGENT", "FOLDER"}}
	for _, r := range s.Parked {
		agent := drive.Dash
		if r.Resume != nil {
			agent = orDash(drive.AgentName(r.Resume.Kind))
		}
		intent, _, _ := strings.Cut(r.Intent, "\n")
		rows = append(rows, []string{r.ID.Short(), string(r.State), orDash(intent), agent, orDash(r.CWD)})
	}
	return rows
}

func sessionNote(s padi.Session) string {
	saved := "not saved yet"
	if s.SavedAt > 0 {
		saved = "saved " + time.UnixMilli(s.SavedAt).Format(time.DateTime)
	}
	if s.Problem != "" {
		saved += "; now it can't be: " + s.Problem
	}
	return fmt.Sprintf("%d run, %d sleep, %d parked; %s", s.Active, s.Sleeping, len(s.Parked), saved)
}

func (f *Face) sessionForget() *cobra.Command {
	return &cobra.Command{
		Use:   "forget",
		Short: "Give up the parked terminals; a backup of them is kept",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.withSession(cmd.Context(), func(_ *client.PadiClient, k padi.SessionKeeper, _ client.Endpoint) error {
				gone, err := k.Forget(cmd.Context())
				switch {
				case err != nil:
					return err
				case gone.Count == 0:
					f.note("nothing is parked")
				default:
					f.note("forgot %d parked terminal(s); %s has them: %s backups recall brings them back", gone.Count, gone.Backup, f.self)
				}
				return nil
			})
		},
	}
}

// Backups shows the sessions that are kept.
func (f *Face) Backups() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "backups",
		Short: "Show the sessions that are kept beside the present one",
		Long:  "Show the sessions that are kept beside the present one: the last ten, one of each start, each day, and each time before something is given up.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askAll(cmd.Context(), f, asJSON, func(ctx context.Context, k padi.SessionKeeper) ([]padi.Backup, error) { return k.Backups(ctx) }, answerView[[]padi.Backup]{rows: backupRows})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array, of several hosts one of {host, answer}")
	cmd.AddCommand(f.backupsRecall())
	return cmd
}

func backupRows(list []padi.Backup) [][]string {
	rows := [][]string{{"NAME", "SAVED", "TERMINALS"}}
	for _, b := range list {
		what := fmt.Sprint(b.Terminals)
		if b.Kind == "unreadable" {
			what = b.Kind
		}
		rows = append(rows, []string{orDash(b.Name), time.UnixMilli(b.SavedAt).Format(time.DateTime), what})
	}
	return rows
}

func (f *Face) backupsRecall() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "recall <name>",
		Short: "Bring the terminals of a backup back, parked beside what there is; restore starts them",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withSession(cmd.Context(), func(_ *client.PadiClient, k padi.SessionKeeper, _ client.Endpoint) error {
				back, err := k.Recall(cmd.Context(), args[0])
				if errors.Is(err, padi.ErrNoBackup) {
					err = fmt.Errorf("%w — %s backups lists them", err, f.self)
				}
				if err != nil {
					return err
				}
				f.note("%d parked, %d were there already; %s restore starts what is parked", len(back.Parked), back.Known, f.self)
				if asJSON {
					return drive.WriteJSON(f.env.Stdout, back)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print {parked, known} as JSON")
	return cmd
}

// Sleep ends a terminal's programs and keeps its record.
func (f *Face) Sleep() *cobra.Command {
	return f.sessionVerb("sleep <id>", "End what runs in a terminal, and remember the terminal", func(ctx context.Context, k padi.SessionKeeper, id padi.TerminalID) (any, error) {
		rec, err := k.Sleep(ctx, id)
		if err == nil {
			f.note("%s is %s", id.Short(), rec.State)
		}
		return rec, err
	})
}

// Wake starts a sleeping terminal again.
func (f *Face) Wake() *cobra.Command {
	var noResume bool
	cmd := f.sessionVerb("wake <id>", "Start a sleeping terminal again; its agent goes on with its conversation", func(ctx context.Context, k padi.SessionKeeper, id padi.TerminalID) (any, error) {
		start, err := k.Wake(ctx, id, padi.WakeRequest{NoResume: noResume})
		if err == nil {
			f.noteRestart("woke", start)
		}
		return start, err
	})
	cmd.Flags().BoolVar(&noResume, "no-resume", false, "a bare shell: the agent doesn't go on, and is not offered again")
	return cmd
}

// Rename sets a terminal's intent.
func (f *Face) Rename() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rename <id> <intent>",
		Short: "Say what a terminal is for; an empty text takes that away",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := padi.RenameRequest{Intent: args[1]}
			if err := req.Check(); err != nil {
				return err
			}
			return f.onTerminal(cmd.Context(), args[0], asJSON, func(ctx context.Context, k padi.SessionKeeper, id padi.TerminalID) (any, error) {
				rec, err := k.Rename(ctx, id, req)
				if err == nil {
					tag, _, _ := strings.Cut(rec.Intent, "\n")
					f.note("%s is for: %s", id.Short(), orDash(tag))
				}
				return rec, err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the record as JSON")
	return cmd
}

// sessionVerb is a verb about one terminal, which prints what it did for people and, if asked, the answer as JSON.
func (f *Face) sessionVerb(use, short string, do func(context.Context, padi.SessionKeeper, padi.TerminalID) (any, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.onTerminal(cmd.Context(), args[0], asJSON, do) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

func (f *Face) onTerminal(ctx context.Context, word string, asJSON bool, do func(context.Context, padi.SessionKeeper, padi.TerminalID) (any, error)) error {
	return f.withTerminal(ctx, word, func(c *client.PadiClient, id padi.TerminalID) error {
		k, err := c.Sessions()
		if err != nil {
			return err
		}
		answer, err := do(ctx, k, id)
		if err == nil && asJSON {
			err = drive.WriteJSON(f.env.Stdout, answer)
		}
		return err
	})
}

func (f *Face) withSession(ctx context.Context, fn func(c *client.PadiClient, k padi.SessionKeeper, ep client.Endpoint) error) error {
	return f.With(ctx, func(c *client.PadiClient, ep client.Endpoint) error {
		k, err := c.Sessions()
		if err != nil {
			return err
		}
		return fn(c, k, ep)
	})
}

// hostAnswer is what one of several hosts says.
type hostAnswer[T any] struct {
	Host   string `json:"host"`
	Answer T      `json:"answer"`
}

// answerView is an answer as people read it.
type answerView[T any] struct {
	rows func(T) [][]string
	note func(T) string // nil says nothing beside them
}

func (v answerView[T]) print(f *Face, host string, answer T) error {
	if host != "" {
		host = drive.Clean(host) + ": "
		if _, err := fmt.Fprintln(f.env.Stdout, strings.TrimSpace(host)); err != nil {
			return err
		}
	}
	if v.note != nil {
		f.note("%s%s", host, drive.Clean(v.note(answer)))
	}
	if rows := v.rows(answer); len(rows) > 1 {
		return cli.Table(f.env.Stdout, rows)
	}
	return nil
}

// askAll asks one host, or each of several, and prints the answers: as JSON, or each as a table below its host's name.
func askAll[T any](ctx context.Context, f *Face, asJSON bool, ask func(context.Context, padi.SessionKeeper) (T, error), view answerView[T]) error {
	if !f.flags.Several() {
		return f.withSession(ctx, func(_ *client.PadiClient, k padi.SessionKeeper, _ client.Endpoint) error {
			answer, err := ask(ctx, k)
			switch {
			case err != nil:
				return err
			case asJSON:
				return drive.WriteJSON(f.env.Stdout, answer)
			}
			return view.print(f, "", answer)
		})
	}
	hosts, err := f.flags.Hosts(f.env)
	if err != nil {
		return err
	}
	hosts.JSON = asJSON
	var mu sync.Mutex
	got := map[int]T{}
	outcomes := hosts.Ask(ctx, f.env, f.connect, func(ctx context.Context, c *client.PadiClient, t *client.Turn) error {
		k, err := c.Sessions()
		if err != nil {
			return err
		}
		answer, err := ask(ctx, k)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		got[t.Index()] = answer
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return printAll(f, asJSON, outcomes, got, view)
}

func printAll[T any](f *Face, asJSON bool, outcomes []client.Outcome, got map[int]T, view answerView[T]) error {
	list := []hostAnswer[T]{}
	for _, o := range outcomes {
		if answer, ok := got[o.Asked]; ok && !o.Same {
			list = append(list, hostAnswer[T]{o.Host.Name, answer})
		}
	}
	if asJSON {
		if err := drive.WriteJSON(f.env.Stdout, list); err != nil {
			return err
		}
		return client.Partial(outcomes)
	}
	for _, a := range list {
		if err := view.print(f, a.Host, a.Answer); err != nil {
			return err
		}
	}
	return client.Partial(outcomes)
}
