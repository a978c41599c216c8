package paditui

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"kolu/cli/client"
	"kolu/daemon/padi"
)

// watchMany follows several hosts side by side until it is stopped, or until none is left to follow.
func (f *Face) watchMany(ctx context.Context, args []string, asJSON bool) error {
	if len(args) > 0 {
		return errors.New("one terminal is on one host: write host/id, or leave out --host, --group and --all")
	}
	hosts, err := f.flags.Hosts(f.env)
	if err != nil {
		return err
	}
	hosts.JSON = asJSON
	out := &wholeWrites{w: f.env.Stdout}
	outcomes := hosts.Ask(ctx, f.env, f.connect, func(ctx context.Context, c *client.PadiClient, t *client.Turn) error {
		return f.follow(ctx, c, &watchPrinter{
			out: out, host: t.Host().Name, json: asJSON, now: time.Now, live: map[padi.TerminalID]bool{},
			told: sync.OnceFunc(t.Streaming), // from the first snapshot on, silence means that nothing happens
		})
	})
	if ctx.Err() != nil {
		outcomes = beforeStop(outcomes)
	}
	return client.Partial(outcomes)
}

// beforeStop leaves out what only the stop kept from answering.
func beforeStop(outcomes []client.Outcome) []client.Outcome {
	for i, o := range outcomes {
		if errors.Is(o.Err, context.Canceled) {
			outcomes[i].Err = nil
		}
	}
	return outcomes
}

// wholeWrites keeps the lines of several goroutines apart.
type wholeWrites struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *wholeWrites) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}
