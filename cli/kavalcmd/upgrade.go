package kavalcmd

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/front"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/kaval/ptyhost"
	"kolu/internal/version"
)

// handoffFlags are how a kaval starts the build that takes its place; the flags' names are fixed in package daemon.
type handoffFlags struct{ check, take int }

func (f *handoffFlags) bind(cmd *cobra.Command) {
	for name, fd := range map[string]*int{"check-handoff": &f.check, "handoff": &f.take} {
		cmd.Flags().IntVar(fd, name, -1, "")
		if err := cmd.Flags().MarkHidden(name); err != nil {
			panic(err) // the flag was made the line before
		}
	}
}

// checkHandoff reads the state that a running kaval would leave, and says that it could. It changes nothing.
func checkHandoff(env *cli.Env, fd int) error {
	h, err := daemon.OpenHandoff(fd)
	if err != nil {
		return err
	}
	defer h.Close()
	if _, err := ptyhost.ReadState(h); err != nil {
		return err
	}
	return daemon.Approve(env.Stdout, daemon.Kaval, kaval.Contract, version.BuildID())
}

// legacy is what a kaval before this one left in this process.
type legacy struct {
	handoff *daemon.Handoff
	state   *ptyhost.State
	last    lastWords
}

// lastWords go along with the state.
type lastWords struct {
	Late   map[kaval.TerminalID][]byte `json:"late,omitempty"`
	Memory *kavalrpc.Memory            `json:"memory"`
}

func takeOver(fd int) (*legacy, error) {
	h, err := daemon.OpenHandoff(fd)
	if err != nil {
		return nil, err
	}
	l := &legacy{handoff: h, last: lastWords{Memory: kavalrpc.NewMemory()}}
	if l.state, err = ptyhost.ReadState(h); err != nil {
		return nil, err
	}
	if err := h.Last(&l.last); err != nil {
		return nil, err
	}
	return l, nil
}

// upgrade is how this kaval lets another build take its place. host gives the one that is to rest.
func (o *options) upgrade(host func() *ptyhost.Host, memory *kavalrpc.Memory) *daemon.Upgrade {
	return &daemon.Upgrade{
		Freeze: func(ctx context.Context) (daemon.Frozen, error) {
			f, err := host().Freeze(ctx)
			if err != nil {
				return nil, fmt.Errorf("bring the terminals to rest: %w", err)
			}
			return atRest{f, memory}, nil
		},
		Args: o.successorArgs(),
		Code: kaval.Code,
	}
}

type atRest struct {
	*ptyhost.Frozen
	memory *kavalrpc.Memory
}

func (r atRest) Leave(ctx context.Context) (any, error) {
	late, err := r.Frozen.Leave(ctx)
	return lastWords{late, r.memory}, err
}

// successorArgs are the flags for another build of the same daemon. Where the tools are those of this build, the other one brings
// its own.
func (o *options) successorArgs() []string {
	p := *o
	if exe, err := front.Executable(); err == nil && p.tools != "" {
		if real, err := filepath.EvalSymlinks(p.tools); err == nil && real == filepath.Dir(exe) {
			p.tools = ""
		}
	}
	var args []string
	for _, f := range []struct{ flag, value string }{
		{"--socket", p.socket}, {"--state-root", p.stateRoot}, {"--tools", p.tools}, {"--padi-socket", p.padiSocket},
	} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	return args
}
