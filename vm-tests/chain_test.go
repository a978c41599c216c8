package vmtests

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestChain follows one terminal through everything on each kind of host: created, typed into, waited for, read, and from the
// inside, with nothing else installed over there.
func TestChain(t *testing.T) {
	s := setup(t)
	for _, kind := range []string{
		"nix28", "nixd", "nixd/guest", "nixd/root", "nonix", "nonix/guest", "nonix+dropbear", "nixd+fish", "nixd+zsh", "nixd+noisy",
		"nixd+noisy/guest", "nixd+nopath", "nonix+noexec", "nix28/guest",
	} {
		t.Run(kind, func(t *testing.T) { chain(t, s.host(t, kind, 0)) })
	}
}

// TestNativeTransport does the same without the ssh program's master.
func TestNativeTransport(t *testing.T) {
	s := setup(t)
	for _, kind := range []string{"nixd/guest", "nonix", "nonix+dropbear"} {
		t.Run(kind, func(t *testing.T) { chain(t, s.host(t, kind, 0), "--ssh", "native") })
	}
}

// TestMasterTransport asks for the master by name.
func TestMasterTransport(t *testing.T) {
	chain(t, setup(t).host(t, "nonix", 0), "--ssh", "master")
}

func chain(t *testing.T, host string, flags ...string) {
	c := newClient(t)
	at := append([]string{"--host", host}, flags...)
	verb := func(name, verb string, rest ...string) string {
		t.Helper()
		return c.ok(name, append(append([]string{verb}, at...), rest...)...)
	}
	made := c.run("padi-tui", append([]string{"create"}, append(at, "--toplevel", "--", "sh")...)...)
	if made.code != 0 {
		t.Fatal(made)
	}
	t.Log(made.stderr)
	id := strings.TrimSuffix(made.stdout, "\n")
	if !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(id) {
		t.Fatalf("create printed %q, not an id", id)
	}
	typed := func(line string) string {
		t.Helper()
		verb("kaval-tui", "send", id, line)
		verb("kaval-tui", "send", id, "--key", "Enter")
		verb("kaval-tui", "wait", id, "--until", "idle:300", "--timeout", "60000")
		return verb("kaval-tui", "snapshot", id, "--viewport")
	}
	untilShown := func(screen, want string) {
		t.Helper()
		until(t, want+" on the screen of "+id, func() bool {
			if strings.Contains(unwrap(screen), want) {
				return true
			}
			screen = verb("kaval-tui", "snapshot", id, "--viewport")
			return false
		})
	}
	verb("kaval-tui", "wait", id, "--until", "idle:300", "--timeout", "60000")
	screen := typed("command -v padi-tui; echo $PADI_SOCKET; echo shown-$((40+2))")
	untilShown(screen, "shown-42")
	screen = unwrap(verb("kaval-tui", "snapshot", id, "--viewport"))

	tool := firstMatch(t, `(/[^\s;]+/bin/padi-tui)`, screen)
	socket := firstMatch(t, `(/(?:tmp|run)[^\s;]*/padi\.sock)`, screen)
	pid := daemonPID(c, host, socket)
	exe := c.ssh(host, "readlink /proc/"+pid+"/exe")
	if got := c.ssh(host, "readlink -f "+tool); got != exe {
		t.Errorf("the terminal's padi-tui is %s, the padi of the host runs from %s", got, exe)
	}
	if bin := path.Dir(tool); c.ssh(host, "readlink -f "+bin+"/kolu") != exe {
		t.Errorf("kolu beside %s is not the file that padi runs from", tool)
	}

	screen = typed("clear; padi-tui status && kaval-tui list && kolu --help >/dev/null && echo inside-$((40+2))")
	untilShown(screen, "inside-42")
	if screen = verb("kaval-tui", "snapshot", id, "--viewport"); !strings.Contains(screen, id[:8]) {
		t.Errorf("the terminal does not find itself:\n%s", screen)
	}

	verb("kaval-tui", "kill", id)
	if list := verb("kaval-tui", "list"); strings.Contains(list, id[:8]) {
		t.Errorf("the killed terminal is listed:\n%s", list)
	}
}

// daemonPID is the process that serves a socket, by the file beside it.
func daemonPID(c *client, host, socket string) string {
	c.t.Helper()
	text := c.ssh(host, "cat "+strings.TrimSuffix(socket, ".sock")+".pid")
	pid, _, _ := strings.Cut(text, "\t")
	if _, err := strconv.Atoi(strings.TrimSpace(pid)); err != nil {
		c.t.Fatalf("padi.pid holds %q", text)
	}
	return strings.TrimSpace(pid)
}

func firstMatch(t *testing.T, expr, text string) string {
	t.Helper()
	m := regexp.MustCompile(expr).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("nothing like %s in\n%s", expr, text)
	}
	return m[1]
}

// unwrap joins what the terminal's width has cut: a row that is full goes on in the next.
func unwrap(screen string) string {
	var b strings.Builder
	for line := range strings.Lines(screen) {
		text := strings.TrimSuffix(line, "\n")
		b.WriteString(text)
		if len([]rune(text)) < 80 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
