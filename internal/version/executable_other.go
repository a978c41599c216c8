//go:build !linux

package version

func startedAs() string { return "" }
