package ptyhost

import (
	"bufio"
	"cmp"
	"os"
	"strconv"
	"strings"
)

// account is the user whose terminals these are.
type account struct{ name, home, shell string }

// whoami reads the user database's entry for this user; what that lacks comes from the environment, and the shell is /bin/sh
// where neither names one that is there.
func whoami(environ []string) account {
	env := func(key string) string {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, key+"="); ok {
				return v
			}
		}
		return ""
	}
	a := passwd("/etc/passwd", os.Getuid())
	a.name = cmp.Or(a.name, env("USER"), env("LOGNAME"))
	a.home = cmp.Or(env("HOME"), a.home, "/")
	for _, shell := range []string{a.shell, env("SHELL"), "/bin/sh"} {
		if info, err := os.Stat(shell); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			a.shell = shell
			return a
		}
	}
	a.shell = "/bin/sh"
	return a
}

func passwd(file string, uid int) account {
	f, err := os.Open(file)
	if err != nil {
		return account{}
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		col := strings.Split(lines.Text(), ":")
		if len(col) >= 7 && col[2] == strconv.Itoa(uid) {
			return account{name: col[0], home: col[5], shell: col[6]}
		}
	}
	return account{}
}
