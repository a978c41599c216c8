package padicmd_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kolu/daemon"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
)

// A padi makes its kaval its own build when it is asked to: the same process, with the same terminal, and one guard beside it.
func TestKavalUpgradeThroughPadi(t *testing.T) {
	h := newHost(t)
	banner, mux, end := h.front("padi")
	if mux == nil {
		t.Fatalf("%+v", banner)
	}
	defer end()
	before := h.connected(banner.Socket)
	client := padirpc.NewClient(daemon.Unix(banner.Socket))
	defer client.Close()
	made, err := client.Create(t.Context(), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}})
	if err != nil {
		t.Fatal(err)
	}
	was, err := client.Terminal(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		status, err := client.UpgradeKaval(t.Context())
		if err != nil || status.PID != before.PID || status.StartedAt != before.StartedAt {
			t.Fatalf("%+v, %v; was %+v", status, err, before)
		}
	}
	h.until("padi has its kaval again", func() bool {
		now, err := client.Terminal(t.Context(), made.ID)
		return err == nil && now.State == padi.Active && now.PID == was.PID
	})
	if list, err := client.Terminals(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	h.until("one guard", func() bool { return children(t, before.PID, "--guard") <= 1 })
	kaval := daemon.HTTPClient(daemon.Unix(before.Socket))
	defer kaval.CloseIdleConnections()
	resp, err := kaval.Post("http://kaval/v1/drain", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("drain: %s", resp.Status)
	}
}

// build makes a build of its own id, this very binary with a word behind it, and gives its directory.
func (h *host) build(word string) string {
	h.t.Helper()
	dir := filepath.Join(h.dir, word)
	self, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "padi"), append(self, word...), 0o755)
	}
	for _, link := range []string{"kaval", "padi-tui"} {
		if err == nil {
			err = os.Symlink("padi", filepath.Join(dir, link))
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return dir
}

// tui runs a build's padi-tui and gives what it says.
func (h *host) tui(build string, args ...string) (out, notes string) {
	h.t.Helper()
	cmd := h.command("padi-tui", args...)
	cmd.Path = filepath.Join(build, "padi-tui")
	var said bytes.Buffer
	cmd.Stderr = &said
	data, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("padi-tui %v: %v: %s", args, err, &said)
	}
	return string(data), said.String()
}

// padi-tui upgrade ends the padi that runs and starts its own build's: the terminals stay what they are.
func TestPadiUpgrade(t *testing.T) {
	h := newHost(t)
	first, second := h.build("first"), h.build("second")
	out, _ := h.tui(first, "create", "--toplevel", "--json")
	var made padi.Created
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err, out)
	}
	sockets, err := filepath.Glob(h.dir + "/run/padi*/*.sock")
	if err != nil || len(sockets) != 1 {
		t.Fatal(sockets, err)
	}
	line := daemon.Unix(sockets[0])
	was, err := daemon.ReadHello(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	client := padirpc.NewClient(line)
	defer client.Close()
	before, err := client.Terminal(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, notes := h.tui(second, "upgrade")
	is, err := daemon.ReadHello(t.Context(), line)
	if err != nil || is.PID == was.PID || is.Build == was.Build || is.StateRoot != was.StateRoot || !strings.Contains(notes, is.Build[:12]) {
		t.Errorf("the padi is %+v, was %+v; said %q, %v", is, was, notes, err)
	}
	h.until("padi has its terminal again", func() bool {
		now, err := client.Terminal(t.Context(), made.ID)
		return err == nil && now.State == padi.Active && now.PID == before.PID
	})
	if _, notes := h.tui(second, "upgrade"); !strings.Contains(notes, "already") {
		t.Errorf("a second upgrade said %q", notes)
	}
	if again, err := daemon.ReadHello(t.Context(), line); err != nil || again.PID != is.PID {
		t.Errorf("a second upgrade gave %+v, %v", again, err)
	}
}

// children counts the children of a process whose command line has a word, those that nobody reaped included; where the system
// does not show them it counts none.
func children(t *testing.T, parent int, word string) int {
	t.Helper()
	n := 0
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if fields[0] == "Z" || strings.Contains(string(line), word) {
			n++
		}
	}
	return n
}
