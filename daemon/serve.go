package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kolu/internal/version"
)

// ServeConfig is one tenure of a daemon.
type ServeConfig struct {
	Home     Home
	Contract string
	Build    string
	Commit   string
	// LookupEnv reads the environment: the binding to a process, and where else a daemon of the same key could live.
	LookupEnv func(string) (string, bool)
	// Open makes the daemon's own routes once this process holds the gate: nothing may be read or written for the workspace
	// before that. Its ctx ends with the tenure.
	Open func(ctx context.Context, self Hello) (http.Handler, error)
	// Drain saves what must not be lost, before the daemon ends on request. Nil refuses the request.
	Drain func(ctx context.Context) error
	// Upgrade lets another build take over. Nil refuses the request.
	Upgrade *Upgrade
	// Handoff is what another build left to this one, if it did; its Last was read.
	Handoff *Handoff
	// Ready is called once, when the socket answers and the daemon can be stopped cleanly.
	Ready func(Hello)
	// Restored is called after the home had vanished and was made again, maybe in another runtime directory, so that what else
	// the daemon kept in it can be made again too.
	Restored func(Home)
	// Guard is the command line by which this executable calls [Guard] with one more argument. With it, a daemon that is bound to
	// a process does not outlive it even when it hangs.
	Guard []string
	Log   *slog.Logger
}

const (
	// lastWords is how long the answers under way may take once the daemon ends.
	lastWords    = 300 * time.Millisecond
	drainTimeout = 30 * time.Second
	headerLimit  = 30 * time.Second
	touchEvery   = time.Hour
	tendEvery    = anchorEvery // together, so that an idle daemon wakes once for both
)

// Serve is a daemon: it returns when ctx ends, when it was drained, when its state root is gone or when the process it is bound
// to is (each nil), or on a fault. ErrRunning says that another process is this daemon and nothing was touched.
//
// It closes the socket and frees the gate before it returns; what Open made is the caller's to close after that.
func Serve(ctx context.Context, c ServeConfig) error {
	bound, err := boundProcess(c.LookupEnv)
	if err != nil {
		return err
	}
	if bound != nil && !bound() {
		return nil
	}
	if c.Handoff != nil {
		var reaped sync.WaitGroup
		reaped.Go(c.Handoff.reap)
		defer reaped.Wait()
	}
	guard := 0
	if bound != nil && len(c.Guard) > 0 {
		pid, dismiss, err := startGuard(c.Guard, c.getenv(BindVar))
		if err != nil {
			return fmt.Errorf("start guard: %w", err)
		}
		defer dismiss()
		guard = pid
	}
	defer takeIgnored()()
	if err := OpenHome(c.Home); err != nil {
		return err
	}
	gate, err := c.Handoff.claim(c.Home)
	if err != nil {
		return err
	}
	defer func() {
		if err := gate.release(); err != nil {
			c.Log.Warn("gate not freed", "err", err)
		}
	}()
	if err := yield(c.Home, c.getenv); err != nil && c.Handoff == nil {
		return err
	}
	self, err := c.hello()
	if err != nil {
		return err
	}
	if c.Handoff != nil {
		self.StartedAt = c.Handoff.tail.StartedAt
	}
	if c.Home.StateRoot != "" {
		if err := WriteManifest(c.Home); err != nil {
			return fmt.Errorf("write manifest: %w", err)
		}
	}
	if err := writeOwner(c.Home, thisMachine().owner(c.getenv)); err != nil {
		return fmt.Errorf("write owner: %w", err)
	}

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	handler, err := c.Open(ctx, self)
	if err != nil {
		return err
	}
	t := &tenure{ServeConfig: c, gate: gate, home: c.Home, self: self, end: end, guard: guard}
	return t.run(ctx, handler, bound)
}

func (c ServeConfig) getenv(key string) string {
	v, _ := c.LookupEnv(key)
	return v
}

// yield gives way to a daemon of the same key in another runtime directory.
func yield(h Home, getenv Getenv) error {
	for _, other := range elsewhere(h, getenv) {
		if h.StateRoot == "" || checkPrivate(other.Dir) != nil {
			continue
		}
		if holder, err := readGate(other.Gate()); err == nil && holder.alive() {
			return &RunningError{Gate: other.Gate(), PID: holder.pid}
		}
	}
	return nil
}

