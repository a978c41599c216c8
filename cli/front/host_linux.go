package front

import (
	"os"
	"strings"
)

func hostIDs() (machine, boot string) {
	id, _ := os.ReadFile("/etc/machine-id") // absent in many containers: then there is no id
	now, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), strings.TrimSpace(string(now))
}
