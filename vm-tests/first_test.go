package vmtests

import (
	"strings"
	"sync"
	"testing"
)

// TestSeveralFirstClients has four clients that all are the first on a host: each gets its terminal, one padi runs, one build is
// there. Then the host's power goes: what the daemons left behind must not keep new ones from starting.
func TestSeveralFirstClients(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	for _, tt := range []struct {
		kind string
		n    int
	}{{"nixd/guest", 3}, {"nonix", 5}} {
		t.Run(tt.kind, func(t *testing.T) {
			alias := s.host(t, tt.kind, tt.n)
			host, _, _ := strings.Cut(alias, "-")
			clients := []*client{newClient(t), newClient(t), newClient(t), newClient(t)}
			results := make([]result, len(clients))
			var wg sync.WaitGroup
			for i, c := range clients {
				wg.Go(func() { results[i] = c.run("padi-tui", "create", "--toplevel", "--host", alias, "--", "cat") })
			}
			wg.Wait()
			list := clients[0].ok("kaval-tui", "list", "--host", alias)
			for i, r := range results {
				if r.code != 0 || len(r.stdout) < 36 || !strings.Contains(list, r.stdout[:8]) {
					t.Errorf("client %d: %v\nlist:\n%s", i, r, list)
				}
			}
			if got := b.in(t, host, "ss -Hxl"); strings.Count(got, "/padi.sock") != 1 {
				t.Errorf("want one padi that listens:\n%s", got)
			}
			if got := buildsThatRun(t, b, host); strings.Count(got, "\n") != 1 {
				t.Errorf("builds: %q, want one", got)
			}
			b.do(t, "crash", host)
			b.do(t, "reboot", host)
			c := newClient(t)
			sent := b.sent(t, host)
			if list := c.ok("kaval-tui", "list", "--host", alias); strings.Contains(list, results[0].stdout[:8]) {
				t.Errorf("a terminal is listed that no reboot survives:\n%s", list)
			}
			if sent = b.sent(t, host) - sent; sent > 256<<10 {
				t.Errorf("%d bytes went to a host that kept the build on its disk", sent)
			}
			c.ok("padi-tui", "create", "--toplevel", "--host", alias, "--", "cat")
		})
	}
}