func (c ServeConfig) hello() (Hello, error) {
	exe, err := version.Executable()
	if err != nil {
		return Hello{}, fmt.Errorf("find own executable: %w", err)
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return Hello{
		Daemon: c.Home.Kind.Name, Contract: c.Contract, Build: c.Build, Commit: c.Commit,
		PID: os.Getpid(), StartedAt: time.Now().UnixMilli(),
		StateRoot: c.Home.StateRoot, Socket: c.Home.Socket(), Executable: exe,
	}, nil
}

// tenure is the time from the socket's birth to its end.
type tenure struct {
	ServeConfig
	gate *claim
	end  context.CancelCauseFunc

	server  *http.Server
	serving sync.WaitGroup
	tending sync.Mutex // held by whoever looks after the files
	guard   int        // pid, 0 for none

	upgrading sync.Mutex // held for the time of an upgrade
	requests  requests
	touched   time.Time

	mu     sync.Mutex
	home   Home // where it is now
	self   Hello
	socket *listener
	old    []*listener // whose path has vanished, with connections that live on
}

// hello is what this daemon says of itself now.
func (t *tenure) hello() Hello {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.self
}

func (t *tenure) run(ctx context.Context, handler http.Handler, bound func() bool) error {
	t.server = &http.Server{
		Handler:           limitBodies(t.routes(handler)),
		ReadHeaderTimeout: headerLimit,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(t.Log.Handler(), slog.LevelDebug),
	}
	if err := t.bind(); err != nil {
		return err
	}
	defer t.close()

	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer t.end(nil)
	watch := func(run func() error) {
		watchers.Go(func() {
			if err := run(); err != nil {
				t.end(err)
			}
		})
	}
	watch(func() error { return watchSelf(ctx, t.check, time.Now, t.Log) })
	watch(func() error { return watchAnchor(ctx, t.root) })
	watch(func() error { return t.watchHome(ctx) })
	if bound != nil {
		watch(func() error { return watchBound(ctx, bound) })
	}

	self := t.hello()
	t.Log.Info("serving", "socket", self.Socket, "pid", self.PID, "build", self.Build, "stateRoot", self.StateRoot)
	if t.Ready != nil && ctx.Err() == nil {
		t.Ready(self)
	}
	if t.Handoff != nil {
		if err := t.Handoff.answer(self); err != nil {
			t.Log.Warn("upgrade not answered", "err", err)
		}
	}
	<-ctx.Done()
	return t.verdict(context.Cause(ctx))
}

// verdict tells a fault from the ordinary ends.
func (t *tenure) verdict(cause error) error {
	t.Log.Info("ending", "cause", cause)
	if _, fault := errors.AsType[*faultError](cause); fault {
		return cause
	}
	return nil
}

// faultError is an end that a supervisor should see as a crash.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

func (t *tenure) routes(handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("GET /v1/hello", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, http.StatusOK, t.hello()) })
	mux.HandleFunc("POST /v1/drain", t.drain)
	if t.Upgrade != nil {
		mux.HandleFunc("POST /v1/upgrade", t.upgrade)
	}
	return t.requests.counted(problems(mux))
}

func (t *tenure) drain(w http.ResponseWriter, r *http.Request) {
	if t.Drain == nil {
		WriteProblem(w, http.StatusConflict, "refused", t.Home.Kind.Name+" does not drain: its terminals would die with it")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), drainTimeout)
	defer cancel()
	if err := t.Drain(ctx); err != nil {
		WriteProblem(w, http.StatusInternalServerError, "internal", "save before the end: "+err.Error())
		return
	}
	WriteJSON(w, http.StatusOK, struct{}{})
	t.end(errDrained)
}

// bind takes the socket's path and serves it.
func (t *tenure) bind() error {
	socket := t.hello().Socket
	ln, err := t.newSocket(socket)
	if err != nil {
		return err
	}
	t.mu.Lock()
	if t.socket != nil {
		t.old = append(t.old, t.socket)
	}
	t.socket = ln
	t.mu.Unlock()
	t.serving.Go(func() {
		if err := t.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			t.end(&faultError{fmt.Errorf("serve %s: %w", socket, err)})
		}
	})
	return nil
}

