package vmtests

import (
	"strings"
	"testing"
)

// facts are what must not change by a dial: the daemons over there and the terminals they hold.
func facts(c *client, host string) string {
	c.t.Helper()
	return c.ssh(host, `
		for d in /tmp/padi-* /tmp/kaval-* /run/user/*/padi-* /run/user/*/kaval-*; do
			[ -O "$d" ] && for f in "$d"/*.pid; do echo "$f $(cat "$f")"; done
		done; :`) + "\n" + ids(c, host)
}

func ids(c *client, host string) string {
	c.t.Helper()
	var b strings.Builder
	for line := range strings.Lines(c.ok("kaval-tui", "list", "--host", host)) {
		if f := strings.Fields(line); len(f) > 0 {
			b.WriteString(f[0] + "\n")
		}
	}
	return b.String()
}

// TestDialsChangeNothing dials twenty times, from two clients and by both transports.
func TestDialsChangeNothing(t *testing.T) {
	host := setup(t).host(t, "nixd", 0)
	first, second := newClient(t), newClient(t)
	id := first.ok("padi-tui", "create", "--toplevel", "--host", host, "--", "cat")
	before := facts(first, host)
	if !strings.Contains(before, "padi.pid ") || !strings.Contains(before, id[:8]) {
		t.Fatalf("the host's daemons and terminals are not in:\n%s", before)
	}
	for i := range 20 {
		c, transport := first, "master"
		if i%2 == 1 {
			c = second
		}
		if i%4 >= 2 {
			transport = "native"
		}
		c.ok("padi-tui", "status", "--host", host, "--ssh", transport)
	}
	if after := facts(first, host); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	first.ok("kaval-tui", "kill", "--host", host, id)
}

// TestTerminalsOutliveTheLink kills every ssh session of the host, and then the host's sshd.
func TestTerminalsOutliveTheLink(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	for _, kind := range []string{"nix28", "nixd", "nonix+dropbear"} {
		t.Run(kind, func(t *testing.T) {
			host := s.host(t, kind, 0)
			c := newClient(t)
			id := c.ok("padi-tui", "create", "--toplevel", "--host", host, "--", "cat")
			c.ok("kaval-tui", "send", "--host", host, id, "kept-by-the-host")
			c.ok("kaval-tui", "wait", "--host", host, id, "--until", "idle:300", "--timeout", "60000")
			before := facts(c, host)
			b.do(t, "sever", host)
			if after := facts(c, host); after != before {
				t.Errorf("before:\n%s\nafter the links were cut:\n%s", before, after)
			}
			b.do(t, "stop", host)
			b.do(t, "sever", host)
			b.do(t, "start", host)
			if after := facts(c, host); after != before {
				t.Errorf("before:\n%s\nafter sshd was away:\n%s", before, after)
			}
			if screen := c.ok("kaval-tui", "snapshot", "--host", host, id, "--viewport"); !strings.Contains(screen, "kept-by-the-host") {
				t.Errorf("the screen is not what it was:\n%s", screen)
			}
			c.ok("kaval-tui", "kill", "--host", host, id)
		})
	}
}

// TestBothFacesSeeTheSameTerminals checks that both clients speak of the same terminals, as ids and as prefixes.
func TestBothFacesSeeTheSameTerminals(t *testing.T) {
	host := setup(t).host(t, "nonix", 0)
	c := newClient(t)
	id := c.ok("padi-tui", "create", "--toplevel", "--host", host, "--", "cat")
	for _, argv := range [][]string{{"padi-tui", "status"}, {"kaval-tui", "list"}} {
		if out := c.ok(argv[0], argv[1], "--host", host); !strings.Contains(out, id[:8]) {
			t.Errorf("%s does not show %s:\n%s", argv, id[:8], out)
		}
	}
	c.ok("kaval-tui", "kill", "--host", host, id[:8])
	if out := c.ok("padi-tui", "status", "--host", host); strings.Contains(out, id[:8]) {
		t.Errorf("padi still shows the killed terminal:\n%s", out)
	}
}
