package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// machine is what decides how long a process of this user lives: systemd, logind and their settings. Tests have machines of
// their own.
type machine struct {
	files fs.FS // from the root of the file system
	user  string
	uid   int
}

func thisMachine() machine {
	m := machine{files: os.DirFS("/"), uid: os.Getuid()}
	if me, err := user.Current(); err == nil {
		m.user = filepath.Base(me.Username)
	}
	return m
}

// lingers reports whether the user's manager and /run/user/<uid> stay when the last session of the user ends.
func (m machine) lingers() bool {
	return m.user != "" && m.has(path.Join("var/lib/systemd/linger", m.user))
}

// systemd reports whether systemd runs this machine.
func (m machine) systemd() bool { return m.has("run/systemd/system") }

func (m machine) has(name string) bool {
	_, err := fs.Stat(m.files, name)
	return err == nil
}

// place is which part of systemd's tree a process is in, by what ends it.
type place int

const (
	elsewherePlace place = iota // a system service, a container, no systemd at all
	sessionPlace                // the scope of one login, which may be killed when that ends
	managerPlace                // below the user's manager, which ends with the last session unless the user lingers
)

var sessionScope = regexp.MustCompile(`/session-[^/]+\.scope(/|$)`)

// placeOf looks at /proc/<pid>/cgroup; pid may be "self".
func (m machine) placeOf(pid string) place {
	text, err := fs.ReadFile(m.files, path.Join("proc", pid, "cgroup"))
	if err != nil {
		return elsewherePlace
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 || (fields[1] != "" && fields[1] != "name=systemd") {
			continue
		}
		switch {
		case strings.Contains(fields[2], fmt.Sprintf("/user@%d.service/", m.uid)):
			return managerPlace
		case sessionScope.MatchString(fields[2]):
			return sessionPlace
		}
	}
	return elsewherePlace
}

// killsProcesses reports whether logind ends what a session leaves behind. Its files are asked in the order in which they override
// each other; the commented line of logind.conf states what was compiled in. loginctl is asked when no file says it.
func (m machine) killsProcesses(getenv Getenv) bool {
	kills := m.logindSetting("KillUserProcesses")
	if kills == "" {
		kills = askLogind(getenv, "KillUserProcesses")
	}
	if !slices.Contains([]string{"yes", "true", "1", "on", "y", "t"}, strings.ToLower(kills)) {
		return false
	}
	excluded := m.logindSetting("KillExcludeUsers")
	if excluded == "" {
		excluded = "root"
	}
	only := strings.Fields(m.logindSetting("KillOnlyUsers"))
	return !slices.Contains(strings.Fields(excluded), m.user) && (len(only) == 0 || slices.Contains(only, m.user))
}

func (m machine) logindSetting(key string) string {
	var files []string
	for _, dir := range []string{"usr/lib/systemd", "etc/systemd"} {
		files = append(files, dir+"/logind.conf")
	}
	var dropIns []string
	for _, dir := range []string{"usr/lib/systemd", "run/systemd", "etc/systemd"} {
		found, err := fs.Glob(m.files, dir+"/logind.conf.d/*.conf")
		if err == nil {
			dropIns = append(dropIns, found...)
		}
	}
	slices.SortStableFunc(dropIns, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	compiled, set := "", ""
	for _, file := range append(files, dropIns...) {
		text, err := fs.ReadFile(m.files, file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if v, ok := strings.CutPrefix(line, "#"+key+"="); ok && compiled == "" {
				compiled = v
			}
			if v, ok := strings.CutPrefix(line, key+"="); ok {
				set = v
			}
		}
	}
	if set != "" {
		return set
	}
	return compiled
}

const loginctlTimeout = time.Second

// askLogind asks the running logind for one of its settings; "" when it does not say.
func askLogind(getenv Getenv, key string) string {
	loginctl, ok := lookPath("loginctl", getenv("PATH"))
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), loginctlTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, loginctl, "show-session", "--property="+key)
	cmd.WaitDelay = loginctlTimeout
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	value, _ := strings.CutPrefix(strings.TrimSpace(string(out)), key+"=")
	return value
}

// lookPath finds a program in a PATH that need not be that of this process.
func lookPath(name, searched string) (string, bool) {
	for _, dir := range append(filepath.SplitList(searched), "/usr/bin", "/bin", "/run/current-system/sw/bin") {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, true
		}
	}
	return "", false
}

// ownScope reports whether a daemon that is started from here should get a scope of its own below the user's manager: where that can
// be reached, and it outlives what would end the daemon here.
func (m machine) ownScope(getenv Getenv) bool {
	if !m.systemd() || !managerReachable(getenv) {
		return false
	}
	switch m.placeOf("self") {
	case managerPlace:
		return true // a service or an application of the user, which ends what it has started
	case sessionPlace:
		return m.lingers() || m.killsProcesses(getenv)
	}
	return m.lingers()
}

// managerReachable reports whether the user's manager listens where systemd-run looks for it.
func managerReachable(getenv Getenv) bool {
	dir := getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		return false
	}
	info, err := os.Stat(filepath.Join(dir, "systemd/private"))
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// Outlook says what the user should know about how long a daemon that runs on this machine lives; empty when nothing but a
// reboot ends it. It is asked about the daemon's own process, since that may have been started in another way than
// one would be started now.
func Outlook(pid int, getenv Getenv) []string { return thisMachine().outlook(pid, getenv) }

func (m machine) outlook(pid int, getenv Getenv) []string {
	if !m.systemd() {
		return nil
	}
	switch m.placeOf(fmt.Sprint(pid)) {
	case managerPlace:
		if !m.lingers() {
			return []string{"terminals here end at the last logout — `loginctl enable-linger` keeps them"}
		}
	case sessionPlace:
		if !m.killsProcesses(getenv) {
			return nil
		}
		if m.lingers() {
			return []string{"terminals here end with the login that started the daemon (KillUserProcesses=yes) — start it anew to keep the next ones"}
		}
		return []string{"terminals here end at logout (KillUserProcesses=yes) — `loginctl enable-linger` keeps those of a daemon started after it"}
	}
	return nil
}
