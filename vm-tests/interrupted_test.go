package vmtests

import (
	"os/exec"
	"strings"
	"testing"
)

// TestKilledInTheMiddleOfAnUpload kills the client at ten places of its upload. No partial build may ever be used or stay in the
// way: the eleventh dial works.
func TestKilledInTheMiddleOfAnUpload(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	sum := sumOf(t, s.bin+"/kolu")
	for _, tt := range []struct{ kind, transport string }{{"nonix", "master"}, {"nixd/guest", "native"}} {
		t.Run(tt.kind+"/"+tt.transport, func(t *testing.T) {
			alias := s.host(t, tt.kind, 1)
			host, _, _ := strings.Cut(alias, "-")
			c := newClient(t)
			c.ssh(alias, "true")
			b.do(t, "rate", host, "60")
			for i := range 10 {
				start := b.sent(t, host)
				cmd := c.command(t.Context(), "padi-tui", "status", "--host", alias, "--ssh", tt.transport)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				most := int64(i+1) * 550_000 // what travels is packed: about 6.7 MB
				if tt.kind == "nonix" {      // goes on where the one before was killed
					most = 550_000
				}
				whole := false
				until(t, "bytes on the wire", func() bool {
					select {
					case err := <-ended:
						if whole = err == nil && tt.kind == "nonix" && i > 2; whole {
							return true
						}
						t.Fatalf("the client ended (%v) after %d bytes, before it could be killed", err, b.sent(t, host)-start)
					default:
					}
					return b.sent(t, host)-start > most
				})
				if whole {
					break
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-ended
				got := buildsThatRun(t, b, host)
				if got != "" && (tt.kind != "nonix" || i <= 2 || !strings.Contains(got, sum)) {
					t.Fatalf("after kill %d at %d bytes something usable is there: %s", i, most, got)
				}
				if got != "" { // the last part had just come over
					break
				}
			}
			b.do(t, "heal", host)
			c.ok("padi-tui", "status", "--host", alias, "--ssh", tt.transport)
			got := buildsThatRun(t, b, host)
			if strings.Count(got, "\n") != 1 {
				t.Errorf("builds of the host after all: %q", got)
			}
			if !strings.Contains(got, sum) {
				t.Errorf("the build over there is %q, ours has %s", got, sum)
			}
			until(t, "leftovers of the upload to go", func() bool {
				return b.in(t, host, "find /home /var/tmp /tmp -name '*.tmp*' -size +100k 2>/dev/null || true") == ""
			})
		})
	}
}

// TestKilledUploadIsResumed kills the client when most of the build is over there, and counts the bytes of the next verb.
func TestKilledUploadIsResumed(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nonix+dropbear", 0) + "-guest"
	name, _, _ := strings.Cut(host, "-")
	c := newClient(t)
	b.do(t, "rate", name, "60")
	defer b.do(t, "heal", name)
	verb := []string{"status", "--host", host, "--ssh", "native"}
	start := b.sent(t, name)
	cmd := c.command(t.Context(), "padi-tui", verb...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "most of the bytes on the wire", func() bool { return b.sent(t, name)-start > 4_000_000 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	until(t, "the part to be put away", func() bool {
		return b.in(t, name, "ls /home/guest/.local/share/kolu/builds/.part-* 2>/dev/null || true") != ""
	})
	before := b.sent(t, name)
	c.ok("padi-tui", verb...)
	first, second := before-start, b.sent(t, name)-before
	t.Logf("%d bytes went over until the kill, then %d", first, second)
	if second > 6_000_000 { // a whole upload takes 7.8 MB; some of the first was still on its way
		t.Errorf("the second try sent %d bytes after %d", second, first)
	}
	if got := b.in(t, name, "ls -A /home/guest/.local/share/kolu/builds"); strings.Contains(got, ".part") || strings.Contains(got, ".tmp") {
		t.Errorf("left: %s", got)
	}
}

// sumOf is the sha256 of a file of this machine.
func sumOf(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.Command("sha256sum", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))[0]
}

// buildsThatRun gives one line (sum and path) for each kolu of the host that could be started.
func buildsThatRun(t *testing.T, b *testbed, host string) string {
	t.Helper()
	return b.in(t, host, `
		for f in /home/*/.local/share/kolu/builds/*/bin/kolu /root/.local/share/kolu/builds/*/bin/kolu /var/tmp/kolu*/builds/*/bin/kolu /tmp/kolu*/builds/*/bin/kolu; do
			[ -e "$f" ] && sha256sum "$f"
		done
		for d in /nix/store/*-kolu-*; do
			[ -d "$d" ] && nix-store --check-validity "$d" 2>/dev/null && sha256sum "$d/bin/kolu"
		done
		:`)
}
