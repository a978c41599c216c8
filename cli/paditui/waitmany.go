package paditui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Outcomes of one of several waits, beside those of a single one.
const (
	unreached               = drive.Failed // with Error
	pending   kaval.Outcome = "pending"
)

// waited is one terminal of several that are waited for.
type waited struct {
	host, query string
	frame       drive.WaitFrame
}

// name is the terminal as the lines show it.
func (w *waited) name() string {
	if w.frame.ID == "" {
		return onHost(w.host, w.query)
	}
	return onHost(w.host, w.frame.ID.Short())
}

// manyWaits waits for several terminals, here and on hosts, all at once.
type manyWaits struct {
	f    *Face
	env  *cli.Env
	opts waitOptions
	plan plan
	all  []*waited
	met  context.CancelCauseFunc

	mu sync.Mutex
}

var errMet = errors.New("one is met")

// waitMany waits until any, or all, of the terminals meet the condition. Every terminal's outcome is told as it comes.
func (f *Face) waitMany(ctx context.Context, opts waitOptions, p plan) error {
	m := &manyWaits{f: f, env: client.WholeLines(f.env), opts: opts, plan: p}
	here, err := m.sort()
	if err != nil {
		return err
	}
	hosts, err := f.flags.Named(f.env, m.hosts())
	if err != nil {
		return err
	}
	hosts.JSON = opts.asJSON
	waiting, met := context.WithCancelCause(ctx)
	defer met(nil)
	m.met = met
	var wg sync.WaitGroup
	if mine := m.on(""); len(mine) > 0 {
		wg.Go(func() { m.here(waiting, here, mine) })
	}
	for _, o := range hosts.Ask(waiting, m.env, f.connect, func(ctx context.Context, c *client.PadiClient, t *client.Turn) error {
		return m.wait(ctx, c, client.Endpoint{Host: t.Host().Name}, m.on(hosts.List[t.Index()].Name), t.Streaming)
	}) {
		if o.Err != nil {
			m.fail(m.on(o.Host.Name), o.Err)
		}
	}
	wg.Wait()
	return m.report(ctx)
}

// sort takes the words apart; here is the endpoint of those that name no host.
func (m *manyWaits) sort() (here client.Endpoint, err error) {
	seen := map[string]bool{}
	for _, word := range m.opts.words {
		ep, query, err := m.f.flags.At(m.f.env.Dir, word)
		if err != nil {
			return here, err
		}
		if ep.Host == "" {
			here = ep
		}
		if key := ep.Host + "/" + query; !seen[key] {
			seen[key] = true
			m.all = append(m.all, &waited{host: ep.Host, query: query, frame: drive.WaitFrame{Host: ep.Host, Result: pending}})
		}
	}
	return here, nil
}

func (m *manyWaits) hosts() []string {
	var names []string
	for _, w := range m.all {
		if w.host != "" && !slices.Contains(names, w.host) {
			names = append(names, w.host)
		}
	}
	return names
}

func (m *manyWaits) on(host string) []*waited {
	var mine []*waited
	for _, w := range m.all {
		if w.host == host {
			mine = append(mine, w)
		}
	}
	return mine
}

func (m *manyWaits) here(ctx context.Context, ep client.Endpoint, mine []*waited) {
	err := m.f.at(ctx, ep, func(c *client.PadiClient) error { return m.wait(ctx, c, ep, mine, func() {}) })
	if err != nil {
		if ctx.Err() == nil {
			m.env.Errorf("%s", drive.Clean(err.Error()))
		}
		m.fail(mine, err)
	}
}

