package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"kolu/internal/fault"
)

// tree is a root with a verb that fails as told, one that prints until nobody reads, and a group.
func tree(fail error) func(*Env) *cobra.Command {
	return func(env *Env) *cobra.Command {
		root := &cobra.Command{Use: "tool", Long: "a tool"}
		failing := &cobra.Command{Use: "fail", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return fail }}
		failing.Flags().Int("lines", 0, "")
		failing.Flags().Bool("json", false, "")
		root.AddCommand(failing)
		root.AddCommand(&cobra.Command{Use: "yes", RunE: func(cmd *cobra.Command, _ []string) error {
			for cmd.Context().Err() == nil {
				fmt.Fprintln(env.Stdout, "y")
			}
			return cmd.Context().Err()
		}})
		group := &cobra.Command{Use: "host"}
		group.AddCommand(&cobra.Command{Use: "add <name>", Args: cobra.ExactArgs(1), Run: func(*cobra.Command, []string) {}})
		root.AddCommand(group)
		other := &cobra.Command{Use: "other", Hidden: true}
		other.AddCommand(&cobra.Command{Use: "attach", Run: func(*cobra.Command, []string) {}})
		root.AddCommand(other)
		return root
	}
}

func TestMainEnds(t *testing.T) {
	unresolved := &fault.Error{Code: fault.Unresolved, Host: "box", Detail: "no address", Remedy: "check the name"}
	tests := []struct {
		name   string
		args   string
		fail   error
		code   int
		stderr string // the whole of it; "*" for anything
	}{
		{"success", "fail", nil, 0, ""},
		{"error", "fail", errors.New("no such thing"), 1, "tool: no such thing\n"},
		{"code", "fail", fmt.Errorf("wait: %w", Exit(3, errors.New("gone"))), 3, "tool: wait: gone\n"},
		{"silent code", "fail", Exit(2, nil), 2, ""},
		{"control bytes", "fail", errors.New("a\x1b[31mb\n  c\td"), 1, "tool: a [31mb\n  c d\n"},
		{"unknown flag", "fail --bogus", nil, 1, "tool: unknown flag: --bogus — see tool fail --help\n"},
		{"flag before the verb", "--bogus fail", nil, 1,
			"tool: unknown flag: --bogus — the flags of a command go after its name, see tool --help\n"},
		{"not a number", "fail --lines few", nil, 1,
			"tool: invalid argument \"few\" for \"--lines\" flag: want a whole number — see tool fail --help\n"},
		{"argument too many", "fail now", nil, 1, "tool: unexpected argument \"now\" — usage: tool fail [flags]\n"},
		{"argument missing", "host add", nil, 1, "tool: an argument is missing — usage: tool host add <name> [flags]\n"},
		{"two arguments for one", "host add a b", nil, 1, "tool: unexpected argument \"b\" — usage: tool host add <name> [flags]\n"},
		{"mistyped verb", "fial", nil, 1, "tool: unknown command \"fial\" — did you mean tool fail?\n"},
		{"verb of another tree", "attach", nil, 1, "tool: unknown command \"attach\" — did you mean tool other attach?\n"},
		{"mistyped verb with its flag", "fial --lines 3", nil, 1, "tool: unknown command \"fial\" — did you mean tool fail?\n"},
		{"unknown verb", "bogus", nil, 1, "tool: unknown command \"bogus\" — see tool --help\n"},
		{"unknown verb of a group", "host bogus", nil, 1, "tool: unknown command \"bogus\" — see tool host --help\n"},
		{"code of a host, told", "fail", unresolved, 1, "tool: box: no address — check the name\n"},
		{"code of a host, for scripts", "fail --json", fmt.Errorf("ask: %w", unresolved), 1, "tool: ask: box: no address — check the name\n" +
			`{"code":"unresolved","host":"box","detail":"no address","remedy":"check the name"}` + "\n"},
		{"no code for scripts", "fail --json", errors.New("no such thing"), 1, "tool: no such thing\n"},
		{"bare", "", nil, 1, "*"},
		{"help", "--help", nil, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			env := &Env{Name: "tool", Args: strings.Fields(tt.args), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
			if got := Main(tree(tt.fail), env); got != tt.code {
				t.Errorf("code %d, want %d", got, tt.code)
			}
			if tt.stderr != "*" && errs.String() != tt.stderr {
				t.Errorf("stderr %q, want %q", errs.String(), tt.stderr)
			}
			if tt.args == "--help" != strings.Contains(out.String(), "a tool") {
				t.Errorf("stdout %q", out.String())
			}
			if tt.args == "" && !strings.Contains(errs.String(), "a tool") {
				t.Errorf("no help on stderr: %q", errs.String())
			}
		})
	}
}

// A command that follows, as watch does, ends when its reader has gone: it need not have anything to print.
func TestReaderThatLeavesEndsAWatch(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var errs bytes.Buffer
	env := &Env{Name: "tool", Stdin: strings.NewReader(""), Stdout: w, Stderr: &errs}
	code := Main(func(env *Env) *cobra.Command {
		return &cobra.Command{Use: "tool", RunE: func(cmd *cobra.Command, _ []string) error {
			defer EndUnread(env)()
			r.Close()
			<-cmd.Context().Done()
			return cmd.Context().Err()
		}}
	}, env)
	if code != 0 || errs.Len() > 0 {
		t.Errorf("exit %d, %s", code, &errs)
	}
}

func TestClosedStdoutIsSuccess(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		io.ReadFull(r, make([]byte, 10))
		r.Close()
	}()
	var errs bytes.Buffer
	env := &Env{Name: "tool", Args: []string{"yes"}, Stdin: strings.NewReader(""), Stdout: w, Stderr: &errs}
	if got := Main(tree(nil), env); got != 0 || errs.Len() > 0 {
		t.Errorf("code %d, stderr %q", got, errs.String())
	}
}

func TestSignalEndsTheContext(t *testing.T) {
	var errs bytes.Buffer
	env := &Env{Name: "tool", Stdout: io.Discard, Stderr: &errs}
	root := func(*Env) *cobra.Command {
		return &cobra.Command{Use: "tool", RunE: func(cmd *cobra.Command, _ []string) error {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			<-cmd.Context().Done()
			return cmd.Context().Err()
		}}
	}
	if got := Main(root, env); got != 143 || errs.Len() > 0 {
		t.Errorf("code %d, stderr %q", got, errs.String())
	}
}

func TestLookupEnv(t *testing.T) {
	env := &Env{Environ: []string{"A=1", "EMPTY=", "A=2", "AB=3"}}
	if got := env.Getenv("A"); got != "2" {
		t.Errorf("got %q", got)
	}
	if _, ok := env.LookupEnv("EMPTY"); !ok {
		t.Error("an empty variable is absent")
	}
	if _, ok := env.LookupEnv("NONE"); ok {
		t.Error("an absent variable is there")
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, [][]string{{"ID", "NAME", "X"}, {"1", "grün\x1b\n", ""}, {"22", "a"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "ID  NAME    X\n1   grün\n22  a\n"; got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 2900 * time.Millisecond: "2s", 119 * time.Second: "1m", 5*time.Hour + time.Minute: "5h", 73 * time.Hour: "3d",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// A working directory that was removed is known by the name that the shell has for it.
func TestWorkingDirectoryIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "doomed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if here, err := OS().Here("cd"); err != nil || filepath.Base(here) != "doomed" {
		t.Errorf("there: %q, %v", here, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := OS().Here("cd somewhere"); err == nil || err.Error() != "the current directory is gone ("+dir+") — cd somewhere" {
		t.Errorf("gone: %v", err)
	}
}
