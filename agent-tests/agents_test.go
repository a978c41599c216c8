package agenttests

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kolu/agent-tests/agentstub"
	"kolu/daemon/kaval/ptyhost"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/claude"
	"kolu/daemon/padi/agents/codex"
	"kolu/daemon/padi/agents/opencode"
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/workspace"
)

// program is one agent's.
type program struct {
	kind, name string
	path       string // in the folder of the packages
	args       []string
	quit       string
	// escapes is how many times Escape is pressed to interrupt a turn.
	escapes int
	// setup writes what the program reads at its start into a home.
	setup func(t *testing.T, home, cwd, url string)
}

var programs = []program{
	{
		kind: "claude-code", name: "claude", path: "node_modules/@anthropic-ai/claude-code-linux-" + cpu() + "/claude",
		args: []string{"--permission-mode", "default"}, quit: "/exit", escapes: 1, setup: setupClaude,
	}, {
		kind: "codex", name: "codex", path: "node_modules/@openai/codex-linux-" + cpu() + "/vendor/" + machine() + "-unknown-linux-musl/bin/codex",
		args: []string{"--no-daemon", "-c", "features.default_mode_request_user_input=true"}, quit: "/quit", escapes: 1, setup: setupCodex,
	}, {
		kind: "opencode", name: "opencode", path: "node_modules/opencode-linux-" + cpu() + "/bin/opencode",
		quit: "/exit", escapes: 2, setup: setupOpencode,
	},
}

func cpu() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}

func machine() string {
	if runtime.GOARCH == "amd64" {
		return "x86_64"
	}
	return "aarch64"
}

func setupClaude(t *testing.T, home, cwd, _ string) {
	write(t, filepath.Join(home, ".claude.json"), fmt.Sprintf(`{"hasCompletedOnboarding": true, "hasSeenAutoDefaultNotice": true,
		"customApiKeyResponses": {"approved": ["ubstubstubstubstubAA"], "rejected": []}, "projects": {%q: {"hasTrustDialogAccepted": true}}}`, cwd))
}

func setupCodex(t *testing.T, home, cwd, url string) {
	write(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`model = "stub-model"
model_provider = "stub"
check_for_update_on_startup = false
[model_providers.stub]
name = "stub"
base_url = "%s/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[analytics]
enabled = false
[projects.%q]
trust_level = "trusted"
`, url, cwd))
}

func setupOpencode(t *testing.T, home, _, url string) {
	write(t, filepath.Join(home, ".config", "opencode", "opencode.json"), fmt.Sprintf(`{"model": "stub/stub-model", "small_model": "stub/stub-model",
		"autoupdate": false, "share": "disabled", "permission": {"bash": "ask", "edit": "ask"},
		"provider": {"stub": {"npm": "@ai-sdk/openai-compatible", "name": "Stub", "options": {"baseURL": "%s/v1", "apiKey": "any"},
		"models": {"stub-model": {"name": "Stub model", "limit": {"context": 200000, "output": 8192}}}}}}`, url))
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// world is one agent's program with a home, a model server and a workspace of its own.
type world struct {
	t         *testing.T
	p         program
	home, cwd string
	stub      *agentstub.Server
	w         *workspace.Workspace
	log       *journal
}

func newWorld(t *testing.T, p program) *world {
	t.Helper()
	dir := os.Getenv("KOLU_AGENTS_DIR")
	if dir == "" {
		t.Skip("the programs are not installed: agent-tests/run does that")
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := &world{t: t, p: p, home: home, cwd: filepath.Join(home, "work"), stub: agentstub.New()}
	server := httptest.NewServer(e.stub)
	t.Cleanup(server.Close)
	if err := os.MkdirAll(e.cwd, 0o700); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(home, "bin", p.name)
	write(t, filepath.Join(home, ".bashrc"), "PATH="+filepath.Join(home, "bin")+":$PATH\n"+environment(server.URL))
	p.setup(t, home, e.cwd, server.URL)
	if err := os.MkdirAll(filepath.Dir(bin), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, p.path), bin); err != nil {
		t.Fatal(err)
	}
	e.w = newWorkspace(t, home)
	e.log = follow(t, e.w)
	return e
}

func environment(url string) string {
	return strings.Join([]string{"export ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-ant-api03-stubstubstubstubstubAA",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1 DISABLE_ERROR_REPORTING=1",
		"OPENAI_API_KEY=sk-stub OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1"}, " ") + "\n"
}

func newWorkspace(t *testing.T, home string) *workspace.Workspace {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	store, err := session.Open(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	host := ptyhost.New(ptyhost.Options{Log: log, RunDir: t.TempDir()})
	t.Cleanup(host.Close)
	none := func(string) string { return "" }
	w := workspace.New(workspace.Options{
		Kaval: host, Store: store, Log: log, Environ: []string{"HOME=" + home, "SHELL=/bin/bash", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
		Detectors: []agents.Detector{claude.New(home, none), codex.New(home, none), opencode.New(home, none)},
	})
	runWorkspace(t, w)
	return w
}

// start runs the agent in a terminal of its own.
func (e *world) start(argv ...string) terminal {
	e.t.Helper()
	if argv == nil {
		argv = append([]string{e.p.name}, e.p.args...)
	}
	made, err := e.w.Create(e.t.Context(), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: e.cwd, Run: argv})
	if err != nil {
		e.t.Fatal(err)
	}
	return terminal{world: e, id: made.ID}
}
