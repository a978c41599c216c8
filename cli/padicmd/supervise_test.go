package padicmd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/supervise"
	"kolu/daemon/padi/workspace"
)

// kept is a workspace in this process over a supervised kaval that is a process of its own, as padicmd wires them, with probes that
// follow one another faster.
type kept struct {
	*workspace.Workspace
	h    *host
	home daemon.Home
	mu   sync.Mutex
	exe  string
}

func (h *host) supervised() *kept {
	h.t.Helper()
	root := h.dir + "/root"
	if err := os.MkdirAll(root, 0o700); err != nil {
		h.t.Fatal(err)
	}
	store, err := session.Open(root, discard())
	if err != nil {
		h.t.Fatal(err)
	}
	getenv := func(k string) string { return map[string]string{daemon.RuntimeVar: h.dir + "/run"}[k] }
	k := &kept{h: h, home: daemon.HomeFor(daemon.Kaval, root, getenv), exe: os.Args[0]}
	s := supervise.New(supervise.Options{
		Log: discard(), Every: 100 * time.Millisecond, Timeout: 3 * time.Second,
		Start: k.start, Hello: k.hello, Freeze: func() func() { return k.Workspace.Freeze() },
		Stop: func(ctx context.Context) error { return daemon.Stop(ctx, k.home, time.Second) },
	})
	k.Workspace = workspace.New(workspace.Options{
		Kaval: s, Status: s.Status, Instance: s.Instance, Restart: s.Restart, Store: store, Log: discard(), Environ: []string{"SHELL=/bin/sh", "HOME=" + h.dir},
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	running.Go(func() {
		if err := k.Workspace.Run(ctx); err != nil {
			h.t.Error(err)
		}
	})
	h.t.Cleanup(func() { stop(); running.Wait() })
	return k
}

func (k *kept) start(ctx context.Context) (kaval.Host, supervise.Facts, error) {
	k.mu.Lock()
	exe := k.exe
	k.mu.Unlock()
	hello, err := daemon.Start(ctx, daemon.StartConfig{
		Home: k.home, Exe: exe, Name: "kaval", Args: []string{"--state-root", k.home.StateRoot, "--tools", k.h.dir}, Environ: k.h.command("kaval").Env, Log: discard(),
	})
	return kavalrpc.NewClient(daemon.Unix(k.home.Socket())), factsOf(hello), err
}

func (k *kept) hello(ctx context.Context) (supervise.Facts, error) {
	hello, err := daemon.ReadHello(ctx, daemon.Unix(k.home.Socket()))
	return factsOf(hello), err
}

func factsOf(h daemon.Hello) supervise.Facts {
	return supervise.Facts{PID: h.PID, StartedAt: h.StartedAt, Contract: h.Contract, Build: h.Build, Socket: h.Socket}
}

// startWith has the next kaval started from another file.
func (k *kept) startWith(exe string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.exe = exe
}

func (k *kept) status() padi.KavalStatus {
	k.h.t.Helper()
	s, err := k.Kaval(k.h.t.Context())
	if err != nil {
		k.h.t.Fatal(err)
	}
	return s
}

// within is h.until with time for strikes, on a machine that is busy.
func (k *kept) within(what string, f func() bool) {
	k.h.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !f(); {
		if time.Now().After(deadline) {
			k.h.t.Fatalf("%s did not come; kaval is %+v", what, k.status())
		}
		poll := time.NewTimer(10 * time.Millisecond)
		<-poll.C
	}
}

func (k *kept) create(parent padi.TerminalID, intent string) padi.TerminalID {
	k.h.t.Helper()
	place := padi.Placement{Parent: parent, Toplevel: parent == ""}
	made, err := k.Create(k.h.t.Context(), padi.CreateRequest{Placement: place, CWD: k.h.dir, Intent: intent})
	if err != nil {
		k.h.t.Fatal(err)
	}
	return made.ID
}

// roster is what a terminal is, by id, in order.
func roster(t *testing.T, ws padi.Workspace) (list []string) {
	t.Helper()
	recs, err := ws.Terminals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		list = append(list, fmt.Sprintf("%s %s %s<%s", r.ID, r.State, r.Intent, r.ParentID))
	}
	return list
}

// However a kaval fails, what ran in it is parked, another takes its place, that is told apart from a lost line, and a restore brings
// every terminal back under its id and in its place.
func TestKavalIsReplacedAndTheSessionRestored(t *testing.T) {
	for name, fail := range map[string]struct {
		signal syscall.Signal
		told   bool
	}{
		"stopped: it accepts and is silent": {syscall.SIGSTOP, true}, "killed": {syscall.SIGKILL, true}, "ended": {syscall.SIGTERM, true}, "on request": {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			k := h.supervised()
			a := k.create("", "first")
			k.create(a, "split")
			k.create("", "last")
			was, before := k.status(), roster(t, k)
			if fail.signal == 0 {
				if now, err := k.RestartKaval(t.Context()); err != nil || now.Parked != 3 {
					t.Fatalf("%+v, %v", now, err)
				}
			} else {
				h.signal(was.PID, fail.signal)
			}
			k.within("another kaval", func() bool {
				now := k.status()
				return now.State == "connected" && now.PID != was.PID && now.Parked == 3 && (now.RestartedAt > 0 || !fail.told)
			})
			if now := k.status(); now.LineRestoredAt != 0 || !fail.told && now.RestartedAt != 0 {
				t.Errorf("told: %+v", now)
			}
			var done padi.Restored
			k.within("a kaval that takes orders", func() bool {
				var err error
				done, err = k.Restore(t.Context(), padi.RestoreRequest{})
				return err == nil && len(done.Failed) == 0
			})
			if after := roster(t, k); len(done.Terminals) != 3 || !slices.Equal(after, before) {
				t.Errorf("restored %+v\nwas %q\nis  %q", done, before, after)
			}
		})
	}
}

