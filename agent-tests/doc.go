// Package agenttests runs the real programs of coding agents, at fixed versions, in terminals of ours, against a model server that is scripted: what padi says of
// them, and what it says became of a prompt, must be what happened. It has only tests. agent-tests/run installs the programs and runs it in a network
// namespace with nothing but the loopback; without KOLU_AGENTS_DIR every test is skipped. agents_test.go knows how each program is set up; live_test.go has the
// scenarios.
package agenttests
