package vmtests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// oneLine checks what a user meets: nothing on stdout, exit 1, and one line that names the program, says what and where, and
// ends with what to do next.
func oneLine(t *testing.T, r result, program, where, want string) {
	t.Helper()
	if r.code != 1 || r.stdout != "" {
		t.Errorf("want exit 1 and an empty stdout: %v", r)
	}
	lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	last := lines[len(lines)-1]
	for _, l := range lines {
		if strings.HasPrefix(l, program+": ") && l != last {
			t.Errorf("more than one error line: %v", r)
		}
	}
	what, next, ok := strings.Cut(last, " — ")
	if !strings.HasPrefix(what, program+": ") || !strings.Contains(what, where) || !ok || next == "" {
		t.Errorf("want \"%s: … %s … — what to do\", got %q", program, where, last)
	}
	if !regexp.MustCompile(want).MatchString(last) {
		t.Errorf("want something like %q, got %q", want, last)
	}
}

// TestErrorsOfReachingAHost stages what a first user meets on the way to a host, by both transports.
func TestErrorsOfReachingAHost(t *testing.T) {
	s := setup(t)
	good := s.host(t, "nonix", 0)
	for _, tt := range []struct {
		name    string
		options []string
		host    string
		want    string
	}{
		{"unknown host", []string{"ProxyCommand=none"}, "no-such-host.invalid", `(?i)address|resolve|not known`},
		{"refused key", []string{"User=games"}, good, `(?i)key`},
		{"unknown host key", []string{"UserKnownHostsFile=/dev/null", "GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes"}, good, `(?i)host key`},
	} {
		for _, transport := range []string{"master", "native"} {
			t.Run(tt.name+"/"+transport, func(t *testing.T) {
				c := newClient(t, tt.options...)
				oneLine(t, c.run("padi-tui", "status", "--host", tt.host, "--ssh", transport), "padi-tui", tt.host, tt.want)
			})
		}
	}
}

// TestErrorsOfAHost stages hosts that let one in and then cannot run a padi.
func TestErrorsOfAHost(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nonix", 3)
	full := "mount -t tmpfs -o size=1m,mode=1777 tmpfs "
	for _, tt := range []struct {
		name  string
		harm  string
		mend  string
		where string
		want  string
	}{
		{"shell that prints nothing", "usermod -s /bin/true guest", "usermod -s /bin/bash guest", host + "-guest", `(?i)shell`},
		{"no login allowed", "usermod -s /usr/sbin/nologin guest", "usermod -s /bin/bash guest", host + "-guest", `(?i)not available|login`},
		{"forced command", `sed -i "s/^/command=\"echo only this\" /" /home/guest/.ssh/authorized_keys`, `sed -i "s/^command[^ ]* [^ ]* this. //" /home/guest/.ssh/authorized_keys`, host + "-guest", `(?i)only this|shell|command`},
		{"start-up file that never stops talking", `mv /home/guest/.bashrc /home/guest/rc; echo "yes chatter" >/home/guest/.bashrc`, "mv /home/guest/rc /home/guest/.bashrc", host + "-guest", `(?i)chatter|print`},
		{"no build for the system", uname("Linux riscv64"), "mv /bin/uname.real /bin/uname", host, `(?i)riscv64`},
		{"no such system", uname("Plan9 amd64"), "mv /bin/uname.real /bin/uname", host, `(?i)plan9`},
		{"no space", "install -d -o nix -g nix /home/nix/.local; " + full + "/home/nix/.local; " + full + "/tmp; " + full + "/var/tmp; " + full + "/dev/shm",
			"umount /home/nix/.local /tmp /var/tmp /dev/shm", host, `(?i)space`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t)
			b.in(t, host, tt.harm)
			defer b.in(t, host, tt.mend)
			oneLine(t, c.run("padi-tui", "status", "--host", tt.where), "padi-tui", tt.where, tt.want)
		})
	}
	t.Run("and after all that it works", func(t *testing.T) {
		newClient(t).ok("padi-tui", "status", "--host", host)
	})
}

