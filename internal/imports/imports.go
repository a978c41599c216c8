// Package imports holds the arrows of docs/architecture.md as a table, so that a wrong one fails a test instead of a review.
// It has no code for others: a new package needs a row in [MayImport], and a row that is no longer true is removed with the
// package. Start at the table.
package imports

// MayImport says for each package of this module which others of it the package's own files (not its tests) may import.
// The main package is "."; a star as the last element stands for any one name.
var MayImport = map[string][]string{
	".": {"cli", "cli/*"}, // the name it was called by picks a command tree

	"cli":          {"internal/fault"},                     // what all commands share; asks errors for their exit code
	"cli/drive":    {"cli", "daemon/kaval", "daemon/padi"}, // what the verbs of all faces mean, once
	"cli/kavaltui": {"cli", "cli/client", "cli/drive", "daemon/kaval"},
	"cli/paditui":  {"cli", "cli/client", "cli/drive", "daemon/kaval", "daemon/padi"},
	"cli/kolucmd":  {"cli", "cli/client", "cli/drive", "cli/kavaltui", "cli/paditui", "cli/mcp", "daemon/kaval", "daemon/padi", "fleet/doctor", "fleet/inventory", "stdio"},
	"cli/clitest":  {"cli", "cli/client", "daemon", "daemon/kaval", "daemon/padi"},         // the trees in a test's hands
	"cli/mcp":      {"cli", "cli/drive", "daemon/kaval", "daemon/padi"},                    // a connected contract as tools; no fleet, no wires
	"cli/docs":     {},                                                                     // its test keeps docs/cli true
	"cli/front":    {"cli", "daemon", "daemon/kaval", "daemon/padi", "stdio", "provision"}, // what ssh runs
	// where the parts are wired together; no fleet, so a daemon never dials out
	"cli/kavalcmd": {"cli", "cli/front", "daemon", "daemon/kaval", "daemon/kaval/*", "stdio", "provision"},
	"cli/padicmd":  {"cli", "cli/front", "daemon", "daemon/kaval", "daemon/kaval/kavalrpc", "daemon/padi", "daemon/padi/*", "daemon/padi/agents/*", "stdio", "provision"},
	// flags and environment become a connected contract; neither cobra nor an implementation
	"cli/client": {"cli", "daemon", "daemon/kaval", "daemon/kaval/kavalrpc", "daemon/padi", "daemon/padi/padirpc", "fleet", "fleet/fan", "fleet/inventory", "provision", "stdio"},

	"fleet":           {"fleet/ssh", "provision", "stdio"},                                                                                          // carries bytes; knows no terminals
	"fleet/inventory": {"fleet/ssh"},                                                                                                                // names of hosts; dials nothing
	"fleet/fan":       {"fleet/inventory", "fleet/ssh"},                                                                                             // many hosts at once; is handed what asks one
	"fleet/doctor":    {"daemon", "daemon/kaval", "daemon/kaval/kavalrpc", "daemon/padi", "daemon/padi/padirpc", "fleet", "fleet/ssh", "provision"}, // a dial, looked at
	"fleet/ssh":       {},                                                                                                                           // a runner on a host; knows no nix
	"provision":       {"provision/nix"},                                                                                                            // is handed its runner
	"provision/nix":   {},
	"stdio":           {},        // knows nothing of what it carries
	"stdio/stdiotest": {"stdio"}, // a line that the tests of both wires cut

	"daemon":                 {}, // the spine: neither padi nor kaval
	"daemon/kaval":           {}, // the word
	"daemon/kaval/ptyhost":   {"daemon/kaval", "daemon/kaval/pty", "daemon/kaval/vt"},
	"daemon/kaval/pty":       {},
	"daemon/kaval/vt":        {},
	"daemon/call":            {"daemon"},                                // the near end of a wire, whosever it is
	"daemon/kaval/kavalrpc":  {"daemon", "daemon/call", "daemon/kaval"}, // so any Host can be served
	"daemon/kaval/kavaltest": {"daemon/kaval"},
	"daemon/padi":            {"daemon/kaval"},
	"daemon/padi/workspace":  {"daemon/kaval", "daemon/padi", "daemon/padi/*", "daemon/padi/agents/submit"}, // is given a kaval.Host
	"daemon/padi/padirpc":    {"daemon", "daemon/call", "daemon/kaval", "daemon/padi"},
	"daemon/padi/paditest":   {"daemon/kaval", "daemon/padi"},
	"daemon/padi/supervise":  {"daemon", "daemon/kaval", "daemon/padi"},
	"daemon/padi/repo":       {"daemon/kaval", "daemon/padi"},
	"daemon/padi/forge":      {"daemon/padi"},
	"daemon/padi/ports":      {"daemon/padi"},
	"daemon/padi/record":     {"daemon", "daemon/kaval", "daemon/padi"},
	"daemon/padi/agents":     {"daemon/kaval", "daemon/padi"},
	// one package for each agent, which knows its files and its screen; they start nothing and write nothing
	"daemon/padi/agents/claude":    {"daemon/kaval", "daemon/padi", "daemon/padi/agents", "daemon/padi/agents/proc"},
	"daemon/padi/agents/codex":     {"daemon/kaval", "daemon/padi", "daemon/padi/agents", "daemon/padi/agents/proc", "daemon/padi/agents/sqlite"},
	"daemon/padi/agents/opencode":  {"daemon/kaval", "daemon/padi", "daemon/padi/agents", "daemon/padi/agents/proc", "daemon/padi/agents/sqlite"},
	"daemon/padi/agents/grok":      {"daemon/kaval", "daemon/padi", "daemon/padi/agents", "daemon/padi/agents/proc"},
	"daemon/padi/agents/proc":      {}, // what a system tells of a process
	"daemon/padi/agents/submit":    {"daemon/kaval", "daemon/padi", "daemon/padi/agents"},
	"daemon/padi/agents/fakeagent": {}, // an agent for tests, as a program
	"daemon/padi/agents/sqlite":    {}, // reads another program's database, without a lock
	"daemon/padi/session":          {"daemon/padi"},
	"daemon/padi/shell":            {"daemon/kaval"},

	"internal/*":            {},
	"vm-tests":              {},
	"agent-tests":           {}, // the real agents, by its tests
	"agent-tests/agentstub": {}, // a model server for them
	"vm-tests/testbed":      {},
	"bench":                 {},
	"bench/mux":             {}, // runs the commands of others and of ours, and imports none
	"bench/line":            {"fleet", "fleet/ssh", "daemon/kaval", "daemon/kaval/kavalrpc", "daemon/padi/padirpc"},
	"nix/manifest":          {"provision"},
}

