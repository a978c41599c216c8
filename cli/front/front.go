// Package front is what the commands of both daemons share: the directory of tools that terminals find first on their
// PATH ([Tools]), and the front that ssh runs ([Run]), which leads a caller's connections to the daemon of this host.
package front

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"kolu/cli"
	"kolu/daemon"
	"kolu/internal/fault"
	"kolu/stdio"
)

// Names are the names that one build goes by.
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
	exe, err := os.Executable()
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

// link makes path a link to target, replacing another one in one step.
func link(target, path string) error {
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Config is one run of a front.
type Config struct {
	Nonce string
	// Reach gives the hello of the daemon that the front leads to, starting it where none runs.
	Reach func(ctx context.Context) (daemon.Hello, error)
}

// Run prints one banner on stdout and then carries connections between stdin, stdout and the daemon's socket until stdin
// ends. When there is no daemon to lead to, the banner says why and the error ends the command with 1. The daemon lives on in
// either case: a front ends nothing.
func Run(ctx context.Context, env *cli.Env, c Config) error {
	if !validNonce(c.Nonce) {
		return cli.Exit(1, errors.New("--nonce must be 1 to 64 letters and digits"))
	}
	hello, err := c.Reach(ctx)
	if err != nil {
		banner := stdio.Banner{Verdict: stdio.Refused, Code: string(fault.FrontRefused), Detail: fault.Printable(err.Error(), 2048)}
		if werr := stdio.WriteBanner(env.Stdout, c.Nonce, identify(banner)); werr != nil {
			return werr
		}
		return err
	}
	banner := stdio.Banner{
		Verdict: stdio.Ready, Contract: hello.Contract, Build: hello.Build, Commit: hello.Commit,
		PID: hello.PID, StartedAt: hello.StartedAt, Socket: hello.Socket, Bin: filepath.Dir(hello.Executable),
		Warnings: warnings(),
	}
	if err := stdio.WriteBanner(env.Stdout, c.Nonce, identify(banner)); err != nil {
		return err
	}
	return stdio.Serve(ctx, env.Stdin, env.Stdout, daemon.Unix(hello.Socket).Dial)
}

func validNonce(s string) bool {
	const allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return len(s) >= 1 && len(s) <= 64 && strings.Trim(s, allowed) == ""
}

// Log is a front's log: on stderr, and only what someone should look at.
func Log(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
