package kaval

import (
	"path/filepath"
	"slices"
	"strings"
)

// passed are the variables that a terminal may take from the environment of whoever spawns it. Everything else stays out: an
// agent started from another agent's terminal must not believe that it is nested, and no secret travels by accident.
var passed = map[string]envClass{
	"HOME": functional, "USER": functional, "LOGNAME": functional, "PATH": functional, "SHELL": functional,

	"TERM": presentation, "COLORTERM": presentation, "LANG": presentation, "LANGUAGE": presentation,
	"LC_ALL": presentation, "LC_CTYPE": presentation, "LC_MESSAGES": presentation, "LC_TIME": presentation,
	"LC_NUMERIC": presentation, "LC_COLLATE": presentation, "LC_MONETARY": presentation,

	"XDG_RUNTIME_DIR": operational, "XDG_CONFIG_HOME": operational, "XDG_DATA_HOME": operational,
	"XDG_CACHE_HOME": operational, "XDG_STATE_HOME": operational, "SSH_AUTH_SOCK": operational, "DISPLAY": operational,
	"WAYLAND_DISPLAY": operational, "XAUTHORITY": operational, "DBUS_SESSION_BUS_ADDRESS": operational, "TMPDIR": operational,

	// Where the daemons of a private fleet are: a tool in its terminals that did not know would start a second one for the same
	// state root.
	"KOLU_RUNTIME_DIR": operational,
}

type envClass int

const (
	functional envClass = iota + 1
	presentation
	operational
)

// BasePath is the PATH of a terminal where nothing else says one.
const BasePath = "/run/current-system/sw/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// CleanEnv composes a terminal's environment from an environ ("K=V" strings): the allowlist, with empty entries taken
// out of PATH (an empty entry means the current directory) and BasePath where none is left.
func CleanEnv(environ []string) map[string]string {
	return pick(environ, functional, presentation, operational)
}

// PresentationEnv is the part of an environ that describes the user's screen and language, which alone makes sense on
// another machine.
func PresentationEnv(environ []string) map[string]string { return pick(environ, presentation) }

func pick(environ []string, classes ...envClass) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		k, v, ok := strings.Cut(kv, "=")
		if ok && slices.Contains(classes, passed[k]) {
			env[k] = v
		}
	}
	if slices.Contains(classes, functional) {
		env["PATH"] = cleanPath(env["PATH"])
	}
	return env
}

func cleanPath(path string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(d string) bool { return d == "" })
	if len(dirs) == 0 {
		return BasePath
	}
	return strings.Join(dirs, ":")
}

// PrependPath puts dir in front of path, wherever else it stood, and drops empty entries.
func PrependPath(dir, path string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(d string) bool { return d == "" || d == dir })
	if dir != "" {
		dirs = append([]string{dir}, dirs...)
	}
	return strings.Join(dirs, ":")
}
