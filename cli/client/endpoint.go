// Package client turns flags and environment into a connected daemon: [Padi] and [Kaval] find it on this machine, start it
// where that is wanted, or reach it on another one, and check that both sides speak the same contract. The command trees call
// it; it parses no command line and does none of a daemon's work. Start reading at [Endpoint].
package client

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kolu/fleet/inventory"
)

// Endpoint says which daemon is meant. The zero Endpoint is the one that the environment names, else the primary of those
// that run.
type Endpoint struct {
	Socket    string // a socket on this machine
	StateRoot string // the folder that a padi on this machine is keyed to
	Host      string // a name of the list of hosts, else whatever ssh takes
	SSH       string // how Host is reached: auto, master or native; empty is auto
	// Target is what ssh is given for Host; empty means that the list of hosts is asked.
	Target string
	// Steps is told how far reaching a host is; nil tells nobody.
	Steps *Steps
}

// Steps hears how far reaching a host is. Step is called with the name of each stage and at each sign of life.
type Steps struct{ Step func(stage string) }

// Value is the value of one endpoint flag. It has the methods of a flag of both the standard library and pflag.
type Value struct {
	text  string
	words []string // of a flag that was given several times
	given bool
	kind  string
}

// String is what was given last.
func (v *Value) String() string { return v.text }

// Set takes what the user gave.
func (v *Value) Set(s string) error {
	if v.kind == "bool" {
		on, err := strconv.ParseBool(s)
		v.text, v.given = strconv.FormatBool(on), on
		return err
	}
	v.text, v.given = s, true
	v.words = append(v.words, s)
	return nil
}

// Type names the value in help.
func (v *Value) Type() string { return cmp.Or(v.kind, "string") }

// Flags are the endpoint flags of a command tree, before they were checked.
type Flags struct {
	socket, stateRoot, host, ssh Value
	group, all, silence          Value
}

// A Flag is one flag to bind. Bare is its value where it is given without one; empty means that it needs one.
type Flag struct {
	Name, Usage string
	Value       *Value
	Bare        string
}

// Padi are the flags of a tree that speaks to padis.
func (f *Flags) Padi() []Flag {
	f.all.kind = "bool"
	return []Flag{
		{Name: "socket", Usage: "speak to the daemon at this `path`", Value: &f.socket},
		{Name: "state-root", Usage: "speak to the padi that is keyed to this `folder`", Value: &f.stateRoot},
		{Name: "host", Usage: "speak to the daemon on this `host`, a name of the list or what ssh takes; it is provisioned if need be. " +
			"Verbs that read take several, with commas or by repeating", Value: &f.host},
		{Name: "group", Usage: "the listed hosts of this `group`; may be repeated", Value: &f.group},
		{Name: "all", Usage: "all listed hosts", Value: &f.all, Bare: "true"},
		{Name: "timeout-host", Usage: "of several hosts, give up on one that is silent for so many `ms` (30000)", Value: &f.silence},
		{Name: "ssh", Usage: "the `way` to reach a host: auto, master or native", Value: &f.ssh},
	}
}

// Kaval are the flags of a tree that speaks to kavals, which takes one host.
func (f *Flags) Kaval() []Flag {
	return []Flag{
		{Name: "socket", Usage: "speak to the daemon at this `path`", Value: &f.socket},
		{Name: "host", Usage: "speak to the daemon on this `host`, a name of the list or what ssh takes; it is provisioned if need be", Value: &f.host},
		{Name: "ssh", Usage: "the `way` to reach the host: auto, master or native", Value: &f.ssh},
	}
}

var errBlank = errors.New("is blank: an unset variable? Leave the flag out or give a value")

