package front

import (
	"os"
	"path/filepath"
	"strings"
)

func hostIDs() (machine, boot string) {
	id, _ := os.ReadFile("/etc/machine-id") // absent in many containers: then there is no id
	now, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), strings.TrimSpace(string(now))
}

// warnings are what the user of this host should know about how long a daemon lives here.
func warnings() []string {
	cgroup, _ := os.ReadFile("/proc/self/cgroup")
	if strings.Contains(string(cgroup), "/session-") && killsUserProcesses("/etc/systemd") {
		return []string{"logind ends everything at logout (KillUserProcesses=yes): `loginctl enable-linger` keeps terminals"}
	}
	return nil
}

// killsUserProcesses reads the setting from logind's configuration; the last file that sets it wins.
func killsUserProcesses(etc string) bool {
	files, _ := filepath.Glob(filepath.Join(etc, "logind.conf.d", "*.conf"))
	kills := false
	for _, file := range append([]string{filepath.Join(etc, "logind.conf")}, files...) {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "KillUserProcesses="); ok {
				kills = v == "yes" || v == "true" || v == "1" || v == "on"
			}
		}
	}
	return kills
}
