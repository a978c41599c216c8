package kavaltui

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/drive"
	"kolu/daemon/kaval"
)

type createOptions struct {
	env    []string
	asJSON bool
	argv   []string
}

func newCreate(t *tree) *cobra.Command {
	var opts createOptions
	cmd := &cobra.Command{
		Use:   "create [flags] [-- command [argument…]]",
		Short: "Start a program on a new terminal; without one, your shell",
		Long: `Start a program on a new terminal; without one, your shell. The program gets a fresh environment of the usual variables
(HOME, PATH, TERM, LANG …), not a copy of the caller's, and what --env adds.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.argv = args
			return runCreate(cmd.Context(), t, opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringArrayVar(&opts.env, "env", nil, "set a variable, `K=V`; may be repeated")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print {id, pid, cwd} as JSON")
	return cmd
}

func runCreate(ctx context.Context, t *tree, opts createOptions) error {
	extra, err := parseEnv(opts.env)
	if err != nil {
		return err
	}
	ep, err := t.endpoint()
	if err != nil {
		return err
	}
	if _, err := t.env.Here("cd somewhere"); err != nil && !ep.Remote() {
		return err
	}
	return t.at(ctx, ep, true, func(c *client.KavalClient) error {
		req, home, err := spawnRequest(ctx, t.env, c, ep)
		if err != nil {
			return err
		}
		maps.Copy(req.Env, extra)
		if len(opts.argv) > 0 {
			req.Argv, req.CommandRooted = opts.argv, true
		}
		term, err := c.Spawn(ctx, req)
		if err != nil {
			return err
		}
		return t.printCreated(term, program(req, term), home, ep, opts.asJSON)
	})
}

var stamped = []string{"KAVAL_SOCKET", "KAVAL_TERMINAL_ID", "PADI_SOCKET"}

func parseEnv(pairs []string) (map[string]string, error) {
	env := map[string]string{}
	for _, kv := range pairs {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--env expects K=V, got %q", kv)
		}
		if slices.Contains(stamped, k) {
			return nil, fmt.Errorf("--env %s: the daemon sets it for every terminal", k)
		}
		env[k] = v
	}
	return env, nil
}

// spawnRequest is the request for a shell: on this machine in the caller's directory and from the caller's environment, on
// another one in the home directory with what that machine says of itself and the caller's screen and language.
func spawnRequest(ctx context.Context, env *cli.Env, c *client.KavalClient, ep client.Endpoint) (kaval.SpawnRequest, string, error) {
	if !ep.Remote() {
		req := kaval.SpawnRequest{CWD: env.Dir, Env: kaval.CleanEnv(env.Environ)}
		if shell := env.Getenv("SHELL"); shell != "" {
			req.Argv = []string{shell}
		}
		return req, env.Getenv("HOME"), nil
	}
	info, err := c.Info(ctx)
	if err != nil {
		return kaval.SpawnRequest{}, "", err
	}
	vars := kaval.PresentationEnv(env.Environ)
	vars["HOME"], vars["SHELL"], vars["PATH"] = info.Home, orElse(info.Shell, "/bin/sh"), orElse(info.Path, kaval.BasePath)
	if info.User != "" {
		vars["USER"], vars["LOGNAME"] = info.User, info.User
	}
	return kaval.SpawnRequest{CWD: info.Home, Env: vars, Argv: []string{vars["SHELL"]}}, info.Home, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func program(req kaval.SpawnRequest, term kaval.Terminal) string {
	if len(req.Argv) > 0 {
		return path.Base(drive.Clean(req.Argv[0]))
	}
	return drive.Base(term.ForegroundProcess)
}

type created struct {
	ID  kaval.TerminalID `json:"id"`
	PID int              `json:"pid"`
	CWD string           `json:"cwd"`
}

func (t *tree) printCreated(term kaval.Terminal, program, home string, ep client.Endpoint, asJSON bool) error {
	if asJSON {
		return drive.WriteJSON(t.env.Stdout, created{term.ID, term.PID, term.CWD})
	}
	short := term.ID.Short()
	_, err := fmt.Fprintf(t.env.Stdout, "spawned %s · %s · %s (pid %d)\n",
		short, program, drive.Clean(drive.Tilde(term.CWD, home)), term.PID)
	t.note("attach with `%s`", t.hint(ep, "attach", short))
	return err
}
