package padicmd_test

import (
	"net/http"
	"os"
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
