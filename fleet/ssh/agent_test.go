package ssh

import (
	"io"
	"strings"
	"testing"
)

// The user's agent reaches the host where ForwardAgent says so, for the lines that are to have it, as long as they run.
func TestAgentIsForwarded(t *testing.T) {
	for _, kind := range both {
		t.Run(string(kind), func(t *testing.T) {
			s := sshd(t, "", "ForwardAgent yes", "IdentityAgent SSH_AUTH_SOCK")
			s.host("without", &server{host: "127.0.0.1", port: s.port()})
			sock := serveAgent(t, s, keyringOf(t, s))
			o := s.options(kind)
			o.Env = append(o.Env, "SSH_AUTH_SOCK="+sock)
			ask := `ssh-add -l 2>&1 || echo "[$SSH_AUTH_SOCK]"`
			with := func(host string) string {
				p, err := dialOK(t, host, o).StartWithAgent(t.Context(), ask)
				if err != nil {
					t.Fatal(err)
				}
				out, err := io.ReadAll(p.Stdout())
				if err != nil {
					t.Fatal(err)
				}
				return string(out)
			}
			if got := output(t, dialOK(t, "h", o), ask); !strings.Contains(got, "[]") {
				t.Errorf("not asked for: %q", got)
			}
			for range 2 { // the second over the same master
				if got := with("h"); !strings.Contains(got, "ED25519") {
					t.Errorf("asked for: %q", got)
				}
			}
			if got := with("without"); !strings.Contains(got, "[]") {
				t.Errorf("not configured: %q", got)
			}
		})
	}
}

// What only a comment says is not looked up.
func TestMentions(t *testing.T) {
	s := newSite(t)
	s.write("plain", "# ForwardAgent yes\n\n\t#   Include other\nHost x\n")
	s.write("other", "Host y\n  forwardAGENT yes\n")
	s.write("includes", "Include "+s.dir+"/oth*\n")
	for file, want := range map[string]bool{"plain": false, "other": true, "includes": true, "absent": false} {
		if got := mentions([]string{s.dir + "/" + file}, "forwardagent", s.dir, 4); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
}
