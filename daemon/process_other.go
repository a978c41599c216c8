//go:build !linux && !darwin

package daemon

import (
	"errors"
	"time"
)

// processStart is when a process began.
func processStart(int) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

func processMark(int) string { return "" }

func machineName() string { return "" }

func zombie(int) bool { return false }
