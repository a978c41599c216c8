// Package clitest has what the tests of command trees need: a kaval and a padi in memory, whose answers a test sets, and a way to
// run a tree in process. It imitates no terminal; the suites of kavaltest and paditest prove the real ones.
package clitest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// Result is how a command ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

func (r Result) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", r.Code, r.Stdout, r.Stderr)
}

// Env is an Env for name and args, with output into buffers, no input, and the variables given.
func Env(name string, environ []string, args ...string) (env *cli.Env, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &cli.Env{
		Name: name, Args: args, Stdin: bytes.NewReader(nil), Stdout: stdout, Stderr: stderr, Environ: environ, Dir: "/the/dir",
	}, stdout, stderr
}

// Run runs a tree in process to its end.
func Run(tree func(*cli.Env) *cobra.Command, env *cli.Env) Result {
	code := cli.Main(tree, env)
	return Result{code, fmt.Sprint(env.Stdout), fmt.Sprint(env.Stderr)}
}

// Pipe is a stdin with content, as a pipe gives it. The caller closes it.
func Pipe(content string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, content); err != nil {
		return nil, err
	}
	return r, w.Close()
}

// Shared is what both fakes share: input, screens and history.
type Shared struct {
	mu     sync.Mutex
	Inputs map[kaval.TerminalID][]string
	Killed []kaval.TerminalID
	// Text is the screen; requests are noted.
	Text    string
	Screens []kaval.ScreenRequest
	Pages   []kaval.HistoryPage // newest first
	// OnWrite, where it is set, may refuse.
	OnWrite func(ctx context.Context, data string) error
}

// Write notes the input.
func (t *Shared) Write(ctx context.Context, id kaval.TerminalID, in kaval.Input) error {
	if t.OnWrite != nil {
		if err := t.OnWrite(ctx, string(in.Data)); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Inputs == nil {
		t.Inputs = map[kaval.TerminalID][]string{}
	}
	t.Inputs[id] = append(t.Inputs[id], string(in.Data))
	return nil
}

// Written is what was written to a terminal.
func (t *Shared) Written(id kaval.TerminalID) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.Inputs[id])
}

// Resize does nothing.
func (t *Shared) Resize(context.Context, kaval.TerminalID, kaval.Size) error { return nil }

// Screen gives Text.
func (t *Shared) Screen(_ context.Context, _ kaval.TerminalID, req kaval.ScreenRequest) (kaval.Screen, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Screens = append(t.Screens, req)
	return kaval.Screen{Text: t.Text, Cols: kaval.DefaultCols, Rows: kaval.DefaultRows}, nil
}

// History gives the page that Before names by its place: nil is the first, else the one that follows TopLine.
func (t *Shared) History(_ context.Context, _ kaval.TerminalID, req kaval.HistoryRequest) (kaval.HistoryPage, error) {
	i := 0
	if req.Before != nil {
		i = 1 + slices.IndexFunc(t.Pages, func(p kaval.HistoryPage) bool { return p.TopLine == *req.Before })
	}
	return t.Pages[i], nil
}

// Host is a kaval in memory.
type Host struct {
	Shared
	Live    []kaval.Terminal
	About   kaval.Info
	Spawned []kaval.SpawnRequest
	OnWait  func(ctx context.Context, id kaval.TerminalID, req kaval.WaitRequest) (kaval.WaitResult, error)
	// Attachments are given one after the other.
	Attachments []kaval.Attachment
	Attached    []kaval.AttachRequest
}

var _ kaval.Host = (*Host)(nil)

// Info gives About.
func (h *Host) Info(context.Context) (kaval.Info, error) { return h.About, nil }

// List gives Live without those that were killed.
func (h *Host) List(context.Context) ([]kaval.Terminal, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.Live), func(t kaval.Terminal) bool { return slices.Contains(h.Killed, t.ID) }), nil
}

// Spawn notes the request and gives a terminal for it.
func (h *Host) Spawn(_ context.Context, req kaval.SpawnRequest) (kaval.Terminal, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Spawned = append(h.Spawned, req)
	return kaval.Terminal{ID: "0badcafe-0000-4000-8000-000000000000", PID: 42, CWD: req.CWD}, nil
}

// Kill notes the id.
func (h *Host) Kill(_ context.Context, id kaval.TerminalID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Killed = append(h.Killed, id)
	return nil
}

// Wait gives what OnWait does.
func (h *Host) Wait(ctx context.Context, id kaval.TerminalID, req kaval.WaitRequest) (kaval.WaitResult, error) {
	return h.OnWait(ctx, id, req)
}

