// Package docs keeps docs/cli the same as what the commands say of themselves. It has no code for others: its test compares, and
// `go generate ./cli/docs` writes the pages anew.
package docs

//go:generate go test -count=1 -run TestPages . -update