// Shared are the packages that any package may import.
var Shared = []string{"internal/version", "internal/atomicfile", "internal/testenv", "internal/keys", "internal/shellquote", "internal/loopback", "internal/peer", "internal/plainfile"}

// FaultUsers are the packages that make or print the errors of reaching a host; a star ends a prefix.
var FaultUsers = []string{"fleet", "fleet/*", "provision", "stdio", "cli", "cli/*"}

// KeepAway says which packages from outside a package must not import, because another part is there for them.
var KeepAway = map[string][]string{
	"cli/client":            {"github.com/spf13/cobra"},
	"fleet":                 {"net/http"},
	"stdio":                 {"net/http", "golang.org/x/crypto/ssh"},
	"provision":             {"net/http", "golang.org/x/crypto/ssh", "github.com/hashicorp/yamux"},
	"daemon":                {"github.com/spf13/cobra"},
	"daemon/kaval":          {"net/http", "os/exec"},
	"daemon/kaval/ptyhost":  {"net/http", "github.com/coder/websocket"},
	"daemon/kaval/kavalrpc": {"os/exec", "github.com/creack/pty"},
	"daemon/kaval/vt":       {"net/http", "os", "os/exec"},
	"daemon/padi":           {"net/http", "os/exec"},
	"daemon/padi/workspace": {"net/http"},
	"daemon/padi/padirpc":   {"os/exec"},
}
