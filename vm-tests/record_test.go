package vmtests

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestRecordOfAHost has a terminal of this machine send to one on a host: the host's record says from where, with which program and how
// much, and not what, and a terminal that has ended is still in it.
func TestRecordOfAHost(t *testing.T) {
	s := setup(t)
	c := newClient(t)
	host := s.host(t, "nonix", 0)
	near, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	from := strings.TrimSpace(c.ok("padi-tui", "create", "--toplevel"))
	to := strings.TrimSpace(c.ok("padi-tui", "create", "--toplevel", "--host", host, "--", "cat"))
	c.env = append(c.env, "KAVAL_TERMINAL_ID="+from)
	c.ok("kolu", "send", host+"/"+to, "s3cret")
	c.ok("kolu", "kill", host+"/"+to)

	var found []struct {
		Kind, To, Text string
		Bytes          int
		From           struct{ Face, Terminal, Host string }
	}
	text := c.ok("kolu", "record", host+"/"+to[:8], "--json")
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	kinds := []string{}
	for _, s := range found {
		kinds = append(kinds, s.Kind)
	}
	if strings.Join(kinds, " ") != "create input kill" || strings.Contains(text, "s3cret") {
		t.Fatalf("recorded: %s", text)
	}
	if in := found[1]; in.To != to || in.Bytes != 6 || in.From.Face != "kolu" || in.From.Terminal != from || in.From.Host != near {
		t.Errorf("the send is recorded as %+v", in)
	}
	for _, table := range []string{c.ok("padi-tui", "record", "--host", host), c.ok("kolu", "record", host+"/"+from[:8])} {
		if !strings.Contains(table, near+"/"+from[:8]) {
			t.Errorf("no %s/%s in\n%s", near, from[:8], table)
		}
	}
	if here := c.run("kolu", "record"); here.code != 0 || strings.Contains(here.stdout, to[:8]) {
		t.Errorf("what went to the host is in the record of this machine: %v", here)
	}
}
