//go:build !linux

package daemon

import "errors"

// fullRole has no disk of its own to fill here.
func fullRole() int { panic(errors.ErrUnsupported) }
