// Package front is what the commands of both daemons share: the directory of tools that terminals find first on their
// PATH ([Tools]), and the front that ssh runs ([Run]), which leads a caller's connections to the daemon of this host.
package front

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"kolu/cli"
	"kolu/daemon"
	"kolu/internal/fault"
	"kolu/internal/version"
	"kolu/stdio"
)

// names are the names that one build goes by.
var names = [...]string{"kolu", "kaval", "padi", "kaval-tui", "padi-tui", "pulam-tui"}

// Tools is the directory that holds the six names of the running build: the one of its own executable, or else one of
// symbolic links that is made below dir.
func Tools(dir string) (string, error) {
	exe, err := Executable()
	if err != nil {
		return "", err
	}
	if beside := filepath.Dir(exe); complete(beside, exe) {
		return beside, nil
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return "", err
	}
	for _, name := range names {
		if err := link(exe, filepath.Join(bin, name)); err != nil {
			return "", err
		}
	}
	return bin, nil
}

// Executable is the real path of the running program.
func Executable() (string, error) {
	exe, err := version.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(exe)
}

func complete(dir, exe string) bool {
	self, err := os.Stat(exe)
	if err != nil {
		return false
	}
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !os.SameFile(self, info) {
			return false
		}
	}
	return true
}

// link makes path a link to target, replacing another one in one step. Several processes may do it at once.
func link(target, path string) error {
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	tmp := path + "." + rand.Text()
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		os.Remove(tmp)
		return err
	}
	return nil
}

// Config is one run of a front.
type Config struct {
	Nonce string
	// Contract is what this build speaks. A daemon of another major version is refused and left alone.
	Contract string
	// Reach gives the hello of the daemon that the front leads to, starting it where none runs.
	Reach func(ctx context.Context) (daemon.Hello, error)
	// Agent says that the daemon's terminals are offered the ssh agent of this login, if it has one.
	Agent bool
}

// Run prints one banner on stdout and then carries connections between stdin, stdout and the daemon's socket until stdin
// ends. When there is no daemon to lead to, the banner says why and the error ends the command with 1. The daemon lives on in
// either case: a front ends nothing.
func Run(ctx context.Context, env *cli.Env, c Config) error {
	if !validNonce(c.Nonce) {
		return cli.Exit(1, errors.New("--nonce must be 1 to 64 letters and digits"))
	}
	w := &way{Config: c}
	hello, err := w.reach(ctx)
	if err != nil {
		if werr := stdio.WriteBanner(env.Stdout, c.Nonce, identify(refusal(hello, err))); werr != nil {
			return werr
		}
		return err
	}
	banner := describe(hello)
	banner.Verdict, banner.Bin, banner.Warnings = stdio.Ready, filepath.Dir(hello.Executable), daemon.Outlook(hello.PID, env.Getenv)
	if c.Agent {
		stop, err := lendAgent(filepath.Dir(hello.Socket), env.Getenv)
		if err != nil {
			banner.Warnings = append(banner.Warnings, "terminals do not get the forwarded ssh agent: "+err.Error())
		} else {
			defer stop()
		}
	}
	if err := stdio.WriteBanner(env.Stdout, c.Nonce, identify(banner)); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1) // it copies: a second one only looks for work, 0.04 ms of each request on two cores
	return stdio.Serve(ctx, env.Stdin, env.Stdout, w.dial)
}

func describe(h daemon.Hello) stdio.Banner {
	return stdio.Banner{
		Contract: h.Contract, Build: h.Build, Commit: h.Commit, PID: h.PID, StartedAt: h.StartedAt, Socket: h.Socket,
	}
}

// refusal is the banner for a daemon that can't be led to; hello is what is known of it.
func refusal(hello daemon.Hello, err error) stdio.Banner {
	b := describe(hello)
	b.Verdict, b.Code, b.Detail = stdio.Refused, string(fault.FrontRefused), fault.Printable(err.Error(), 2048)
	if _, ok := errors.AsType[*contractError](err); ok {
		b.Code = string(fault.Contract)
	}
	return b
}

// contractError is a daemon of another major version of the contract.
type contractError struct {
	hello daemon.Hello
	ours  string
}

func (e *contractError) Error() string {
	h := e.hello
	return fmt.Sprintf("the %s that runs there (pid %d, build %s) speaks contract %s, this build (%s) speaks %s; it and its terminals are left alone",
		h.Daemon, h.PID, orUnknown(h.Build), h.Contract, orUnknown(version.BuildID()), e.ours)
}

func orUnknown(build string) string {
	if build == "" {
		return "unknown"
	}
	return build
}

// way leads to the daemon. When it has gone between two connections, it is reached once more for the next one.
type way struct {
	Config

	mu    sync.Mutex
	hello daemon.Hello // of the daemon that was reached last
}

func (w *way) reach(ctx context.Context) (daemon.Hello, error) {
	hello, err := w.Reach(ctx)
	if err != nil {
		return hello, err
	}
	if major(hello.Contract) != major(w.Contract) {
		return hello, &contractError{hello, w.Contract}
	}
	w.hello = hello
	return hello, nil
}

func major(contract string) string {
	m, _, _ := strings.Cut(contract, ".")
	return m
}

func (w *way) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	hello := w.hello
	w.mu.Unlock()
	conn, err := daemon.Unix(hello.Socket).Dial(ctx)
	if !daemon.Absent(err) {
		return conn, err
	}
	if hello, err = w.again(ctx, hello); err != nil {
		return nil, err
	}
	return daemon.Unix(hello.Socket).Dial(ctx)
}

// again reaches the daemon anew, unless another connection has done so since gone was seen.
func (w *way) again(ctx context.Context, gone daemon.Hello) (daemon.Hello, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hello != gone {
		return w.hello, nil
	}
	hello, err := w.reach(ctx)
	if err != nil {
		return hello, fmt.Errorf("the daemon (pid %d) has gone and could not be reached again: %w", gone.PID, err)
	}
	return hello, nil
}

func validNonce(s string) bool {
	const allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return len(s) >= 1 && len(s) <= 64 && strings.Trim(s, allowed) == ""
}

// Log is a front's log: on stderr, and only what someone should look at.
func Log(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
