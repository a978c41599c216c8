// Package cli is what every command of kolu shares: the world a command runs in ([Env]), how it ends ([Main], [Exit]), and
// how it prints. It knows no daemon and no host; a command tree is a func(*Env) *cobra.Command in a package of its own.
//
// stdout carries the answer and nothing else. Errors, warnings and progress go to stderr as "name: …", one line each.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kolu/internal/fault"
)

// Env is the world a command runs in. Tests make their own; [OS] gives the process's.
type Env struct {
	// Name is the base name that the program was called by.
	Name string
	// Args are the arguments after the name.
	Args    []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string // "K=V"
	// Dir is the working directory; / when that is gone, and then LostDir is what the shell called it.
	Dir     string
	LostDir string
}

// OS is the Env of this process.
func OS() *Env {
	env := &Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}
	var err error
	if env.Dir, err = os.Getwd(); err != nil {
		env.Dir, env.LostDir = "/", cmp.Or(env.Getenv("PWD"), "its name is not known")
	}
	if len(os.Args) > 0 {
		env.Name, env.Args = filepath.Base(os.Args[0]), os.Args[1:]
	}
	return env
}

// Here is the working directory, for a command that makes something there. When it is gone that is an error with what to do.
func (e *Env) Here(remedy string) (string, error) {
	if e.LostDir != "" {
		return "", fmt.Errorf("the current directory is gone (%s) — %s", e.LostDir, remedy)
	}
	return e.Dir, nil
}

// Getenv is the value of a variable, or "" when it is absent.
func (e *Env) Getenv(key string) string {
	v, _ := e.LookupEnv(key)
	return v
}

// LookupEnv is the value of a variable and whether it is there at all. Of several, the last wins.
func (e *Env) LookupEnv(key string) (string, bool) {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(e.Environ[i], key+"="); ok {
			return v, true
		}
	}
	return "", false
}

// Errorf prints one line for the user on stderr: "name: …".
func (e *Env) Errorf(format string, args ...any) {
	fmt.Fprintf(e.Stderr, "%s: %s\n", e.Name, fmt.Sprintf(format, args...))
}

// Exit makes an error that ends the command with code. With a nil err nothing is printed.
func Exit(code int, err error) error { return &exitError{code: code, err: err} }

type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ExitCode is the code the command ends with.
func (e *exitError) ExitCode() int { return e.code }

// ExitCode is the code that an error ends a command with: 0 for nil, what the error says of itself by a method
// ExitCode() int, else 1.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err)
	if _, child := e.(*exec.ExitError); !ok || child { // how ssh ended is not how we end
		return 1
	}
	return e.ExitCode()
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ sig syscall.Signal }

func (i interrupted) Error() string { return i.sig.String() }
func (i interrupted) ExitCode() int { return 128 + int(i.sig) }

var errStdoutClosed = errors.New("stdout is closed")

// Main runs the tree that newRoot makes and gives the exit code. An error is printed once, on stderr. The context of the
// commands ends at SIGINT, SIGTERM or SIGHUP, but for those that this process was started to ignore (a second one ends the process at once) and when whoever reads stdout has
// gone, which is success. A command that only groups others prints its help and exits 1; --help exits 0.
func Main(newRoot func(*Env) *cobra.Command, env *Env) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer watchSignals(cancel)()

	stdout := &stdoutWriter{w: env.Stdout, closed: func() { cancel(errStdoutClosed) }}
	mine := *env
	mine.Stdout = stdout

	root := newRoot(&mine)
	root.SetArgs(append([]string{}, mine.Args...))
	root.SetIn(mine.Stdin)
	root.SetOut(mine.Stdout)
	root.SetErr(mine.Stderr)
	root.SetFlagErrorFunc(flagError)
	prepare(root)

	cmd, err := root.ExecuteContextC(ctx)
	if stdout.isClosed() {
		return 0
	}
	return report(ctx, &mine, err, asksForJSON(cmd))
}

func asksForJSON(cmd *cobra.Command) bool {
	on, err := cmd.Flags().GetBool("json")
	return err == nil && on
}

// report prints why a command failed and gives its exit code. asJSON adds what the sentence says as one line of JSON, for a
// failure that has a code.
func report(ctx context.Context, env *Env, err error, asJSON bool) int {
	if err == nil {
		return 0
	}
	if sig, ok := errors.AsType[interrupted](context.Cause(ctx)); ok && errors.Is(err, context.Canceled) {
		return sig.ExitCode()
	}
	if e, ok := err.(*exitError); !ok || e.err != nil {
		env.Errorf("%s", oneLine(err.Error()))
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && asJSON {
		_ = JSON(env.Stderr, f) // nowhere is left to say that it failed
	}
	return ExitCode(err)
}

// oneLine keeps a sentence on its line; indented lines below it (a list of candidates) stay.
func oneLine(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		indent := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
		lines[i] = strings.Repeat(" ", indent) + Clean(lines[i][indent:])
	}
	return strings.Join(lines, "\n")
}

// prepare makes every command of a tree behave alike.
func prepare(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage, cmd.DisableSuggestions = true, true, true
	if !cmd.Runnable() && cmd.HasSubCommands() {
		cmd.RunE = group
	}
	teach(cmd)
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
}

func group(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	if err := cmd.Help(); err != nil {
		return err
	}
	return Exit(1, nil)
}

func watchSignals(cancel context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) { // by nohup, say
			signal.Notify(signals, sig)
		}
	}
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE) // so that a write to a closed stdout is an error we see, not our end
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(interrupted{sig.(syscall.Signal)})
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(pipe)
		close(done)
		<-ended
	}
}
