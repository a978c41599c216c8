//go:build race

package kavalrpc_test

const raceOn = true
