package workspace_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/ports"
	"kolu/daemon/padi/workspace"
)

// fakeScan finds what a test says.
type fakeScan struct {
	mu    sync.Mutex
	found map[padi.TerminalID][]padi.Port
	err   error
	takes time.Duration
	looks int
}

func (f *fakeScan) Scan(terminals []ports.Terminal) (map[padi.TerminalID][]padi.Port, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	time.Sleep(f.takes)
	out := map[padi.TerminalID][]padi.Port{}
	for _, t := range terminals {
		out[t.ID] = f.found[t.ID]
	}
	if f.err != nil {
		return nil, f.err
	}
	return out, nil
}

func (f *fakeScan) set(found map[padi.TerminalID][]padi.Port, err error, takes time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found, f.err, f.takes = found, err, takes
}

func (f *fakeScan) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.looks
	f.looks = 0
	return n
}

func TestPortsFollowTheTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, scan := newFake(), &fakeScan{}
		host.put(kaval.Terminal{ID: "a", PID: 7})
		w, stop := run(t, workspace.Options{Kaval: host, Ports: scan})
		defer stop()
		shows := func(what string, want *padi.Ports) {
			t.Helper()
			if diff := cmp.Diff(want, one(t, w, "a").Ports); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		web := []padi.Port{{Port: 8080, Family: "ipv4", Scope: "any", Address: "0.0.0.0", PID: 9, Process: "web"}}
		time.Sleep(6 * time.Second)
		shows("none", &padi.Ports{Status: "known"})
		scan.set(map[padi.TerminalID][]padi.Port{"a": web}, nil, 0)
		host.put(kaval.Terminal{ID: "a", PID: 7, ForegroundProcess: "web"})
		time.Sleep(1100 * time.Millisecond)
		shows("a server that started is seen within a second", &padi.Ports{Status: "known", List: web})
		scan.set(nil, errors.New("cannot look"), 0)
		time.Sleep(time.Minute)
		shows("who cannot look keeps what was known", &padi.Ports{Status: "known", List: web})
		scan.set(nil, errors.ErrUnsupported, 0)
		time.Sleep(6 * time.Second)
		shows("a system that does not tell", &padi.Ports{Status: "unsupported"})
		scan.set(nil, nil, 0)
		scan.count()
		time.Sleep(time.Minute)
		if n := scan.count(); n < 11 || n > 13 {
			t.Errorf("%d looks in a quiet minute", n)
		}
		for range 600 {
			host.output("a")
			host.put(kaval.Terminal{ID: "a", PID: 7, LastCommand: time.Now().String()})
			time.Sleep(100 * time.Millisecond)
		}
		if n := scan.count(); n > 61 {
			t.Errorf("%d looks in a noisy minute", n)
		}
		scan.set(nil, nil, 2*time.Second)
		time.Sleep(10 * time.Second)
		scan.count()
		for range 100 {
			host.put(kaval.Terminal{ID: "a", PID: 7, LastCommand: time.Now().String()})
			time.Sleep(time.Second)
		}
		if n := scan.count(); n > 3 {
			t.Errorf("%d slow looks in a hundred seconds", n)
		}
	})
}

func TestPortsAreUnknownBeforeALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		host.put(kaval.Terminal{ID: "a", PID: 7})
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		synctest.Wait()
		if got := one(t, w, "a").Ports; got == nil || got.Status != "unknown" {
			t.Errorf("%+v", got)
		}
	})
}
