package kolucmd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/fleet/doctor"
	"kolu/fleet/inventory"
)

func newHostDoctor(env *cli.Env) *cobra.Command {
	asJSON, way := false, ""
	cmd := &cobra.Command{
		Use:   "doctor HOST",
		Short: "Look at a host step by step, and say what would keep kolu from working there",
		Long: `Look at a host step by step: the ssh configuration, the connection, the login shell, what the system is, where a build may
stand, Nix, the build that this client would use, how long daemons live there, those that run, and the clock. Each step is ok, warn
or FAIL, with how long it took and what helps. Nothing is placed, started or changed on the host.

The exit code is 1 when a step failed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := hostOptions(env, cmd, args[0], way)
			if err != nil {
				return err
			}
			target, err := sshTarget(env, args[0])
			if err != nil {
				return err
			}
			p := &stepPrinter{env: env, w: env.Stdout}
			if !asJSON {
				o.Told = p.step
			}
			r := doctor.Examine(cmd.Context(), target, o)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if asJSON {
				for i := range r.Steps {
					r.Steps[i].Remedy = client.SSHHint(env, r.Steps[i].Remedy)
				}
				p.err = cli.JSON(env.Stdout, r)
			}
			if p.err == nil && r.Failed() {
				return cli.Exit(1, nil)
			}
			return p.err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	sshFlag(cmd, &way)
	return cmd
}

// hostOptions looks a host up in the user's list, and checks which way it is to be reached; other flags of reaching one are refused.
func hostOptions(env *cli.Env, cmd *cobra.Command, host, way string) (doctor.Options, error) {
	for _, name := range endpointFlags {
		if f := cmd.InheritedFlags().Lookup(name); f != nil && f.Changed {
			return doctor.Options{}, fmt.Errorf("--%s is not for this verb: the host is its argument", name)
		}
	}
	list, err := inventory.Load(env.Getenv)
	if err != nil {
		return doctor.Options{}, err
	}
	h, err := list.Resolve(host)
	if err != nil {
		return doctor.Options{}, err
	}
	o := doctor.Options{Env: env.Environ, Target: h.SSH, Transport: way}
	switch o.Transport {
	case "", "auto", "master", "native":
		return o, nil
	}
	return o, fmt.Errorf("--ssh %q: use auto, master or native", o.Transport)
}

// stepPrinter prints steps as they come, in columns that do not depend on those to come.
type stepPrinter struct {
	env *cli.Env
	w   io.Writer
	err error
}

func (p *stepPrinter) step(s doctor.Step) {
	took := ""
	if s.MS > 0 {
		took = fmt.Sprintf("%d ms", s.MS)
	}
	status := string(s.Status)
	if s.Status == doctor.Fail {
		status = "FAIL"
	}
	line := fmt.Sprintf("%-9s%-5s%8s  %s\n", s.Name, status, took, cli.Clean(s.Detail))
	if s.Remedy != "" {
		line += strings.Repeat(" ", 24) + "— " + cli.Clean(client.SSHHint(p.env, s.Remedy)) + "\n"
	}
	_, err := io.WriteString(p.w, line)
	p.err = errors.Join(p.err, err)
}
