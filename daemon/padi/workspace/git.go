package workspace

import (
	"context"
	"sync"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/repo"
)

const (
	// gitEvery is how often checkouts are looked at though nothing points to a change.
	gitEvery = 3 * time.Second
	// gitGap is the least time between two looks.
	gitGap = 150 * time.Millisecond
	// gitGrace is how long a look may still take when the workspace ends; one at a dead network mount never ends.
	gitGrace = time.Second
)

// kickGit asks for a look at the checkouts soon. It never blocks.
func (w *Workspace) kickGit() {
	select {
	case w.gitKick <- struct{}{}:
	default:
	}
}

// senseGit keeps the git facts of the records true.
func (w *Workspace) senseGit(ctx context.Context) {
	looks := gitLooks{found: w.reg.gitSeen, busy: map[string]bool{}, failed: func(cwd string, err error) {
		w.log.Debug("git facts not read", "cwd", cwd, "err", err)
	}}
	defer looks.wait(gitGrace)
	every := time.NewTicker(gitEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		case <-w.gitKick:
		}
		for _, cwd := range w.reg.cwds() {
			looks.start(cwd)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gitGap):
		}
	}
}

// gitLooks are looks at directories, one at a time in each, so that a directory that hangs holds up no other.
type gitLooks struct {
	found  func(cwd string, git *padi.Git)
	failed func(cwd string, err error)
	wg     sync.WaitGroup
	mu     sync.Mutex
	busy   map[string]bool
}

func (l *gitLooks) start(cwd string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[cwd] {
		return
	}
	l.busy[cwd] = true
	l.wg.Go(func() {
		git, err := repo.Facts(cwd)
		l.mu.Lock()
		delete(l.busy, cwd)
		l.mu.Unlock()
		if err != nil {
			l.failed(cwd, err) // what was known stays
			return
		}
		l.found(cwd, git)
	})
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
