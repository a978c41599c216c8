package vmtests

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestHostileConfig has a user whose ssh configuration asks for everything that would break the wire.
func TestHostileConfig(t *testing.T) {
	host := setup(t).host(t, "nixd", 0)
	for _, transport := range []string{"master", "native"} {
		t.Run(transport, func(t *testing.T) {
			c := newClient(t, "RequestTTY=force", "RemoteCommand=echo hijacked", "PermitLocalCommand=yes", "LocalCommand=echo noise",
				"StdinNull=yes", "ForkAfterAuthentication=yes", "Compression=yes", "LogLevel=DEBUG", "SendEnv=*", "EscapeChar=~",
				"LocalForward=127.0.0.1:1 127.0.0.1:1")
			r := c.run("kaval-tui", "list", "--host", host, "--ssh", transport)
			if r.code != 0 || strings.Contains(r.stdout+r.stderr, "hijacked") || strings.Contains(r.stdout, "noise") {
				t.Errorf("%v", r)
			}
		})
	}
}

// TestUsersOwnMaster has a user who keeps a master open: it is used, nothing authenticates anew, and it is still there afterwards.
func TestUsersOwnMaster(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nixd", 0)
	c := newClient(t, "ControlMaster=auto", "ControlPath="+filepath.Join(s.dir, "own-master"), "ControlPersist=300")
	c.ok("ssh", host, "true")
	logins := func() int { return strings.Count(b.do(t, "logs", host), "Accepted publickey") }
	before := logins()
	c.ok("kaval-tui", "list", "--host", host)
	c.ok("kaval-tui", "list", "--host", host)
	if got := logins() - before; got != 0 {
		t.Errorf("%d more logins, though a master was there", got)
	}
	c.ok("ssh", "-O", "check", host)
}

// TestWithoutSSH has no ssh program at all: the configuration is read by kolu itself.
func TestWithoutSSH(t *testing.T) {
	s := setup(t)
	host := s.host(t, "nixd", 0)
	c := newClient(t)
	for i, kv := range c.env {
		if strings.HasPrefix(kv, "PATH=") {
			c.env[i] = "PATH=" + s.bin
		}
	}
	c.ok("kaval-tui", "list", "--host", host)
	if calls := c.sshCalls(); len(calls) != 0 {
		t.Errorf("an ssh was found: %v", calls)
	}
}
