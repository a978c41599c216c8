// Package vmtests is the end-to-end suite: the programs as people run them, against hosts that are reached by a real ssh. It has
// only tests. TestMain finds the hosts; client_test.go runs the programs; the scenarios are one file each.
//
// # Hosts
//
// KOLU_VM_HOSTS lists hosts as NAME=KIND, separated by spaces, and KOLU_VM_SSH_CONFIG is the ssh configuration that knows the names.
// Kinds are those of testbed/README.md; a name that logs in as another user than the usual one has "/guest" or "/root" after its
// kind. Without them, on Linux and as root, the suite brings up a testbed of its own and ends it (TESTBED_NAME and TESTBED_NET
// choose another one; it is left up when KOLU_VM_KEEP is set). Where neither is possible every test is skipped, and in CI
// (CI=true) that fails instead.
package vmtests
