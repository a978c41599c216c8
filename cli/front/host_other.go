//go:build !linux && !darwin

package front

func hostIDs() (machine, boot string) { return "", "" }

func warnings() []string { return nil }
