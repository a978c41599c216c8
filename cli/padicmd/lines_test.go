package padicmd_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/padi"
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/supervise"
	"kolu/daemon/padi/workspace"
)

// cuttable dials a socket, and cuts what it has dialled.
type cuttable struct {
	daemon.Dialer
	mu   sync.Mutex
	open []net.Conn
}

func (c *cuttable) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := c.Dialer.Dial(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.open = append(c.open, conn)
	}
	return conn, err
}

func (c *cuttable) cut() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		conn.Close()
	}
	n, c.open = len(c.open), nil
	return n
}

// keep runs a workspace over a kaval that is reached by line.
func (h *host) keep(line daemon.Dialer) (w *workspace.Workspace, status func() padi.KavalStatus) {
	h.t.Helper()
	store, err := session.Open(h.dir, discard())
	if err != nil {
		h.t.Fatal(err)
	}
	hello := func(ctx context.Context) (supervise.Facts, error) {
		got, err := daemon.ReadHello(ctx, line)
		return supervise.Facts{PID: got.PID, StartedAt: got.StartedAt, Contract: got.Contract, Socket: got.Socket}, err
	}
	s := supervise.New(supervise.Options{Log: discard(), Every: 50 * time.Millisecond, Hello: hello,
		Start: func(ctx context.Context) (kaval.Host, supervise.Facts, error) {
			facts, err := hello(ctx)
			return kavalrpc.NewClient(line), facts, err
		}})
	w = workspace.New(workspace.Options{Kaval: s, Status: s.Status, Instance: s.Instance, Store: store, Log: discard(), Environ: []string{"SHELL=/bin/sh", "HOME=" + h.dir}})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			h.t.Error(err)
		}
	})
	h.t.Cleanup(func() { stop(); running.Wait() })
	return w, s.Status
}

// Only the line between padi and its kaval is lost, again and again: the same kaval is taken back, with the same terminal and what it
// holds, and at no time is the terminal shown as ended or kaval as dead or restarting.
func TestOnlyTheLineToKavalIsLost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	cmd, socket := h.serveKaval("HOME="+h.dir, "PATH=/usr/bin:/bin", "KOLU_RUNTIME_DIR="+h.dir+"/run")
	defer cmd.Wait()
	defer cmd.Process.Signal(syscall.SIGTERM)
	line := &cuttable{Dialer: daemon.Unix(socket)}
	w, status := h.keep(line)
	made, err := w.Create(t.Context(), padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: h.dir})
	if err != nil {
		t.Fatal(err)
	}
	was := status()
	for round := range 3 {
		if line.cut() == 0 {
			t.Fatal("there was no line to cut")
		}
		h.until("the line", func() bool {
			rec, err := w.Terminal(t.Context(), made.ID)
			if k := status(); err != nil || rec.State != padi.Active || rec.PID != made.PID || k.State == "dead" || k.State == "restarting" {
				t.Fatalf("round %d: %+v, %v; kaval %+v", round, rec, err, k)
			}
			from := int64(0)
			if err := w.Write(t.Context(), made.ID, kaval.Input{Data: []byte("n=$((n+1)); echo at $n\r")}); err != nil {
				return false
			}
			res, err := w.Wait(t.Context(), made.ID, padi.WaitRequest{Match: "at [0-9]", After: &from, TimeoutMS: 20000})
			return err == nil && res.Result == kaval.Met
		})
	}
	if now := status(); now.PID != was.PID || now.StartedAt != was.StartedAt || now.PID != cmd.Process.Pid {
		t.Errorf("kaval was %+v, is %+v", was, now)
	}
}

// slowed lets a process run for a twentieth of the time until stop, as on a host that has not enough for it.
func slowed(t *testing.T, pid int) (stop func()) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("pid %d", pid)
	}
	ended := make(chan struct{})
	var cycle sync.WaitGroup
	cycle.Go(func() {
		defer syscall.Kill(pid, syscall.SIGCONT)
		for {
			syscall.Kill(pid, syscall.SIGSTOP)
			select {
			case <-ended:
				return
			case <-time.After(95 * time.Millisecond):
			}
			syscall.Kill(pid, syscall.SIGCONT)
			time.Sleep(5 * time.Millisecond)
		}
	})
	stop = sync.OnceFunc(func() { close(ended); cycle.Wait() })
	t.Cleanup(stop)
	return stop
}

// The front and the daemon of a host have a twentieth of a processor: beside a flood the link stays, since any byte counts as life, and
// without one, since a ping is answered by the front alone. In the second part the daemon does nothing
// at all for half a minute, and a call that waits for it gets its answer after that.
func TestLinkToAHostThatIsSlow(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	front := h.command("kaval", "--stdio", "--nonce", "abcd1234")
	banner, mux, end := h.run(front)
	if mux == nil {
		t.Fatalf("refused: %+v", banner)
	}
	defer end()
	client := kavalrpc.NewClient(daemon.DialFunc(mux.Dial))
	defer client.Close()
	term, err := client.Spawn(t.Context(), kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", "cat /dev/zero | tr '\\0' x"}})
	if err != nil {
		t.Fatal(err)
	}
	slowed(t, front.Process.Pid)
	stopSlow := slowed(t, banner.PID)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	att, err := client.Attach(ctx, term.ID, kaval.AttachRequest{})
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for ; ctx.Err() == nil; frames++ {
		if _, err := att.Next(ctx); err != nil && ctx.Err() == nil {
			break // an overflow: the daemon is slower than its terminal
		}
	}
	att.Close()
	<-ctx.Done()
	stopSlow()
	h.signal(banner.PID, syscall.SIGSTOP)
	listed := make(chan error, 1)
	go func() {
		all, err := client.List(t.Context())
		if err == nil && (len(all) != 1 || all[0].ID != term.ID) {
			err = fmt.Errorf("terminals %+v", all)
		}
		listed <- err
	}()
	select {
	case err := <-listed:
		t.Errorf("a daemon that is stopped answered: %v", err)
		listed <- err
	case <-mux.Done():
		h.signal(banner.PID, syscall.SIGCONT)
		t.Fatalf("after %d frames the link ended: %v", frames, mux.Err())
	case <-time.After(30 * time.Second): // a ping after 15 s of silence, and 10 s for its answer
	}
	h.signal(banner.PID, syscall.SIGCONT)
	if err := <-listed; err != nil {
		t.Errorf("the call that was under way all the time: %v", err)
	}
	t.Logf("%d frames, round trip %s", frames, mux.RTT())
	if mux.RTT() == 0 || frames == 0 {
		t.Errorf("%d frames, round trip %s: nothing was asked of the front", frames, mux.RTT())
	}
}
