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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, err
	}
	// The name, in parentheses, may hold anything; field 22 counts from behind its end.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return time.Time{}, fmt.Errorf("read start of process %d: short stat line", pid)
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	boot, err := bootTime()
	return boot.Add(time.Duration(ticks) * clockTick), err
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
