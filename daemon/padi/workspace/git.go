package workspace

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/repo"
)

const (
	// gitEvery is how often checkouts are looked at though nothing points to a change, gitReconcile where a watch should have told.
	gitEvery     = 3 * time.Second
	gitReconcile = 10 * time.Second
	// gitGap is the least time between two looks at a directory.
	gitGap = 150 * time.Millisecond
	// gitGrace is how long a look may still take when the workspace ends; one at a dead network mount never ends.
	gitGrace = time.Second
)

// RepoWatch tells when the facts of a directory may have changed; repo.Watch is one.
type RepoWatch interface {
	Follow(dir string) error
	Keep(dirs []string)
	Run(changed func(dir string))
	Close() error
}

// gitSensor keeps the git facts of the records true.
type gitSensor struct {
	reg   *registry
	log   *slog.Logger
	watch RepoWatch // nil where there is none
	kick  chan struct{}
	looks gitLooks

	mu    sync.Mutex
	due   map[string]bool // directories to look at
	blind map[string]bool // directories that cannot be watched
}

func newGitSensor(reg *registry, found func(cwd string, git *padi.Git), log *slog.Logger) *gitSensor {
	s := &gitSensor{reg: reg, log: log, kick: make(chan struct{}, 1), due: map[string]bool{}, blind: map[string]bool{}}
	s.looks = gitLooks{look: s.look, found: found, busy: map[string]bool{}, failed: func(cwd string, err error) {
		log.Debug("git facts not read", "cwd", cwd, "err", err)
	}}
	return s
}

// moved asks for a look at a directory soon. It never blocks.
func (s *gitSensor) moved(cwd string) {
	if cwd == "" {
		return
	}
	s.mu.Lock()
	s.due[cwd] = true
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// run looks until ctx ends. watch may be nil.
func (s *gitSensor) run(ctx context.Context, watch RepoWatch) {
	defer s.looks.wait(gitGrace)
	if watch != nil {
		s.watch = watch
		var told sync.WaitGroup
		defer told.Wait()
		defer watch.Close()
		told.Go(func() { watch.Run(s.moved) })
	}
	every := time.NewTimer(s.pause())
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			s.all()
			every.Reset(s.pause())
		case <-s.kick:
		}
		for _, cwd := range s.take() {
			s.looks.start(cwd)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gitGap):
		}
	}
}

func (s *gitSensor) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch == nil || len(s.blind) > 0 {
		return gitEvery
	}
	return gitReconcile
}

// all makes every directory of a running terminal due, and forgets the others.
func (s *gitSensor) all() {
	cwds := s.reg.cwds()
	if s.watch != nil {
		s.watch.Keep(cwds)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.blind, func(cwd string, _ bool) bool { return !slices.Contains(cwds, cwd) })
	for _, cwd := range cwds {
		s.due[cwd] = true
	}
}

func (s *gitSensor) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := slices.Collect(maps.Keys(s.due))
	clear(s.due)
	return due
}

// look watches before it reads, so that nothing falls between the two.
func (s *gitSensor) look(cwd string) (*padi.Git, error) {
	if s.watch != nil {
		err := s.watch.Follow(cwd)
		if err != nil {
			s.log.Debug("repository not watched", "cwd", cwd, "err", err)
		}
		s.watched(cwd, err == nil)
	}
	return repo.Facts(cwd)
}

func (s *gitSensor) watched(cwd string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.blind, cwd); !ok {
		s.blind[cwd] = true
	}
}

// gitLooks are looks at directories, one at a time in each, so that a directory that hangs holds up no other.
type gitLooks struct {
	look   func(cwd string) (*padi.Git, error)
	found  func(cwd string, git *padi.Git)
	failed func(cwd string, err error)
	wg     sync.WaitGroup
	mu     sync.Mutex
	busy   map[string]bool // true: look again when this look is done
}

func (l *gitLooks) start(cwd string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, busy := l.busy[cwd]; busy {
		l.busy[cwd] = true
		return
	}
	l.busy[cwd] = false
	l.wg.Go(func() {
		for again := true; again; again = l.again(cwd) {
			git, err := l.look(cwd)
			if err != nil {
				l.failed(cwd, err) // what was known stays
				continue
			}
			l.found(cwd, git)
		}
	})
}

// again ends a look, unless something changed while it was under way.
func (l *gitLooks) again(cwd string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[cwd] {
		l.busy[cwd] = false
		return true
	}
	delete(l.busy, cwd)
	return false
}

func (l *gitLooks) wait(limit time.Duration) {
	ended := make(chan struct{})
	go func() { // ends with the last look
		l.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}
