package vmtests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestKilledAtFiftyMoments kills a client with SIGKILL fifty times while its first verb is under way: 25 moments spread over the
// time that such a verb takes on a host with Nix, and 25 on one without. Each time nothing may be left that is half done, over there or
// here, and the next dial works: it is the next one to be killed, and every fifth time it is let through.
func TestKilledAtFiftyMoments(t *testing.T) {
	s := setup(t)
	b := s.needBed(t)
	start := time.Now()
	var both sync.WaitGroup
	defer func() { t.Logf("fifty kills took %s", time.Since(start)) }()
	defer both.Wait()
	for _, tt := range []struct {
		kind, transport string
		n               int
	}{{"nixd/guest", "native", 4}, {"nonix", "master", 6}} {
		k := &killer{t: t, b: b, c: newClient(t), alias: s.host(t, tt.kind, tt.n), transport: tt.transport, random: rand.New(rand.NewPCG(uint64(start.UnixNano()), 1))}
		k.host, _, _ = strings.Cut(k.alias, "-")
		both.Go(k.run)
	}
}

type killer struct {
	t                      *testing.T
	b                      *testbed
	c                      *client
	alias, host, transport string
	random                 *rand.Rand
}

func (k *killer) run() {
	took := k.whole()
	k.t.Logf("%s: a first verb takes %s", k.alias, took)
	const kills = 25
	took = min(took, 2*time.Second) // on a busy machine the moments are the earlier ones, and the whole stays within a minute as a rule
	for i := range kills {
		k.cold()
		at := time.Duration((float64(i) + k.random.Float64()) / kills * float64(took))
		if err := k.kill(at); err != nil {
			k.t.Errorf("%s: %v", k.alias, err)
			return
		}
		if left := k.left(); left != "" {
			k.t.Errorf("%s: after a kill at %s there is left: %s", k.alias, at, left)
		}
		if i%5 == 4 {
			k.whole()
		}
	}
}

// cold takes the builds, the daemons and the roots away, and here the master, so that the next verb is a first one.
func (k *killer) cold() {
	if _, err := k.b.output("in", k.host, "sh", "-ec", `
		for f in /tmp/padi-*/padi.pid /tmp/kaval-*/kaval.pid; do [ -e "$f" ] && read -r pid rest <"$f" && kill "$pid" 2>/dev/null || true; done
		rm -rf /home/*/.local/share/kolu /home/*/.local/state/kolu /tmp/padi-* /tmp/kaval-*
		for p in /nix/store/*-kolu-*; do [ -e "$p" ] && nix-store --delete "$p" >/dev/null 2>&1 || true; done
		:`); err != nil {
		k.t.Error(err)
	}
	for _, pid := range k.c.processes() {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}

// whole is a first verb that is let through.
func (k *killer) whole() time.Duration {
	k.cold()
	start := time.Now()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	if out, err := k.c.command(ctx, "padi-tui", "status", "--host", k.alias, "--ssh", k.transport).CombinedOutput(); err != nil {
		k.t.Errorf("%s: a dial that was let through: %v: %s", k.alias, err, out)
	}
	return time.Since(start)
}

// kill kills a verb so long after its start. One that was quicker is as good.
func (k *killer) kill(at time.Duration) error {
	cmd := k.c.command(k.t.Context(), "padi-tui", "status", "--host", k.alias, "--ssh", k.transport)
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := time.AfterFunc(at, func() { cmd.Process.Kill() })
	cmd.Wait()
	stop.Stop()
	return nil
}

// left says what is half done, once the far side has had the time to notice. Where a master forgets to end the session of a client that
// was killed, as OpenSSH's does when it had something to hand to it, the far side notices by itself that nothing comes any more.
func (k *killer) left() string {
	most := 10 * time.Second
	if k.transport == "master" {
		most = 2 * time.Minute
	}
	var left string
	for deadline := time.Now().Add(most); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if left = k.there() + k.here(); left == "" {
			return ""
		}
	}
	return left
}

// there is what a host has that is no whole build: partial files, processes that still wait for bytes, and builds with other bytes.
func (k *killer) there() string {
	out, err := k.b.output("in", k.host, "sh", "-ec", `
		find /home /var/tmp /tmp -name ".tmp-*" 2>/dev/null
		find /home /var/tmp /tmp -name ".kolu-probe-*" 2>/dev/null
		for d in /home/*/.local/share/kolu/builds/*; do [ -d "$d" ] && { [ -s "$d/bin/kolu" ] && [ -x "$d/bin/pulam-tui" ] || echo "$d is not whole"; }; done
		for p in /proc/[0-9]*; do
			tr "\0" " " <$p/cmdline 2>/dev/null | grep -E "[n]ix-store --serve|[g]zip -dc|[s]h -c eval" || true
		done
		:`)
	if err != nil {
		return err.Error()
	}
	return out
}

// here is what this machine has: a process of the client other than a master, and a lock that somebody holds.
func (k *killer) here() string {
	for _, pid := range k.c.processes() {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if strings.HasSuffix(name, "/kolu") {
			return fmt.Sprintf("process %d (%s) here", pid, name)
		}
	}
	locks, _ := filepath.Glob(filepath.Join(k.c.home, "run", "kolu-ssh", "*.lock"))
	for _, lock := range locks {
		f, err := os.Open(lock)
		if err != nil {
			continue
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		f.Close()
		if err != nil {
			return "a lock here: " + lock
		}
	}
	return ""
}
