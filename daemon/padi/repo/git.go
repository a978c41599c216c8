package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

const (
	// gitLimit bounds one run of the git program, treeLimit one that writes or removes a checkout.
	gitLimit  = 30 * time.Second
	treeLimit = 10 * time.Minute
	// gitAtOnce is how many run at a time, so that a padi that many faces ask keeps the machine usable.
	gitAtOnce = 4
	// maxWords is what is kept of what git prints beside its output.
	maxWords = 8 << 10
)

var gitSlots = make(chan struct{}, gitAtOnce)

// result is what a run of git printed. cut reports that there was more than was asked for.
type result struct {
	out []byte
	cut bool
}

// git runs the git program in dir for at most limit bytes of output and for at most gitLimit. What git refuses is a *gitError.
func git(ctx context.Context, dir string, limit int, args ...string) (result, error) {
	return gitWithin(ctx, gitLimit, dir, limit, args...)
}

// gitWithin returns when ctx ends or the time is over, even where git hangs in the kernel.
func gitWithin(ctx context.Context, within time.Duration, dir string, limit int, args ...string) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%w: git %s took more than %s", padi.ErrGitFailed, args[0], within))
	defer cancel()
	select {
	case gitSlots <- struct{}{}:
	case <-ctx.Done():
		return result{}, context.Cause(ctx)
	}
	type answer struct {
		result
		err error
	}
	done := make(chan answer, 1)
	go func() { // outlives the call where the program cannot be killed, and keeps its slot until then
		defer func() { <-gitSlots }()
		res, err := runGit(ctx, dir, limit, args)
		done <- answer{res, err}
	}()
	select {
	case a := <-done:
		if a.err != nil && ctx.Err() != nil {
			a.err = context.Cause(ctx)
		}
		return a.result, a.err
	case <-ctx.Done():
		return result{}, context.Cause(ctx)
	}
}

func runGit(ctx context.Context, dir string, limit int, args []string) (result, error) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	out, words := &bounded{limit: limit, full: kill}, &bounded{limit: maxWords}
	// A repository's own configuration must not make us run a monitor, and names come as they are. Its filters run where git needs them to
	// compare a file, as they do for the user's own git status.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"}, args...)...)
	cmd.Env = gitEnv()
	cmd.Stdout, cmd.Stderr = out, words
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	switch {
	case err == nil, out.cut:
		return result{out.Bytes(), out.cut}, nil
	case errors.Is(err, exec.ErrNotFound):
		return result{}, padi.ErrNoGit
	}
	e := &gitError{verb: args[0], words: lastLine(words.String()), cause: err}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		e.code = exit.ExitCode()
	}
	return result{out.Bytes(), false}, e
}

// gitError is a run of git that failed; it is a padi.ErrGitFailed.
type gitError struct {
	verb, words string
	code        int // the exit code, 0 where there is none
	cause       error
}

func (e *gitError) Error() string {
	if e.words != "" {
		return "git: " + e.words
	}
	return fmt.Sprintf("git %s: %v", e.verb, e.cause)
}
func (e *gitError) Unwrap() error { return padi.ErrGitFailed }

// bounded keeps the first bytes that are written to it; more than limit calls full.
type bounded struct {
	bytes.Buffer
	limit int
	full  func()
	cut   bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); len(p) > room {
		b.Buffer.Write(p[:room])
		b.cut = true
		if b.full != nil {
			b.full()
			return room, io.ErrShortWrite
		}
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

func gitEnv() []string {
	env := []string{}
	for k, v := range kaval.CleanEnv(os.Environ()) {
		if !strings.HasPrefix(k, "LC_") && !strings.HasPrefix(k, "LANG") {
			env = append(env, k+"="+v)
		}
	}
	return append(env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_LITERAL_PATHSPECS=1")
}

// lastLine is what git said went wrong: the first line that says so, else the last.
func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines {
		if strings.HasPrefix(l, "fatal:") || strings.HasPrefix(l, "error:") {
			return strings.TrimSpace(l)
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// checkout is the checkout that dir is in, as an error where it is in none.
func checkout(dir string) (layout, error) {
	l, ok, err := find(dir)
	switch {
	case err != nil:
		return l, fmt.Errorf("%w: %v", padi.ErrGitFailed, err)
	case !ok:
		return l, fmt.Errorf("%s: %w", dir, padi.ErrNoRepo)
	}
	return l, nil
}
