//go:build !linux

package proc

import "errors"

// Started is the start of a process in the system's own count, "" where it is not known.
func Started(int) string { return "" }

// Group are the process that leads a group and those below it that are still in it. known is false where the system does not tell.
func Group(leader int) (pids []int, known bool) { return []int{leader}, false }

// Children are the processes that a process has started and that run.
func Children(int) ([]int, error) { return nil, errors.ErrUnsupported }

// Open are the files that a process holds open. known is false where the system does not tell.
func Open(int) (paths []string, known bool) { return nil, false }
