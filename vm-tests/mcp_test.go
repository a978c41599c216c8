package vmtests

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCP drives a terminal by `kolu mcp`, as an agent does: here and on a host.
func TestMCP(t *testing.T) {
	s := setup(t)
	t.Run("here", func(t *testing.T) { driveByMCP(t) })
	for _, kind := range []string{"nixd/guest", "nonix"} {
		t.Run(kind, func(t *testing.T) { driveByMCP(t, "--host", s.host(t, kind, 0)) })
	}
}

func driveByMCP(t *testing.T, at ...string) {
	c := newClient(t)
	var stderr strings.Builder
	cmd := c.command(t.Context(), "kolu", append([]string{"mcp"}, at...)...)
	cmd.Stderr = &stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "vm-tests", Version: "1"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, stderr.String())
	}
	defer session.Close()
	call := func(tool string, args map[string]any) map[string]any {
		t.Helper()
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v\n%s", tool, err, stderr.String())
		}
		text := ""
		if len(res.Content) > 0 {
			if c, ok := res.Content[0].(*mcp.TextContent); ok {
				text = c.Text
			}
		}
		if res.IsError {
			t.Fatalf("%s: %s", tool, text)
		}
		out := map[string]any{}
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			out["text"] = text
		}
		return out
	}
	id, _ := call("lifecycle_create", map[string]any{"intent": "the suite's"})["id"].(string)
	if len(id) != 36 {
		t.Fatalf("lifecycle_create gave the id %q", id)
	}
	settle := func() {
		t.Helper()
		if got := call("wait_outputSettled", map[string]any{"id": id, "idleMs": 300, "timeoutMs": 30000})["result"]; got != "met" {
			t.Errorf("wait_outputSettled gave %v", got)
		}
	}
	settle()
	call("lifecycle_sendInput", map[string]any{"id": id, "text": "echo by-mcp-$((40+2))"})
	settle()
	call("lifecycle_sendInput", map[string]any{"id": id, "key": "Enter"})
	settle()
	until(t, "the answer on the screen", func() bool {
		screen, err := json.Marshal(call("screen_text", map[string]any{"id": id, "tail": 40}))
		return err == nil && strings.Contains(string(screen), "by-mcp-42")
	})
	roster, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "surface://collections/terminals"})
	if err != nil || len(roster.Contents) == 0 || !strings.Contains(roster.Contents[0].Text, id) {
		t.Errorf("the terminals resource (%v) does not name %s: %+v", err, id, roster)
	}
	call("lifecycle_kill", map[string]any{"id": id})
	if list := c.ok("kaval-tui", append([]string{"list"}, at...)...); strings.Contains(list, id[:8]) {
		t.Errorf("the killed terminal is listed:\n%s", list)
	}
}
