package vmtests

import (
	"strings"
	"testing"
)

// auditNix puts a wrapper around each nix program of a host that notes its use, and gives a function that counts them.
func auditNix(t *testing.T, b *testbed, host string) func() int {
	b.in(t, host, `
		[ -e /usr/bin/nix.real ] || {
			mv /usr/bin/nix /usr/bin/nix.real
			for f in /usr/bin/nix /usr/bin/nix-*; do
				n=${f##*/}
				[ "$n" != nix-daemon ] || continue
				[ "$n" != nix.real ] || continue
				rm -f $f
				printf "#!/bin/bash\necho %s \"\$@\" >>/tmp/nix-uses\nexec -a %s /usr/bin/nix.real \"\$@\"\n" "$n" "$n" >$f
				chmod 755 $f
			done
			ln -sf nix.real /usr/bin/nix-daemon
		}
		: >/tmp/nix-uses
		chmod 666 /tmp/nix-uses`)
	return func() int { return strings.Count(b.in(t, host, "cat /tmp/nix-uses"), "\n") }
}

// TestWarmVerbIsLean counts on the wire and on the host: the first verb logs in once, the second one sends no build bytes, runs no
// nix command and opens one exec.
func TestWarmVerbIsLean(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	for _, kind := range []string{"nixd/guest", "nonix"} {
		for _, transport := range []string{"master", "native"} {
			t.Run(kind+"/"+transport, func(t *testing.T) {
				alias := s.host(t, kind, 2)
				host, _, _ := strings.Cut(alias, "-")
				uses := func() int { return 0 }
				if strings.HasPrefix(kind, "nixd") {
					uses = auditNix(t, b, host)
				}
				c := newClient(t)
				verb := func() (sent int64, execs, nix int) {
					sent, execs, nix = b.sent(t, host), b.execs(t, host), uses()
					c.ok("padi-tui", "status", "--host", alias, "--ssh", transport)
					return b.sent(t, host) - sent, b.execs(t, host) - execs, uses() - nix
				}
				logins := strings.Count(b.do(t, "logs", host), "Accepted publickey")
				sent, execs, nix := verb()
				if n := strings.Count(b.do(t, "logs", host), "Accepted publickey") - logins; n != 1 {
					t.Errorf("a first verb logged in %d times, want 1", n)
				}
				t.Logf("first: %d bytes to the host, %d execs, %d nix commands", sent, execs, nix)
				for range 2 {
					sent, execs, nix = verb()
					t.Logf("then: %d bytes to the host, %d execs, %d nix commands", sent, execs, nix)
					if sent > 64<<10 {
						t.Errorf("%d bytes went to a host that has the build", sent)
					}
					if execs != 1 {
						t.Errorf("%d execs, want 1", execs)
					}
					if nix != 0 {
						t.Errorf("%d nix commands ran:\n%s", nix, b.in(t, host, "cat /tmp/nix-uses"))
					}
				}
			})
		}
	}
}