// newSocket binds a path, or goes on with the socket that another build left.
func (t *tenure) newSocket(path string) (*listener, error) {
	if t.Handoff != nil && t.listening() == nil {
		return t.Handoff.listener(t)
	}
	return listen(path, t.Log)
}

// listening is the socket that is served now.
func (t *tenure) listening() *listener {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.socket
}

// check asks the daemon's own address for a hello, as a client would.
func (t *tenure) check(ctx context.Context) error {
	if err := t.tend(); err != nil {
		return err
	}
	self := t.hello()
	got, err := ReadHello(ctx, Unix(self.Socket))
	if err != nil {
		return err
	}
	if got.PID != self.PID || got.StartedAt != self.StartedAt {
		return fmt.Errorf("pid %d answers at our address", got.PID)
	}
	return nil
}

// watchHome looks after the daemon's files until ctx ends.
func (t *tenure) watchHome(ctx context.Context) error {
	for sleep(ctx, tendEvery) {
		if err := t.tend(); err != nil {
			t.Log.Debug("home not made again", "err", err)
		}
	}
	return nil
}

// tend keeps the files of the daemon: a home that has vanished is made again (a logout can take /run/user/<uid> from under a
// daemon that is well), the log stays within its bound, and the small files stay young, so that what cleans /tmp by age
// leaves them.
func (t *tenure) tend() error {
	t.tending.Lock()
	defer t.tending.Unlock()
	if _, err := os.Lstat(t.hello().Socket); errors.Is(err, fs.ErrNotExist) && t.anchored() {
		t.Log.Warn("socket path has vanished, binding it again", "socket", t.hello().Socket)
		if err := t.restore(); err != nil {
			return err
		}
	}
	if err := boundLog(t.home.Log(), logSize); err != nil {
		t.Log.Warn("log not rolled", "err", err)
	}
	t.touch()
	return nil
}

// anchored reports that the state root is not known to be gone; without it this daemon is about to end and makes nothing anew.
func (t *tenure) anchored() bool {
	_, err := os.Stat(t.home.StateRoot)
	return t.home.StateRoot == "" || !errors.Is(err, fs.ErrNotExist)
}

// restore makes the home again where it was, else where another runtime directory allows it; clients look in all of them.
func (t *tenure) restore() error {
	var refused error
	for _, h := range append([]Home{t.home}, elsewhere(t.home, t.getenv)...) {
		err := t.moveTo(h)
		if err == nil {
			if t.Restored != nil {
				t.Restored(h)
			}
			return nil
		}
		refused = errors.Join(refused, err)
	}
	return refused
}

func (t *tenure) moveTo(h Home) error {
	if err := OpenHome(h); err != nil {
		return err
	}
	if t.gate.path != h.Gate() || !t.gate.ours() {
		gate, err := claimGate(h)
		if err != nil {
			return err
		}
		*t.gate = *gate
	}
	if h.StateRoot != "" {
		if err := WriteManifest(h); err != nil {
			return fmt.Errorf("write manifest: %w", err)
		}
	}
	if err := writeOwner(h, thisMachine().owner(t.getenv)); err != nil {
		return fmt.Errorf("write owner: %w", err)
	}
	t.mu.Lock()
	t.home, t.self.Socket = h, h.Socket()
	t.mu.Unlock()
	return t.bind()
}

func (t *tenure) touch() {
	now := time.Now()
	if now.Sub(t.touched) < touchEvery {
		return
	}
	t.touched = now
	for _, path := range []string{t.home.Gate(), t.home.Manifest(), filepath.Join(t.home.Dir, ownerFile), t.home.Log(), t.home.Socket()} {
		if err := os.Chtimes(path, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Log.Debug("file not touched", "path", path, "err", err)
		}
	}
}

// root is the state root that this daemon is anchored to, or "" as long as none is known.
func (t *tenure) root() string {
	if t.Home.StateRoot != "" {
		return t.Home.StateRoot
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return readManifest(t.home.Manifest())
}

// close stops accepting, lets the answers under way finish for a moment, drops every connection and removes the socket.
func (t *tenure) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if err := t.server.Shutdown(ctx); err != nil {
		t.server.Close()
	}
	t.serving.Wait()
	for _, ln := range append(t.old, t.socket) {
		ln.dropAll()
		if err := ln.unlink(); err != nil {
			t.Log.Warn("socket not removed", "err", err)
		}
	}
}
