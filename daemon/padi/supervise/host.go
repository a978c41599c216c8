package supervise

import (
	"context"
	"iter"

	"kolu/daemon/kaval"
)

var _ kaval.Host = (*Supervisor)(nil)

// ask passes a question on to the kaval that is up.
func ask[T any](s *Supervisor, ctx context.Context, question func(kaval.Host) (T, error)) (T, error) {
	host, err := s.current(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return question(host)
}

// tell is ask for what has no answer.
func tell(s *Supervisor, ctx context.Context, order func(kaval.Host) error) error {
	_, err := ask(s, ctx, func(h kaval.Host) (struct{}, error) { return struct{}{}, order(h) })
	return err
}

// Info is that of the kaval that is up; so are the other methods.
func (s *Supervisor) Info(ctx context.Context) (kaval.Info, error) {
	return ask(s, ctx, func(h kaval.Host) (kaval.Info, error) { return h.Info(ctx) })
}

// List gives the live terminals.
func (s *Supervisor) List(ctx context.Context) ([]kaval.Terminal, error) {
	return ask(s, ctx, func(h kaval.Host) ([]kaval.Terminal, error) { return h.List(ctx) })
}

// Spawn starts a program.
func (s *Supervisor) Spawn(ctx context.Context, req kaval.SpawnRequest) (kaval.Terminal, error) {
	return ask(s, ctx, func(h kaval.Host) (kaval.Terminal, error) { return h.Spawn(ctx, req) })
}

// Kill ends a terminal.
func (s *Supervisor) Kill(ctx context.Context, id kaval.TerminalID) error {
	return tell(s, ctx, func(h kaval.Host) error { return h.Kill(ctx, id) })
}

// Write hands bytes to a program.
func (s *Supervisor) Write(ctx context.Context, id kaval.TerminalID, in kaval.Input) error {
	return tell(s, ctx, func(h kaval.Host) error { return h.Write(ctx, id, in) })
}

// Resize sets a grid.
func (s *Supervisor) Resize(ctx context.Context, id kaval.TerminalID, size kaval.Size) error {
	return tell(s, ctx, func(h kaval.Host) error { return h.Resize(ctx, id, size) })
}

// Screen gives what a terminal shows.
func (s *Supervisor) Screen(ctx context.Context, id kaval.TerminalID, req kaval.ScreenRequest) (kaval.Screen, error) {
	return ask(s, ctx, func(h kaval.Host) (kaval.Screen, error) { return h.Screen(ctx, id, req) })
}

// History gives a page of lines.
func (s *Supervisor) History(ctx context.Context, id kaval.TerminalID, req kaval.HistoryRequest) (kaval.HistoryPage, error) {
	return ask(s, ctx, func(h kaval.Host) (kaval.HistoryPage, error) { return h.History(ctx, id, req) })
}

// Wait blocks in kaval.
func (s *Supervisor) Wait(ctx context.Context, id kaval.TerminalID, req kaval.WaitRequest) (kaval.WaitResult, error) {
	return ask(s, ctx, func(h kaval.Host) (kaval.WaitResult, error) { return h.Wait(ctx, id, req) })
}

// Attach gives a reader of a terminal.
func (s *Supervisor) Attach(ctx context.Context, id kaval.TerminalID, req kaval.AttachRequest) (kaval.Attachment, error) {
	return ask(s, ctx, func(h kaval.Host) (kaval.Attachment, error) { return h.Attach(ctx, id, req) })
}

// Watch yields the events of one kaval, until its line breaks.
func (s *Supervisor) Watch(ctx context.Context) iter.Seq2[kaval.Event, error] {
	return func(yield func(kaval.Event, error) bool) {
		host, err := s.current(ctx)
		if err != nil {
			if ctx.Err() == nil {
				yield(kaval.Event{}, err)
			}
			return
		}
		host.Watch(ctx)(yield)
		s.lineEnded(ctx)
	}
}

// lineEnded looks at once whether kaval has gone with the line; a repair is left to the probes.
func (s *Supervisor) lineEnded(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	err := s.bounded(ctx, s.greet)
	if err == nil || ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State == "connected" {
		s.status.State, s.status.Detail = "degraded", err.Error()
	}
}
