# The everyday commands. ./test has the steps; this file only names them.
.PHONY: build agents check test e2e chaos bench vendor-hash

build: ## dist/bin: kolu for this machine, with its other names beside it
	mkdir -p dist/bin
	nix/build one $$(nix/build system) dist/bin/kolu
	for name in kaval padi kaval-tui padi-tui pulam-tui; do ln -sf kolu dist/bin/$$name; done

agents: ## dist/agents: one build for each system a host may have, and their manifest
	nix/build agents dist/agents

check: ## all but the tests that need hosts
	./test packages format vet lint generated pages flake cross race

test: ## everything
	./test

e2e: ## only the tests that need hosts
	./test packages e2e

chaos: ## five minutes of cut links under attaches, a watch and a driver
	KOLU_CHAOS=5m go test -count=1 -timeout 20m -v -run TestChaos ./vm-tests

agents-live: ## the real Claude Code, Codex and opencode, from the npm registry, against a scripted model
	./test live

bench: ## whole commands as ratios
	go run ./bench

vendor-hash: ## after a change of what is imported from outside
	nix/vendor-hash --write
