// Command manifest describes the builds in a directory (SYSTEM/kolu) for the clients that will send them to hosts: it writes
// kolu-agents.json beside them. nix/build runs it.
package main

import (
	"fmt"
	"os"

	"kolu/provision"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manifest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: manifest DIR")
	}
	m, err := provision.WriteManifest(args[0])
	if err != nil {
		return err
	}
	if len(m.Builds) == 0 {
		return fmt.Errorf("%s has no builds", args[0])
	}
	for _, b := range m.Builds {
		fmt.Printf("%s: %d bytes\n", b.System, b.Size)
	}
	return nil
}
