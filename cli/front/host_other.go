//go:build !linux && !darwin

package front

func hostIDs() (machine, boot string) { return "", "" }
