package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Started is the start of a process in the system's own count, "" where it is not known.
func Started(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const startTime = 22 - 3 // the fields after the name begin with the third
	if !ok || len(fields) <= startTime {
		return ""
	}
	return fields[startTime]
}

// Group are the process that leads a group and those below it that are still in it. known is false where the system does not tell.
func Group(leader int) (pids []int, known bool) {
	pids = []int{leader}
	for i := 0; i < len(pids) && len(pids) < 64; i++ {
		children, err := Children(pids[i])
		if err != nil {
			return pids, i > 0
		}
		for _, c := range children {
			if InGroup(c, leader) {
				pids = append(pids, c)
			}
		}
	}
	return pids, true
}

// Children are the processes that a process has started and that run.
func Children(pid int) ([]int, error) {
	tasks, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, task := range tasks {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", task.Name(), "children"))
		if err != nil {
			continue // the thread has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				out = append(out, child)
			}
		}
	}
	return out, nil
}

// Open are the files that a process holds open. known is false where the system does not tell.
func Open(pid int) (paths []string, known bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false
	}
	for _, e := range entries {
		if p, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && filepath.IsAbs(p) {
			paths = append(paths, p)
		}
	}
	return paths, true
}
