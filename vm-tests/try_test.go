package vmtests

import (
	"strings"
	"testing"
)

// TestTry runs the guided half minute, here and on hosts: it must exit 0, show the screen it read, and leave nothing.
func TestTry(t *testing.T) {
	s := setup(t)
	t.Run("here", func(t *testing.T) { try(t) })
	for _, kind := range []string{"nixd/guest", "nonix"} {
		t.Run(kind, func(t *testing.T) { try(t, "--host", s.host(t, kind, 0)) })
	}
}

func try(t *testing.T, at ...string) {
	c := newClient(t)
	out := c.ok("kolu", append([]string{"try"}, at...)...)
	for _, want := range []string{"padi-tui create --toplevel", "kaval-tui send", "kaval-tui wait", "kaval-tui snapshot"} {
		if !strings.Contains(out, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("try does not show %q:\n%s", want, out)
		}
	}
	list := c.ok("kaval-tui", append([]string{"list"}, at...)...)
	for line := range strings.Lines(out) {
		for _, word := range strings.Fields(line) {
			if len(word) == 36 && strings.Count(word, "-") == 4 && strings.Contains(list, word[:8]) {
				t.Errorf("try left the terminal %s:\n%s", word, list)
			}
		}
	}
}

// TestHere follows a terminal of this machine from the first verb, which starts the daemons, to curl.
func TestHere(t *testing.T) {
	c := newClient(t)
	id := c.ok("padi-tui", "create", "--toplevel", "--", "sh")
	c.ok("kaval-tui", "wait", id, "--until", "idle:300", "--timeout", "60000")
	c.ok("kaval-tui", "send", id, `clear; curl -s --unix-socket "$PADI_SOCKET" http://padi/v1/terminals >answer; command -v padi-tui; echo done-$((40+2))`)
	c.ok("kaval-tui", "send", id, "--key", "Enter")
	until(t, "the command", func() bool {
		return strings.Contains(c.ok("kaval-tui", "snapshot", id, "--viewport"), "done-42")
	})
	answer := c.ok("cat", c.home+"/answer")
	if !strings.Contains(answer, `"terminals"`) || !strings.Contains(answer, id) {
		t.Errorf("curl got %q, want the terminal %s in it", answer, id)
	}
	if r := c.run("kaval-tui", "send", id, "text", "--key", "Enter"); r.code != 1 {
		t.Errorf("text and a key in one send: %v", r)
	}
	if r := c.run("kaval-tui", "wait", id, "--until", "match:never-comes", "--timeout", "200"); r.code != 2 {
		t.Errorf("a wait that times out: %v", r)
	}
	c.ok("kaval-tui", "kill", id)
	if r := c.run("kaval-tui", "snapshot", id); r.code != 1 {
		t.Errorf("snapshot of a killed terminal: %v", r)
	}
}
