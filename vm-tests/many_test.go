package vmtests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fleetOf lists five hosts of different kinds for a client, named by their kind, with a terminal on each whose id is in the map; end
// ends those.
func fleetOf(t *testing.T, c *client) (names []string, hosts, terminals map[string]string, end func()) {
	t.Helper()
	hosts, terminals = map[string]string{}, map[string]string{}
	for _, kind := range []string{"nix28", "nixd", "nonix", "nonix+dropbear", "nixd+fish"} {
		name := strings.ReplaceAll(kind, "+", "-")
		hosts[name] = c.s.host(t, kind, 0)
		c.ok("kolu", "host", "add", name, "--ssh", hosts[name], "--group", "fleet")
		terminals[name] = c.ok("padi-tui", "create", "--toplevel", "--host", name, "--", "cat")
		names = append(names, name)
	}
	return names, hosts, terminals, func() {
		for name, id := range terminals {
			c.ok("kolu", "kill", name+"/"+id)
		}
	}
}

type row struct {
	Host  string   `json:"host"`
	Names []string `json:"names"`
	ID    string   `json:"id"`
}

func rows(t *testing.T, r result) []row {
	t.Helper()
	var rows []row
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil {
		t.Fatalf("%v in %v", err, r)
	}
	return rows
}

// TestManyHosts asks five hosts at once: all answer; with one of them cut off the others' rows are there, it is named, and the exit
// code says that the answer is a part. Waits for terminals of two hosts end together.
func TestManyHosts(t *testing.T) {
	c := newClient(t)
	names, hosts, terminals, end := fleetOf(t, c)
	defer end()
	check := func(r result, want int, but string) {
		t.Helper()
		got := rows(t, r)
		for _, name := range names {
			there := slices.ContainsFunc(got, func(r row) bool { return r.Host == name && r.ID == terminals[name] })
			if there == (name == but) {
				t.Errorf("%s shown: %v, in %v", name, there, r)
			}
		}
		if r.code != want {
			t.Errorf("exit %d, want %d: %v", r.code, want, r)
		}
	}
	check(c.run("padi-tui", "status", "--group", "fleet", "--json"), 0, "")
	table := c.ok("kolu", "ls", "--all")
	for _, name := range names {
		if !strings.Contains(table, name+" ") || !strings.Contains(table, terminals[name][:8]) {
			t.Errorf("no row of %s in:\n%s", name, table)
		}
	}
	a, b := "nixd/"+terminals["nixd"][:8], "nonix/"+terminals["nonix"][:8]
	if r := c.run("kolu", "wait", a, b, "--until", "idle:200", "--timeout", "20000", "--all", "--json"); r.code != 0 || len(rows(t, r)) != 2 {
		t.Errorf("wait for both: %v", r)
	}
	if r := c.run("kolu", "wait", a, b, "nosuchhost.invalid/aaaaaaaa", "--until", "idle:200", "--timeout", "20000", "--all"); r.code != 4 || !strings.Contains(r.stderr, "nosuchhost.invalid") {
		t.Errorf("wait with one that is nowhere: %v", r)
	}
	if r := c.run("kolu", "kill", "--host", "nixd,nonix", terminals["nixd"]); r.code != 1 || !strings.Contains(r.stderr, "takes one host") {
		t.Errorf("kill on two hosts: %v", r)
	}
	if c.s.bed == nil {
		return
	}
	c.s.bed.do(t, "cut", hosts["nonix"])
	defer c.s.bed.do(t, "heal", hosts["nonix"])
	r := c.run("padi-tui", "status", "--all", "--json", "--timeout-host", "4000")
	check(r, 4, "nonix")
	if !strings.Contains(r.stderr, "padi-tui: nonix: ") || !strings.Contains(r.stderr, "1 of 5 hosts did not answer: nonix") {
		t.Errorf("the host that was cut off is not named: %v", r)
	}
	if r := c.run("padi-tui", "status", "--host", "nonix,nonix", "--host", "nosuchhost.invalid", "--timeout-host", "4000"); r.code != 1 {
		t.Errorf("none can answer: %v", r)
	}
}

// TestOneServerByFiftyNames logs in to one sshd of default limits by fifty names at once. It drops nobody, and what it shows is there
// once.
func TestOneServerByFiftyNames(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nonix", 0)
	address, alias := "", ""
	for line := range strings.Lines(newClient(t).ok("ssh", "-G", host) + "\n") {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key {
		case "hostname":
			address = value
		case "hostkeyalias":
			alias = value
		}
	}
	var names, options []string
	for i := range 50 {
		name := fmt.Sprintf("%s-name%d", host, i)
		names = append(names, name)
		// A proxy that has the name in it could lead each name elsewhere, so nothing is known to be one machine before it is asked.
		options = append(options, "Host "+name, " HostName "+address, " HostKeyAlias "+alias, " ProxyCommand nc.openbsd -w 30 %h %p # %n")
	}
	c := newClient(t, append(options, "Host *")...)
	id := c.ok("padi-tui", "create", "--toplevel", "--host", names[0], "--", "cat")
	defer c.run("kolu", "kill", names[0]+"/"+id)
	drops := func() int { return strings.Count(b.do(t, "logs", host), "MaxStartups") }
	for _, transport := range []string{"native", "master"} {
		before := drops()
		r := c.run("padi-tui", "status", "--host", strings.Join(names, ","), "--ssh", transport, "--json")
		got := rows(t, r)
		n := 0
		for _, row := range got {
			if row.ID == id {
				n++
				if row.Host != names[0] || !slices.Equal(row.Names, names) {
					t.Errorf("%s: the row is of %s and %d names", transport, row.Host, len(row.Names))
				}
			}
		}
		if r.code != 0 || n != 1 || strings.Contains(r.stderr, "did not answer") {
			t.Errorf("%s: the terminal is there %d times, exit %d\n%s", transport, n, r.code, r.stderr)
		}
		if after := drops(); after != before {
			t.Errorf("%s: the server dropped connections", transport)
		}
	}
}