// Three repairs that fail end in a kaval that is left alone and said to be dead; asking for a restart is the way on.
func TestThreeFailedRepairsStandDown(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	k := h.supervised()
	k.create("", "mine")
	was := k.status()
	bad := filepath.Join(h.dir, "bad")
	if err := os.WriteFile(bad, []byte("#!/bin/sh\necho x >>"+h.dir+"/tries\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	k.startWith(bad)
	h.signal(was.PID, syscall.SIGKILL)
	k.within("standing down", func() bool { now := k.status(); return now.State == "dead" && strings.Contains(now.Detail, "in vain") })
	tries, _ := os.ReadFile(h.dir + "/tries")
	if len(tries) == 0 {
		t.Error("nothing was tried")
	}
	k.startWith(os.Args[0])
	quiet := time.NewTimer(2 * time.Second) // twenty probes
	<-quiet.C
	if again, _ := os.ReadFile(h.dir + "/tries"); len(again) != len(tries) || k.status().State != "dead" {
		t.Errorf("tried again: %q then %q, %+v", tries, again, k.status())
	}
	if now, err := k.RestartKaval(t.Context()); err != nil || now.State != "connected" || now.Parked != 1 {
		t.Errorf("%+v, %v", now, err)
	}
}

// A reboot: every process is killed and the runtime directories are wiped. The next padi knows every terminal, and a restore brings
// them back with their ids, in their order; the line of an agent is typed.
func TestAReboot(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	banner, _, end := h.front("padi")
	end()
	client := padirpc.NewClient(daemon.Unix(banner.Socket))
	defer client.Close()
	was := h.connected(banner.Socket)
	var parent padi.TerminalID
	for _, intent := range []string{"one", "two", "three"} {
		place := padi.Placement{Parent: parent, Toplevel: parent == ""}
		made, err := client.Create(t.Context(), padi.CreateRequest{Placement: place, CWD: h.dir, Intent: intent})
		if err != nil {
			t.Fatal(err)
		}
		parent = made.ID
	}
	if _, err := client.Sleep(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	before := roster(t, client)
	h.signal(banner.PID, syscall.SIGKILL)
	h.signal(was.PID, syscall.SIGKILL)
	h.until("their end", func() bool { return zombies(banner.PID, was.PID) })
	if err := os.RemoveAll(h.dir + "/run"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.dir+"/run", 0o700); err != nil {
		t.Fatal(err)
	}

	next, _, end := h.front("padi")
	end()
	again := padirpc.NewClient(daemon.Unix(next.Socket))
	defer again.Close()
	h.connected(next.Socket)
	s, err := again.Session(t.Context())
	if err != nil || len(s.Parked) != 2 || s.Sleeping != 1 || s.Active != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	if list, err := again.Backups(t.Context()); err != nil || len(list) == 0 || list[0].Terminals != 3 {
		t.Errorf("backups %+v, %v", list, err)
	}
	done, err := again.Restore(t.Context(), padi.RestoreRequest{})
	if err != nil || len(done.Terminals) != 2 || len(done.Failed) != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if after := roster(t, again); !slices.Equal(after, before) {
		t.Errorf("was %q\nis  %q", before, after)
	}
	from := int64(0)
	if err := again.Write(t.Context(), done.Terminals[0].ID, kaval.Input{Data: []byte("echo in $PWD $KAVAL_TERMINAL_ID\r")}); err != nil {
		t.Fatal(err)
	}
	res, err := again.Wait(t.Context(), done.Terminals[0].ID, padi.WaitRequest{Match: "in " + h.dir + " " + string(done.Terminals[0].ID), After: &from, TimeoutMS: 60000})
	if err != nil || res.Result != kaval.Met {
		t.Errorf("%+v, %v", res, err)
	}
}

// zombies reports that processes have ended, though nobody may have reaped them.
func zombies(pids ...int) bool {
	return !slices.ContainsFunc(pids, func(pid int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && !strings.Contains(string(stat), ") Z ")
	})
}