// Attach gives the next attachment.
func (h *Host) Attach(_ context.Context, _ kaval.TerminalID, req kaval.AttachRequest) (kaval.Attachment, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Attached = append(h.Attached, req)
	if len(h.Attachments) == 0 {
		return nil, kaval.ErrGone
	}
	a := h.Attachments[0]
	h.Attachments = h.Attachments[1:]
	return a, nil
}

// Watch gives nothing.
func (h *Host) Watch(context.Context) iter.Seq2[kaval.Event, error] {
	return func(func(kaval.Event, error) bool) {}
}

// Workspace is a padi in memory.
type Workspace struct {
	KavalIs padi.KavalStatus
	Shared
	Records  []padi.Record
	Created  []padi.CreateRequest
	OnCreate func(req padi.CreateRequest) (padi.Created, error)
	OnWait   func(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error)
	Events   []padi.Event // of each Watch; then WatchErr, or the end of ctx
	WatchErr error
	// Err, where it is set, is the answer to the roster's questions.
	Err error
	// OnPrompt answers prompts, which are noted in Prompts; Explained is what Explain gives.
	OnPrompt  func(padi.PromptRequest) (padi.Receipt, error)
	Prompts   []padi.PromptRequest
	Explained padi.Explanation
	Recent    []padi.RecentAgent
}

var (
	_ padi.Workspace   = (*Workspace)(nil)
	_ padi.AgentKeeper = (*Workspace)(nil)
)

// Explain gives Explained.
func (w *Workspace) Explain(_ context.Context, id padi.TerminalID) (padi.Explanation, error) {
	x := w.Explained
	x.ID = id
	return x, w.Err
}

// RecentAgents gives Recent.
func (w *Workspace) RecentAgents(context.Context) ([]padi.RecentAgent, error) { return w.Recent, w.Err }

// Prompt notes the request and gives what OnPrompt does.
func (w *Workspace) Prompt(_ context.Context, id padi.TerminalID, req padi.PromptRequest) (padi.Receipt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Prompts = append(w.Prompts, req)
	r, err := w.OnPrompt(req)
	r.ID = id
	return r, err
}

func (w *Workspace) records() []padi.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.Records), func(r padi.Record) bool { return slices.Contains(w.Killed, r.ID) })
}

// Terminals gives Records without those that were killed.
func (w *Workspace) Terminals(context.Context) ([]padi.Record, error) { return w.records(), w.Err }

// Terminal gives one of Records.
func (w *Workspace) Terminal(_ context.Context, id padi.TerminalID) (padi.Record, error) {
	if w.Err != nil {
		return padi.Record{}, w.Err
	}
	for _, r := range w.records() {
		if r.ID == id {
			return r, nil
		}
	}
	return padi.Record{}, fmt.Errorf("%s: %w", id, kaval.ErrNoTerminal)
}

// Create notes the request and gives what OnCreate does.
func (w *Workspace) Create(_ context.Context, req padi.CreateRequest) (padi.Created, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Created = append(w.Created, req)
	if w.OnCreate != nil {
		return w.OnCreate(req)
	}
	return padi.Created{ID: "0badcafe-0000-4000-8000-000000000000", PID: 42}, nil
}

// Kill notes the id and gives its record.
func (w *Workspace) Kill(ctx context.Context, id padi.TerminalID) (padi.Record, error) {
	rec, err := w.Terminal(ctx, id)
	if err != nil {
		return rec, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Killed = append(w.Killed, id)
	return rec, nil
}

// Wait gives what OnWait does.
func (w *Workspace) Wait(ctx context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
	return w.OnWait(ctx, id, req)
}

// Watch gives Events, then WatchErr, or waits for the end of ctx.
func (w *Workspace) Watch(ctx context.Context) iter.Seq2[padi.Event, error] {
	return func(yield func(padi.Event, error) bool) {
		for _, ev := range w.Events {
			if !yield(ev, nil) {
				return
			}
		}
		if w.WatchErr != nil {
			yield(padi.Event{}, w.WatchErr)
			return
		}
		<-ctx.Done()
	}
}

// Kaval gives KavalIs, else a kaval that is well.
func (w *Workspace) Kaval(context.Context) (padi.KavalStatus, error) {
	if w.KavalIs.State != "" {
		return w.KavalIs, nil
	}
	return padi.KavalStatus{State: "connected", Socket: "/run/kaval/pty-host.sock"}, nil
}
