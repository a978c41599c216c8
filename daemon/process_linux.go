package daemon

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc/<pid>/stat; it is 100 Hz for every program on every architecture.
const clockTick = 10 * time.Millisecond

// processStart is when a process began.
func processStart(pid int) (time.Time, error) {
	fields, err := statFields(pid)
	if err != nil {
		return time.Time{}, err
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	boot, err := bootTime()
	return boot.Add(time.Duration(ticks) * clockTick), err
}

// processMark tells a process from every other of this machine that has had or will have its pid, whatever is done to the clock: the
// ticks from the boot to its start, and which boot.
func processMark(pid int) string {
	fields, err := statFields(pid)
	boot := bootID()
	if err != nil || boot == "" {
		return ""
	}
	return fields[19] + "@" + boot
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// machineName names this boot of this machine, and the pids that are seen from here.
func machineName() string {
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return bootID()
	}
	return bootID() + " " + pids
}

func zombie(pid int) bool {
	fields, err := statFields(pid)
	return err == nil && (fields[0] == "Z" || fields[0] == "X")
}

// statFields are those of /proc/<pid>/stat from the third, the state, on; at least up to the start, the 22nd.
func statFields(pid int) ([]string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name, in parentheses, may hold anything; the fields count from behind its end.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("read state of process %d: short stat line", pid)
	}
	return fields, nil
}

func bootTime() (time.Time, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(stat)) {
		if rest, ok := strings.CutPrefix(line, "btime "); ok {
			sec, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return time.Unix(sec, 0), err
		}
	}
	return time.Time{}, fmt.Errorf("read boot time: no btime in /proc/stat")
}
