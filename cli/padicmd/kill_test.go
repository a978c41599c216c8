package padicmd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
)

// killsVar says how often padi is killed; acceptance asks for 200.
const killsVar = "KOLU_KILLS"

func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv(killsVar)
	if text == "" {
		return 12
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number of kills", killsVar, text)
	}
	return n
}

// mortal is a padi that is killed and started again, and the line to it, which is made again each time.
type mortal struct {
	h      *host
	root   string
	socket string

	mu    sync.Mutex
	cmd   *exec.Cmd
	line  int
	alive chan struct{} // closed while there is one
}

var _ daemon.Redialer = (*mortal)(nil)

func (m *mortal) Up(ctx context.Context) (int, error) {
	for {
		m.mu.Lock()
		line, alive := m.line, m.alive
		m.mu.Unlock()
		select {
		case <-alive:
			return line, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (m *mortal) Dial(ctx context.Context) (net.Conn, error) {
	if _, err := m.Up(ctx); err != nil {
		return nil, err
	}
	return daemon.Unix(m.socket).Dial(ctx)
}

func (m *mortal) start() {
	m.h.t.Helper()
	cmd := m.h.command("padi", "--state-root", m.root)
	if err := cmd.Start(); err != nil {
		m.h.t.Fatal(err)
	}
	m.h.until("padi", func() bool {
		hello, err := daemon.ReadHello(m.h.t.Context(), daemon.Unix(m.socket))
		return err == nil && hello.PID == cmd.Process.Pid
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cmd, m.line = cmd, m.line+1
	close(m.alive)
}

func (m *mortal) kill() {
	m.mu.Lock()
	cmd := m.cmd
	m.alive = make(chan struct{})
	m.mu.Unlock()
	cmd.Process.Kill()
	cmd.Wait() // it was killed
}

// end ends it in peace.
func (m *mortal) end() {
	m.cmd.Process.Signal(syscall.SIGTERM)
	m.cmd.Wait()
}

// acked is what padi has acknowledged.
type acked struct {
	mu     sync.Mutex
	intent map[string]padi.TerminalID
	sent   []int
}

// Padi is killed at random moments, while terminals are made, written to, put to sleep, woken and restored. No terminal is lost, the
// session never shrinks, and nothing that is asked again on the next line happens twice. KOLU_KILLS=200 is the whole of it.
func TestPadiIsKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	m := &mortal{h: h, root: h.dir + "/.local/state/padi", socket: h.padiHome().Socket(), alive: make(chan struct{})}
	parked := plant(t, m.root, 20)
	m.start()
	k := h.connected(m.socket)
	defer m.end()
	client := padirpc.NewClient(m)
	defer client.Close()
	cat, err := client.Create(t.Context(), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: h.dir, Intent: "cat"})
	if err == nil {
		err = client.Write(t.Context(), cat.ID, kaval.Input{Data: []byte("stty -echo; exec cat > " + h.dir + "/took\r")})
	}
	if err != nil {
		t.Fatal(err)
	}
	h.until("cat", func() bool { _, err := os.Stat(h.dir + "/took"); return err == nil })

	a := &acked{intent: map[string]padi.TerminalID{"cat": cat.ID}}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { a.create(ctx, client, h.dir) })
	working.Go(func() { a.send(ctx, client, cat.ID) })
	working.Go(func() { a.doze(ctx, client) })
	working.Go(func() { a.restore(ctx, client, parked) })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range kills(t) {
		moment := time.NewTimer(time.Duration(random.IntN(200)) * time.Millisecond)
		<-moment.C
		m.kill()
		m.start()
	}
	stop()
	working.Wait()
	h.connected(m.socket)
	a.verify(t, h, client, k.Socket, append(parked, cat.ID))
}

// plant writes a session with n parked terminals.
func plant(t *testing.T, root string, n int) (ids []padi.TerminalID) {
	t.Helper()
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	var terminals []map[string]any
	for i := range n {
		id := padi.TerminalID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		ids = append(ids, id)
		terminals = append(terminals, map[string]any{"id": id, "state": "parked", "cwd": "/tmp", "intent": fmt.Sprint("parked ", i)})
	}
	text, err := json.Marshal(map[string]any{"version": 1, "terminals": terminals})
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "session.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func (a *acked) create(ctx context.Context, c *padirpc.Client, dir string) {
	for i := 0; i < 400 && ctx.Err() == nil; i++ { // not without end: they are shells
		intent := fmt.Sprint("made ", i)
		made, err := c.Create(ctx, padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: dir, Intent: intent})
		if err == nil {
			a.mu.Lock()
			a.intent[intent] = made.ID
			a.mu.Unlock()
		}
	}
}

func (a *acked) send(ctx context.Context, c *padirpc.Client, to padi.TerminalID) {
	for i := 0; ctx.Err() == nil; i++ {
		if err := c.Write(ctx, to, kaval.Input{Data: fmt.Appendf(nil, "%d\r", i)}); err == nil {
			a.mu.Lock()
			a.sent = append(a.sent, i)
			a.mu.Unlock()
		}
	}
}

// doze puts to sleep and wakes what create has made.
func (a *acked) doze(ctx context.Context, c *padirpc.Client) {
	for ctx.Err() == nil {
		id := a.any()
		if id == "" {
			pause := time.NewTimer(time.Millisecond)
			<-pause.C
			continue
		}
		if _, err := c.Sleep(ctx, id); err == nil {
			_, _ = c.Wake(ctx, id, padi.WakeRequest{}) // it may be cut; either way the terminal is there
		}
	}
}

func (a *acked) any() padi.TerminalID {
	a.mu.Lock()
	defer a.mu.Unlock()
	for intent, id := range a.intent {
		if intent != "cat" {
			return id
		}
	}
	return ""
}

func (a *acked) restore(ctx context.Context, c *padirpc.Client, parked []padi.TerminalID) {
	for _, id := range parked {
		if ctx.Err() != nil {
			return
		}
		_, _ = c.Restore(ctx, padi.RestoreRequest{IDs: []padi.TerminalID{id}})
	}
}

func (a *acked) verify(t *testing.T, h *host, c *padirpc.Client, socket string, must []padi.TerminalID) {
	t.Helper()
	recs, err := c.Terminals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there, intents := map[padi.TerminalID]padi.Record{}, map[string]int{}
	for _, r := range recs {
		there[r.ID] = r
		intents[r.Intent]++
	}
	for intent, id := range a.intent {
		must = append(must, id)
		if r, ok := there[id]; ok && r.Intent != intent {
			t.Errorf("%s is for %q, was made for %q", id, r.Intent, intent)
		}
	}
	for _, id := range must {
		if _, ok := there[id]; !ok {
			t.Errorf("%s is lost", id)
		}
	}
	for intent, n := range intents {
		if n > 1 && intent != "" {
			t.Errorf("%d terminals are for %q", n, intent)
		}
	}
	live, err := kavalrpc.NewClient(daemon.Unix(socket)).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range live {
		if r, ok := there[l.ID]; !ok || r.State != padi.Active {
			t.Errorf("%s runs, and the roster has %+v", l.ID, r)
		}
	}
	took := a.took(t, h)
	t.Logf("%d made, %d of %d writes acknowledged, %d records, %d live", len(a.intent), len(a.sent), took, len(recs), len(live))
	if len(a.intent) < 2 || len(a.sent) == 0 {
		t.Error("nothing was staged")
	}
}

// took looks at what arrived: nothing twice, in order, and all that was acknowledged.
func (a *acked) took(t *testing.T, h *host) (n int) {
	t.Helper()
	var got []int
	h.until("the last write", func() bool {
		text, err := os.ReadFile(h.dir + "/took")
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for line := range strings.Lines(string(text)) {
			if i, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				got = append(got, i)
			} else if !errors.Is(err, strconv.ErrSyntax) || strings.TrimSpace(line) != "" {
				t.Fatalf("it took %q", line)
			}
		}
		return len(a.sent) == 0 || slices.Contains(got, a.sent[len(a.sent)-1])
	})
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("something arrived twice or late: %v", twice(got))
	}
	for _, i := range a.sent {
		if _, ok := slices.BinarySearch(got, i); !ok {
			t.Errorf("write %d was acknowledged and did not arrive", i)
		}
	}
	return len(got)
}

// twice are the numbers that do not come after the one before.
func twice(got []int) (bad []int) {
	for i := 1; i < len(got); i++ {
		if got[i] <= got[i-1] {
			bad = append(bad, got[i])
		}
	}
	return bad
}
