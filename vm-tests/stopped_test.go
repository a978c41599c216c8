package vmtests

import (
	"strings"
	"testing"
)

// TestAStoppedPadi stops a host's padi under a driver. A call to it ends by its own bound and says so, verbs fail loudly instead of showing
// what they no longer know, and none of it touches the line or the daemon: the same line carries the next answer.
func TestAStoppedPadi(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	host := s.host(t, "nonix", 7)
	ch := &chaos{t: t, b: b, c: newClient(t), host: host}
	id := ch.c.ok("padi-tui", "create", "--toplevel", "--host", host, "--", "cat")
	defer ch.c.run("kolu", "kill", host+"/"+id)
	before := facts(ch.c, host)
	d := ch.startDriver()
	defer d.session.Close()
	settled := map[string]any{"id": id, "idleMs": 100, "timeoutMs": 2000}
	if _, err := d.call("wait_outputSettled", settled); err != nil {
		t.Fatal(err)
	}
	const signal = `for f in /tmp/padi-*/padi.pid; do read -r pid rest <$f; kill -%s $pid; done`
	b.in(t, host, strings.Replace(signal, "%s", "STOP", 1))
	stopped := true
	proceed := func() {
		if stopped {
			b.in(t, host, strings.Replace(signal, "%s", "CONT", 1))
			stopped = false
		}
	}
	defer proceed()
	if text, err := d.call("wait_outputSettled", settled); err != nil || !strings.Contains(text, `"timeout"`) {
		t.Errorf("wait_outputSettled on a stopped padi: %s, %v", text, err)
	}
	slow := make(chan error, 1)
	go func() {
		_, err := d.call("screen_text", map[string]any{"id": id, "tail": 10})
		slow <- err
	}()
	for _, argv := range [][]string{{"padi-tui", "status"}, {"padi-tui", "create", "--toplevel"}, {"padi-tui", "kill", id}} {
		r := ch.c.run(argv[0], append(argv[1:], "--host", host)...)
		if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "does not answer, and is left alone") {
			t.Errorf("%v on a stopped padi: %v", argv, r)
		}
	}
	if err := <-slow; err == nil || !strings.Contains(err.Error(), "no answer from padi within") {
		t.Errorf("screen_text on a stopped padi: %v", err)
	}
	proceed()
	if _, err := d.call("wait_outputSettled", settled); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if said := d.stderr.String(); strings.Contains(said, "line was lost") {
		t.Errorf("the line was given up for one slow call:\n%s", said)
	}
	if after := facts(ch.c, host); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
