package client

import (
	"regexp"
	"strings"

	"kolu/cli"
	"kolu/internal/fault"
	"kolu/internal/shellquote"
)

var sshCommand = regexp.MustCompile("(`|: )ssh ")

// SSHHint is a remedy whose ssh commands read the same configuration as we do: $KOLU_SSH_CONFIG, where that is set.
func SSHHint(env *cli.Env, remedy string) string {
	config := env.Getenv("KOLU_SSH_CONFIG")
	if config == "" || strings.Contains(remedy, "ssh -F ") {
		return remedy
	}
	with := "ssh " + shellquote.Join([]string{"-F", config}) + " "
	return sshCommand.ReplaceAllStringFunc(remedy, func(s string) string { return strings.TrimSuffix(s, "ssh ") + with })
}

// hinted is a fault with its remedy as SSHHint has it; any other error is given back.
func hinted(env *cli.Env, err error) error {
	f, ok := err.(*fault.Error)
	if !ok {
		return err
	}
	mine := *f
	mine.Remedy = SSHHint(env, f.Remedy)
	return &mine
}
