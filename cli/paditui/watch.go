package paditui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/padi"
)

// Watch follows the workspace.
func (f *Face) Watch() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [id]",
		Short: "Follow the workspace, or one terminal of it, until interrupted",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer cli.EndUnread(f.env)()
			if f.flags.Several() {
				return f.watchMany(cmd.Context(), args, asJSON)
			}
			return f.runWatch(cmd.Context(), args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func (f *Face) runWatch(ctx context.Context, args []string, asJSON bool) error {
	w := &watchPrinter{out: f.env.Stdout, json: asJSON, now: time.Now, live: map[padi.TerminalID]bool{}}
	if len(args) == 1 {
		return f.withTerminal(ctx, args[0], func(c *client.PadiClient, id padi.TerminalID) error {
			w.only = id
			return f.followOne(ctx, c, w)
		})
	}
	return f.With(ctx, func(c *client.PadiClient, _ client.Endpoint) error { return f.followOne(ctx, c, w) })
}

var errStreamEnded = errors.New("the daemon ended the stream")

func (f *Face) follow(ctx context.Context, c *client.PadiClient, w *watchPrinter) error {
	err := errStreamEnded
	for ev, evErr := range c.Watch(ctx) {
		if err = evErr; err != nil {
			break
		}
		if err = w.event(ev); err != nil {
			break
		}
		if w.told != nil {
			w.told()
		}
		err = errStreamEnded
	}
	if ctx.Err() != nil {
		return nil // whoever watched has stopped, or their reader has gone
	}
	if !strings.HasPrefix(err.Error(), "watch: ") { // the client says it of a stream that broke
		err = fmt.Errorf("watch: %w", err)
	}
	return err
}

// followOne is follow where one host is watched: its error names the host.
func (f *Face) followOne(ctx context.Context, c *client.PadiClient, w *watchPrinter) error {
	err := f.follow(ctx, c, w)
	switch {
	case err == nil:
		return nil
	case c.Where.Host != "":
		return fmt.Errorf("%s: %w — run it again", c.Where.Host, err)
	}
	return fmt.Errorf("%w — run it again", err)
}

// watchPrinter prints events for people or as NDJSON.
type watchPrinter struct {
	out  io.Writer
	host string // in front of each id and in each object; empty when one host is watched
	told func() // called after each event; may be nil
	json bool
	only padi.TerminalID // all when empty
	now  func() time.Time
	live map[padi.TerminalID]bool
}

type (
	watchTerminal struct {
		Host string `json:"host,omitempty"`
		Kind string `json:"kind"`
		Live bool   `json:"live"`
		padi.Record
	}
	watchRemoved struct {
		Host string          `json:"host,omitempty"`
		Kind string          `json:"kind"`
		ID   padi.TerminalID `json:"id"`
	}
	watchActivity struct {
		Host     string          `json:"host,omitempty"`
		Kind     string          `json:"kind"`
		ID       padi.TerminalID `json:"id"`
		Activity bool            `json:"activity"`
	}
)

func (w *watchPrinter) event(ev padi.Event) error {
	switch ev.Kind {
	case padi.EventSnapshot:
		return w.snapshot(ev.Records)
	case padi.EventChanged:
		if ev.Record == nil {
			return errors.New("a change came without its record")
		}
		return w.terminal(*ev.Record)
	case padi.EventRemoved:
		return w.removed(ev.ID)
	case padi.EventActivity:
		return w.activity(ev.ID, ev.Live)
	}
	return nil // a newer daemon tells more than we know
}

func (w *watchPrinter) skips(id padi.TerminalID) bool { return w.only != "" && w.only != id }

// name is the terminal as a line shows it.
func (w *watchPrinter) name(id padi.TerminalID) string { return onHost(w.host, id.Short()) }

// onHost writes a terminal with its host, where there is one.
func onHost(host, id string) string {
	if host == "" {
		return id
	}
	return host + "/" + id
}

func (w *watchPrinter) snapshot(records []padi.Record) error {
	for _, r := range records {
		if err := w.terminal(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *watchPrinter) terminal(r padi.Record) error {
	if w.skips(r.ID) {
		return nil
	}
	if w.json {
		return cli.JSON(w.out, watchTerminal{Host: w.host, Kind: "terminal", Live: w.live[r.ID], Record: r})
	}
	line := fmt.Sprintf("%s  %s  %s  %s", w.name(r.ID), r.State, repoCell(r.Git), agentCell(r))
	if w.live[r.ID] {
		line += "  ●"
	}
	return w.line(line)
}

func (w *watchPrinter) removed(id padi.TerminalID) error {
	if w.skips(id) {
		return nil
	}
	delete(w.live, id)
	if w.json {
		return cli.JSON(w.out, watchRemoved{Host: w.host, Kind: "removed", ID: id})
	}
	return w.line(w.name(id) + "  (gone)")
}

// activity prints the edges only; that a terminal is still busy is no news.
func (w *watchPrinter) activity(id padi.TerminalID, live bool) error {
	if w.skips(id) || w.live[id] == live {
		return nil
	}
	w.live[id] = live
	if w.json {
		return cli.JSON(w.out, watchActivity{Host: w.host, Kind: "activity", ID: id, Activity: live})
	}
	word := "○ idle"
	if live {
		word = "● busy"
	}
	return w.line(w.name(id) + "  " + word)
}

func (w *watchPrinter) line(s string) error {
	_, err := fmt.Fprintf(w.out, "%s  %s\n", w.now().Format("15:04:05"), drive.Clean(s))
	return err
}