// uname is a script that makes a host claim to be something else.
func uname(words string) string {
	return `mv /bin/uname /bin/uname.real; printf "#!/bin/sh\necho ` + words + `\n" >/bin/uname; chmod 755 /bin/uname`
}

// TestNowhereToExecute has a host where no place that the user can write to may hold a program.
func TestNowhereToExecute(t *testing.T) {
	host := setup(t).host(t, "nonix+noexec+noexectmp", 0)
	oneLine(t, newClient(t).run("padi-tui", "status", "--host", host), "padi-tui", host, `(?i)exec`)
}

// TestChangedHostKey has a host whose key is not the one that known_hosts holds.
func TestChangedHostKey(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nonix", 4)
	b.do(t, "rekey", host)
	for _, transport := range []string{"master", "native"} {
		t.Run(transport, func(t *testing.T) {
			oneLine(t, newClient(t).run("padi-tui", "status", "--host", host, "--ssh", transport), "padi-tui", host, `(?i)another host key|shows the host key .* but .* has`)
		})
	}
}

// TestUnreachable has a host whose sshd is away.
func TestUnreachable(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nonix+noexec+noexectmp", 0)
	b.do(t, "stop", host)
	defer b.do(t, "start", host)
	for _, transport := range []string{"master", "native"} {
		t.Run(transport, func(t *testing.T) {
			oneLine(t, newClient(t).run("padi-tui", "status", "--host", host, "--ssh", transport), "padi-tui", host, `(?i)refused`)
		})
	}
}

// TestNoDaemon asks for daemons that are not there.
func TestNoDaemon(t *testing.T) {
	c := newClient(t)
	gone := filepath.Join(c.home, "gone.sock")
	for _, program := range []string{"padi-tui", "kaval-tui"} {
		verb := map[string]string{"padi-tui": "status", "kaval-tui": "list"}[program]
		oneLine(t, c.run(program, verb, "--socket", gone), program, gone, ``)
	}
}

// TestBadUsageNeverDials gives every kind of mistake that can be seen without a host; no ssh may start.
func TestBadUsageNeverDials(t *testing.T) {
	host := setup(t).host(t, "nonix", 0)
	c := newClient(t)
	for _, argv := range [][]string{
		{"padi-tui", "status", "--host", host, "--bogus"},
		{"padi-tui", "create", "--host", host, "--", "sh"},
		{"padi-tui", "create", "--host", host, "--toplevel", "--parent", "a", "--", "sh"},
		{"padi-tui", "wait", "--host", host, "abc", "--until", "nonsense"},
		{"padi-tui", "wait", "--host", host, "abc", "--until", "working", "--timeout", "-1"},
		{"padi-tui", "status", "--host", host, "--socket", "/tmp/x"},
		{"padi-tui", "status", "--host", "-oProxyCommand=touch " + c.home + "/pwned"},
		{"padi-tui", "status", "--host", host, "--ssh", "pigeon"},
		{"kaval-tui", "list", "--host", host, "--socket", "/tmp/x"},
		{"kaval-tui", "send", "--host", host, "abc", "text", "--key", "Enter"},
		{"kaval-tui", "send", "--host", host, "abc", "--key", "NoSuchKey"},
		{"kaval-tui", "wait", "--host", host, "abc", "--until", "idle:0"},
		{"kaval-tui", "wait", "--host", host, "abc", "--until", "match:("},
		{"kaval-tui", "snapshot", "--host", host, "abc", "--viewport", "--tail", "3"},
	} {
		r := c.run(argv[0], argv[1:]...)
		if r.code != 1 || r.stdout != "" || strings.Count(r.stderr, argv[0]+": ") != 1 || !strings.HasPrefix(r.stderr, argv[0]+": ") {
			t.Errorf("%v: want exit 1 and one message: %v", argv, r)
		}
	}
	if calls := c.sshCalls(); len(calls) != 0 {
		t.Errorf("ssh was started: %v", calls)
	}
	if _, err := os.Stat(c.home + "/pwned"); err == nil {
		t.Error("a host argument was run as a command")
	}
}
