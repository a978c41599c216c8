package paditui

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kolu/cli/clitest"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// TestPromptExits gives each result its exit code, and the receipt as JSON.
func TestPromptExits(t *testing.T) {
	for result, code := range map[padi.PromptResult]int{padi.Taken: 0, padi.AgentGone: 3, padi.Staged: 5, padi.Busy: 6, padi.Blocked: 7, "new": 1} {
		ws := fakePadi()
		ws.OnPrompt = func(padi.PromptRequest) (padi.Receipt, error) {
			return padi.Receipt{Result: result, Reason: "the reason", Evidence: []string{"the evidence"}}, nil
		}
		r := run(t, ws, "prompt", "aa", "do", "it", "--timeout", "7000", "--json")
		if r.Code != code || !strings.Contains(r.Stdout, `"result": "`+string(result)+`"`) {
			t.Errorf("%s: %v", result, r)
		}
		if result != padi.Taken && !strings.Contains(r.Stderr, string(result)+": the reason") {
			t.Errorf("%s: stderr %q", result, r.Stderr)
		}
		if len(ws.Prompts) != 1 || string(ws.Prompts[0].Data) != "do it" || ws.Prompts[0].TimeoutMS != 7000 {
			t.Errorf("%s: asked %+v", result, ws.Prompts)
		}
	}
}

// TestPromptIsCheckedFirst refuses what can be known to be wrong before anything is asked, and takes a file as it is.
func TestPromptIsCheckedFirst(t *testing.T) {
	ws := fakePadi()
	ws.OnPrompt = func(padi.PromptRequest) (padi.Receipt, error) { return padi.Receipt{Result: padi.Taken}, nil }
	file := filepath.Join(t.TempDir(), "prompt.txt")
	if err := os.WriteFile(file, []byte("of two\nlines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"prompt aa":                       "nothing to hand over",
		"prompt aa x --file " + file:      "exactly one source",
		"prompt aa --file /no/such":       "no such file",
		"prompt aa x --timeout soon":      "--timeout",
		"prompt aa \x1b[201~":             "control characters",
		"prompt aa --key Enter":           "unknown flag",
		"prompt zz x":                     "no terminal matching",
		"prompt aa --file /dev/null --js": "unknown flag",
	} {
		if r := run(t, ws, strings.Split(args, " ")...); r.Code != 1 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%q: %v", args, r)
		}
	}
	if len(ws.Prompts) != 0 {
		t.Errorf("asked %+v", ws.Prompts)
	}
	if r := run(t, ws, "prompt", "aa", "--file", file); r.Code != 0 || string(ws.Prompts[0].Data) != "of two\nlines\n" {
		t.Errorf("%v, %+v", r, ws.Prompts)
	}
}

func TestExplain(t *testing.T) {
	ws := fakePadi()
	ws.Explained = padi.Explanation{
		Agent:  &padi.Agent{Kind: "codex", State: padi.AwaitingUser, Asks: "permission", SessionID: "s", Version: "1.2"},
		Resume: &padi.Resume{Command: "codex resume s"},
		Evidence: []padi.Evidence{
			{Source: "terminal", Detail: "in front: codex, pid 7"},
			{Source: "status", State: padi.AwaitingUser, Detail: "OSC 7501: blocked, permission", AgeMS: 61_000, Used: true},
			{Source: "file", Path: "/r.jsonl", State: padi.ToolUse, Detail: "a call is open"},
		},
	}
	want := `terminal  aaaaaaaa-1111-4111-8111-111111111111
agent     codex 1.2
state     awaiting_user, permission
session   s
resume    codex resume s
   SOURCE    SAYS           AGE  DETAIL
   terminal  —                   in front: codex, pid 7
*  status    awaiting_user  1m   OSC 7501: blocked, permission
   file      tool_use            a call is open (/r.jsonl)
`
	if r := run(t, ws, "explain", "aa"); r.Code != 0 || r.Stdout != want {
		t.Errorf("%v", r)
	}
	if r := run(t, ws, "explain", "aa", "--json"); !strings.Contains(r.Stdout, `"used": true`) {
		t.Errorf("%v", r)
	}
}

// TestDebrief is a wait in which everything is set.
func TestDebrief(t *testing.T) {
	ws := fakePadi()
	screen := "the last lines"
	var asked padi.WaitRequest
	ws.OnWait = func(_ context.Context, id padi.TerminalID, req padi.WaitRequest) (padi.WaitResult, error) {
		asked = req
		met := kaval.WaitResult{ID: id, Result: kaval.Met, Fired: "agent"}
		return padi.WaitResult{WaitResult: met, Agent: &padi.Agent{Kind: "codex", State: padi.Waiting}, Settled: true, Screen: &screen}, nil
	}
	env, _, _ := clitest.Env("kolu", nil, "debrief", "aa", "--tail", "7")
	if r := clitest.Run(all(ws), env); r.Code != 0 || r.Stdout != "the last lines\n" {
		t.Errorf("%v", r)
	}
	if asked.SettledMS != 15000 || asked.Tail != 7 || len(asked.Until) != 2 || asked.TimeoutMS != 0 || len(ws.Screens) != 0 {
		t.Errorf("asked %+v", asked)
	}
}

func TestRecent(t *testing.T) {
	ws := fakePadi()
	ws.Recent = []padi.RecentAgent{{Kind: "codex", Command: "codex --full-auto", At: 7}, {Kind: "claude-code", Command: "claude"}}
	if r := run(t, ws, "recent"); r.Code != 0 || r.Stdout != "codex --full-auto\nclaude\n" {
		t.Errorf("%v", r)
	}
	if r := run(t, ws, "recent", "--json"); r.Code != 0 || !strings.Contains(r.Stdout, `"at": 7`) {
		t.Errorf("%v", r)
	}
}