// wait finds the terminals of one padi, calls found, and waits for each. An error is one of the line, and is about all that have no
// outcome yet.
func (m *manyWaits) wait(ctx context.Context, c *client.PadiClient, ep client.Endpoint, mine []*waited, found func()) error {
	ids := make([]padi.TerminalID, len(mine))
	for i, w := range mine {
		id, err := m.f.resolve(ctx, c, ep, w.query)
		_, none := errors.AsType[*drive.NoMatchError](err)
		_, many := errors.AsType[*drive.AmbiguousError](err)
		if none || many {
			m.ended(w, drive.WaitFrame{Result: unreached, Error: err.Error()})
			continue
		}
		if err != nil {
			return err
		}
		ids[i] = id
		m.mu.Lock()
		w.frame.ID = id
		m.mu.Unlock()
	}
	found()
	errs := make([]error, len(mine))
	var wg sync.WaitGroup
	for i, w := range mine {
		if ids[i] == "" {
			continue
		}
		wg.Go(func() {
			frame, err := performWait(ctx, c, ids[i], m.plan)
			if errors.Is(err, kaval.ErrGone) {
				frame, err = drive.WaitFrame{Result: kaval.Gone}, nil
			}
			if errs[i] = err; err == nil {
				m.ended(w, frame)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ended notes and tells the outcome of one wait.
func (m *manyWaits) ended(w *waited, frame drive.WaitFrame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	frame.Host = w.host
	if frame.ID == "" {
		frame.ID = w.frame.ID
	}
	w.frame = frame
	m.tell(w)
	if frame.Result == kaval.Met && m.opts.any {
		m.met(errMet)
	}
}

// fail notes that a line broke for those that have no outcome yet; it was told already.
func (m *manyWaits) fail(mine []*waited, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range mine {
		if w.frame.Result == pending && !errors.Is(err, context.Canceled) && !errors.Is(err, errMet) {
			w.frame.Result, w.frame.Error, w.frame.Code = unreached, err.Error(), client.Code(err)
		}
	}
}

// tell prints a line about one that has ended. The caller holds the lock.
func (m *manyWaits) tell(w *waited) {
	env, name := m.env, w.name()
	switch w.frame.Result {
	case kaval.Met:
		if m.opts.asJSON {
			return
		}
		fmt.Fprintf(env.Stderr, "— %s\n", drive.MetLine(name, w.frame))
		if w.frame.Screen != nil {
			fmt.Fprintf(env.Stdout, "%s\n%s", name, drive.EndLine(*w.frame.Screen))
		}
	case kaval.Timeout:
		env.Errorf("timed out waiting for %s", name)
	case kaval.Gone:
		env.Errorf("%s exited before the condition was met — its terminal is gone", name)
	case kaval.Closed:
		env.Errorf("the daemon is going away under %s, which still runs — wait again", name)
	default:
		env.Errorf("%s: %s", name, strings.ReplaceAll(w.frame.Error, "\n", " "))
	}
}

// report prints the array and picks the exit code.
func (m *manyWaits) report(ctx context.Context) error {
	frames := make([]drive.WaitFrame, len(m.all))
	for i, w := range m.all {
		if frames[i] = w.frame; w.frame.ID == "" {
			frames[i].ID = padi.TerminalID(w.query)
		}
	}
	if m.opts.asJSON {
		if err := drive.WriteJSON(m.f.env.Stdout, frames); err != nil {
			return err
		}
	}
	code, what := m.outcome(ctx, frames)
	if what == "" {
		return cli.Exit(code, nil)
	}
	return cli.Exit(code, errors.New(what))
}

// outcome is the exit code and, where that is not zero, why.
func (m *manyWaits) outcome(ctx context.Context, frames []drive.WaitFrame) (code int, what string) {
	count := map[kaval.Outcome]int{}
	for _, f := range frames {
		count[f.Result]++
	}
	met, of := count[kaval.Met], len(frames)
	failed := of - met - count[kaval.Timeout] - count[kaval.Gone] - count[pending]
	summary := fmt.Sprintf("%d of %d met", met, of)
	switch {
	case met == of || (m.opts.any && met > 0):
		return 0, ""
	case drive.Signalled(ctx):
		return drive.ExitInterrupted, fmt.Sprintf("interrupted with %s", summary)
	case failed == of:
		return 1, summary
	case failed > 0:
		return client.ExitPartial, fmt.Sprintf("%s, %d could not be waited for", summary, failed)
	case count[kaval.Timeout] > 0:
		return drive.ExitTimeout, summary
	}
	return drive.ExitGone, summary
}