// Endpoint checks the flags: blank values first, then those that exclude each other. Relative paths are taken from dir. Several
// hosts are refused.
func (f *Flags) Endpoint(dir string) (Endpoint, error) {
	if err := f.check(f.host.given); err != nil {
		return Endpoint{}, err
	}
	if f.Several() {
		return Endpoint{}, fmt.Errorf("this takes one host; %s may mean several — name one with --host, or write host/id", f.named())
	}
	socket := absolute(dir, f.socket.text)
	if err := fits(socket); err != nil {
		return Endpoint{}, fmt.Errorf("--socket %s: %w", socket, err)
	}
	return Endpoint{
		Socket: socket, StateRoot: absolute(dir, f.stateRoot.text),
		Host: f.oneHost(), SSH: f.ssh.text,
	}, nil
}

// oneHost is the host that the flags name, where they can name but one.
func (f *Flags) oneHost() string {
	if names := f.selection().Names(); len(names) > 0 {
		return names[0]
	}
	return ""
}

// At gives the endpoint and the id of a terminal, which may be written host/id.
func (f *Flags) At(dir, word string) (ep Endpoint, id string, err error) {
	host, id, ok := inventory.SplitID(word)
	if !ok {
		ep, err = f.Endpoint(dir)
		return ep, word, err
	}
	if err := f.check(true); err != nil {
		return Endpoint{}, "", err
	}
	switch {
	case strings.TrimSpace(host) == "" || id == "":
		return Endpoint{}, "", fmt.Errorf("%q: a terminal on a host is written host/id", word)
	case f.socket.given || f.stateRoot.given:
		return Endpoint{}, "", fmt.Errorf("%s names a host; --socket and --state-root are for this machine", word)
	case f.Several() || (f.host.given && f.oneHost() != host):
		return Endpoint{}, "", fmt.Errorf("%s is on %s, which is not what %s says", word, host, f.named())
	}
	if err := checkHost(host); err != nil {
		return Endpoint{}, "", err
	}
	return Endpoint{Host: host, SSH: f.ssh.text}, id, nil
}

// named are the flags that name hosts, as they were given.
func (f *Flags) named() string {
	var words []string
	if f.host.given {
		words = append(words, "--host "+strings.Join(f.host.words, ","))
	}
	if f.group.given {
		words = append(words, "--group "+strings.Join(f.group.words, ","))
	}
	if f.all.given {
		words = append(words, "--all")
	}
	return strings.Join(words, " ")
}

// check finds what is wrong with the flags together; hosts reports that a host is meant.
func (f *Flags) check(hosts bool) error {
	hosts = hosts || f.group.given || f.all.given
	for _, flag := range f.Padi() {
		for _, word := range flag.Value.words {
			if strings.TrimSpace(word) == "" {
				return fmt.Errorf("--%s %w", flag.Name, errBlank)
			}
		}
	}
	for _, flag := range []struct {
		name string
		v    *Value
	}{{"host", &f.host}, {"group", &f.group}, {"all", &f.all}} {
		switch {
		case flag.v.given && f.socket.given:
			return fmt.Errorf("--%s and --socket exclude each other", flag.name)
		case flag.v.given && f.stateRoot.given:
			return fmt.Errorf("--%s and --state-root exclude each other", flag.name)
		}
	}
	switch {
	case f.socket.given && f.stateRoot.given:
		return errors.New("--socket and --state-root exclude each other")
	case f.ssh.given && !hosts:
		return errors.New("--ssh is only for --host")
	case f.ssh.given && !slices.Contains([]string{"auto", "master", "native"}, f.ssh.text):
		return fmt.Errorf("--ssh %q: use auto, master or native", f.ssh.text)
	}
	for _, host := range f.host.words {
		if err := checkHost(host); err != nil {
			return err
		}
	}
	_, err := f.patience()
	return err
}

func checkHost(host string) error {
	if strings.HasPrefix(host, "-") {
		return fmt.Errorf("--host %q: a host does not begin with a dash", host)
	}
	return nil
}

// fits reports a path that no socket can have on every system we run on.
func fits(path string) error {
	const most = 103
	if len(path) > most {
		return fmt.Errorf("the path is too long for a socket (%d bytes; at most %d)", len(path), most)
	}
	return nil
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
