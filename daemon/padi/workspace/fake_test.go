package workspace_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"syscall"
	"time"

	"kolu/daemon/kaval"
)

// fakeHost is a kaval whose terminals do what a test says. It can be taken down and lose its lines.
type fakeHost struct {
	mu        sync.Mutex
	terminals []kaval.Terminal
	ended     map[kaval.TerminalID]int
	readers   map[chan kaval.Event]bool
	down      bool
	spawnErr  error
	spawns    []kaval.SpawnRequest
	input     []byte
	writeErr  error
	watches   int
	lists     int
	hang      kaval.TerminalID // its spawn gives no answer
	// beforeSpawn and onKill run when a spawn and a kill come in.
	beforeSpawn, onKill func()
	onSnapshot          func() // runs once, after the snapshot of a watch was taken and before it is given
	onSpawn             func() // runs after the events of a spawn are out and before it returns
}

var errLine = errors.New("line broke")

func newFake() *fakeHost {
	return &fakeHost{ended: map[kaval.TerminalID]int{}, readers: map[chan kaval.Event]bool{}}
}

func (f *fakeHost) tell(ev kaval.Event) {
	for ch := range f.readers {
		ch <- ev
	}
}

// put makes or changes a terminal, as another client of kaval would.
func (f *fakeHost) put(t kaval.Terminal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := kaval.EventChanged
	if i := f.at(t.ID); i >= 0 {
		f.terminals[i] = t
	} else {
		kind = kaval.EventCreated
		f.terminals = append(f.terminals, t)
	}
	f.tell(kaval.Event{Kind: kind, ID: t.ID, Terminal: &t})
}

func (f *fakeHost) output(id kaval.TerminalID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell(kaval.Event{Kind: kaval.EventActivity, ID: id, At: time.Now().UnixMilli()})
}

func (f *fakeHost) exit(id kaval.TerminalID, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(id, code)
}

func (f *fakeHost) remove(id kaval.TerminalID, code int) {
	if i := f.at(id); i >= 0 {
		f.terminals = slices.Delete(f.terminals, i, i+1)
		f.ended[id] = code
		f.tell(kaval.Event{Kind: kaval.EventExited, ID: id, ExitCode: &code})
	}
}

// cut breaks every line; down says whether kaval then refuses new ones. gone takes the terminals with it.
func (f *fakeHost) cut(down, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
	if gone {
		f.terminals = nil
	}
	for ch := range f.readers {
		close(ch)
		delete(f.readers, ch)
	}
}

func (f *fakeHost) up() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = false
}

func (f *fakeHost) at(id kaval.TerminalID) int {
	return slices.IndexFunc(f.terminals, func(t kaval.Terminal) bool { return t.ID == id })
}

func (f *fakeHost) need(id kaval.TerminalID) error {
	if f.down {
		return syscall.ECONNREFUSED
	}
	if _, ok := f.ended[id]; ok {
		return kaval.ErrGone
	}
	if f.at(id) < 0 {
		return kaval.ErrNoTerminal
	}
	return nil
}

func (f *fakeHost) Info(context.Context) (kaval.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return kaval.Info{}, syscall.ECONNREFUSED
	}
	return kaval.Info{Shell: "/bin/zsh", Home: "/home/u", User: "u"}, nil
}

func (f *fakeHost) List(context.Context) ([]kaval.Terminal, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if f.down {
		return nil, syscall.ECONNREFUSED
	}
	return slices.Clone(f.terminals), nil
}

func (f *fakeHost) Spawn(ctx context.Context, req kaval.SpawnRequest) (kaval.Terminal, error) {
	if f.beforeSpawn != nil {
		f.beforeSpawn()
	}
	if f.hang == req.ID {
		<-ctx.Done()
		return kaval.Terminal{}, ctx.Err()
	}
	f.mu.Lock()
	f.spawns = append(f.spawns, req)
	err, then := f.spawnErr, f.onSpawn
	if f.down {
		err = syscall.ECONNREFUSED
	}
	f.mu.Unlock()
	if err != nil {
		return kaval.Terminal{}, err
	}
	t := kaval.Terminal{ID: req.ID, PID: 100, CWD: req.CWD, StartedAt: time.Now().UnixMilli(), LastActivity: time.Now().UnixMilli()}
	f.put(t)
	if then != nil {
		then()
	}
	return t, nil
}

func (f *fakeHost) Kill(_ context.Context, id kaval.TerminalID) error {
	if f.onKill != nil {
		f.onKill()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.need(id); err != nil {
		return err
	}
	f.remove(id, 137)
	return nil
}

func (f *fakeHost) Write(_ context.Context, id kaval.TerminalID, in kaval.Input) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := errors.Join(f.need(id), f.writeErr); err != nil {
		return err
	}
	f.input = append(f.input, in.Data...)
	return nil
}

func (f *fakeHost) Resize(_ context.Context, id kaval.TerminalID, _ kaval.Size) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.need(id)
}

func (f *fakeHost) Screen(_ context.Context, id kaval.TerminalID, _ kaval.ScreenRequest) (kaval.Screen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return kaval.Screen{Text: "$"}, f.need(id)
}

func (f *fakeHost) History(_ context.Context, id kaval.TerminalID, _ kaval.HistoryRequest) (kaval.HistoryPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return kaval.HistoryPage{}, f.need(id)
}

func (f *fakeHost) Wait(_ context.Context, id kaval.TerminalID, req kaval.WaitRequest) (kaval.WaitResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return kaval.WaitResult{ID: id, Result: kaval.Met, Fired: "match", MatchedLine: req.Match}, f.need(id)
}

func (f *fakeHost) Attach(context.Context, kaval.TerminalID, kaval.AttachRequest) (kaval.Attachment, error) {
	return nil, errors.ErrUnsupported
}

func (f *fakeHost) Watch(ctx context.Context) iter.Seq2[kaval.Event, error] {
	return func(yield func(kaval.Event, error) bool) {
		ch := make(chan kaval.Event, 10_000)
		f.mu.Lock()
		f.watches++
		if f.down {
			f.mu.Unlock()
			yield(kaval.Event{}, syscall.ECONNREFUSED)
			return
		}
		f.readers[ch] = true
		snapshot := kaval.Event{Kind: kaval.EventSnapshot, Terminals: slices.Clone(f.terminals)}
		then := f.onSnapshot
		f.onSnapshot = nil
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.readers, ch)
		}()
		if then != nil {
			then()
		}
		if !yield(snapshot, nil) {
			return
		}
		for {
			select {
			case <-ctx.Done():
				return
			case ev, ok := <-ch:
				if !ok {
					yield(kaval.Event{}, errLine)
					return
				}
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
}
