// Package client turns flags and environment into a connected daemon: [Padi] and [Kaval] find it on this machine, start it
// where that is wanted, or reach it on another one, and check that both sides speak the same contract. The command trees call
// it; it parses no command line and does none of a daemon's work. Start reading at [Endpoint].
package client

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Endpoint says which daemon is meant. The zero Endpoint is the one that the environment names, else the primary of those
// that run.
type Endpoint struct {
	Socket    string // a socket on this machine
	StateRoot string // the folder that a padi on this machine is keyed to
	Host      string // whatever ssh takes
	SSH       string // how Host is reached: auto, master or native; empty is auto
}

// Value is the value of one endpoint flag. It has the methods of a flag of both the standard library and pflag.
type Value struct {
	text  string
	given bool
}

// String is what was given.
func (v *Value) String() string { return v.text }

// Set takes what the user gave.
func (v *Value) Set(s string) error {
	v.text, v.given = s, true
	return nil
}

// Type names the value in help.
func (v *Value) Type() string { return "string" }

// Flags are the endpoint flags of a command tree, before they were checked.
type Flags struct {
	socket, stateRoot, host, ssh Value
}

// A Flag is one flag to bind.
type Flag struct {
	Name, Usage string
	Value       *Value
}

// Padi are the flags of a tree that speaks to padis.
func (f *Flags) Padi() []Flag {
	return []Flag{
		{"socket", "speak to the daemon at this `path`", &f.socket},
		{"state-root", "speak to the padi that is keyed to this `folder`", &f.stateRoot},
		{"host", "speak to the daemon on this ssh `host`; it is provisioned if need be", &f.host},
		{"ssh", "how to reach the host: auto, master or native", &f.ssh},
	}
}

// Kaval are the flags of a tree that speaks to kavals.
func (f *Flags) Kaval() []Flag {
	return slices.DeleteFunc(f.Padi(), func(flag Flag) bool { return flag.Name == "state-root" })
}

var errBlank = errors.New("is blank: an unset variable? Leave the flag out or give a value")

// Endpoint checks the flags: blank values first, then those that exclude each other. Relative paths are taken from dir.
func (f *Flags) Endpoint(dir string) (Endpoint, error) {
	for _, flag := range f.Padi() {
		if flag.Value.given && strings.TrimSpace(flag.Value.text) == "" {
			return Endpoint{}, fmt.Errorf("--%s %w", flag.Name, errBlank)
		}
	}
	switch {
	case f.host.given && f.socket.given:
		return Endpoint{}, errors.New("--host and --socket exclude each other")
	case f.host.given && f.stateRoot.given:
		return Endpoint{}, errors.New("--host and --state-root exclude each other")
	case f.socket.given && f.stateRoot.given:
		return Endpoint{}, errors.New("--socket and --state-root exclude each other")
	case f.ssh.given && !f.host.given:
		return Endpoint{}, errors.New("--ssh is only for --host")
	case f.ssh.given && !slices.Contains([]string{"auto", "master", "native"}, f.ssh.text):
		return Endpoint{}, fmt.Errorf("--ssh %q: use auto, master or native", f.ssh.text)
	case strings.HasPrefix(f.host.text, "-"):
		return Endpoint{}, fmt.Errorf("--host %q: a host does not begin with a dash", f.host.text)
	}
	return Endpoint{
		Socket: absolute(dir, f.socket.text), StateRoot: absolute(dir, f.stateRoot.text),
		Host: f.host.text, SSH: f.ssh.text,
	}, nil
}

func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Args are the flags that name this endpoint again, to be put into a hint. The caller quotes them.
func (e Endpoint) Args() []string {
	var args []string
	for _, f := range []struct{ name, value string }{
		{"--socket", e.Socket}, {"--state-root", e.StateRoot}, {"--host", e.Host}, {"--ssh", e.SSH},
	} {
		if f.value != "" {
			args = append(args, f.name, f.value)
		}
	}
	return args
}

// Remote reports whether the daemon is on another machine.
func (e Endpoint) Remote() bool { return e.Host != "" }
