package fan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kolu/fleet/inventory"
	"kolu/fleet/ssh"
	"kolu/internal/fault"
)

func hosts(names ...string) []inventory.Host {
	var out []inventory.Host
	for _, n := range names {
		out = append(out, inventory.Host{Name: n, SSH: n})
	}
	return out
}

func numbered(n int) []inventory.Host {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("h%d", i))
	}
	return hosts(names...)
}

// counter notes how many go on at once, over all and by a key.
type counter struct {
	mu        sync.Mutex
	now, most int
	by, mostB map[string]int
}

func newCounter() *counter { return &counter{by: map[string]int{}, mostB: map[string]int{}} }

func (c *counter) add(n int, keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
	for _, k := range keys {
		c.by[k] += n
		c.mostB[k] = max(c.mostB[k], c.by[k])
	}
}

// pause is a wait that ends with the context.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Three hundred hosts behind two jump hosts, a hundred of them one sshd: no door ever sees more than eight, and there are never more
// than 64 over all; what streams does not hold a place.
func TestLimitsAreNeverExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doorsOf := func(target string) []string {
			var n int
			fmt.Sscanf(target, "h%d", &n)
			switch {
			case n < 100:
				return []string{"jump1", target}
			case n < 200:
				return []string{"one sshd"}
			case n < 220:
				return []string{"jump2", "one sshd"}
			}
			return []string{target}
		}
		handshakes, dials := newCounter(), newCounter()
		stream := make(chan struct{})
		streaming := newCounter()
		start := time.Now()
		time.AfterFunc(time.Hour, func() { close(stream) })
		out := Each(t.Context(), numbered(300), Options{
			Route: func(_ context.Context, target string) (Route, error) { return Route{Doors: doorsOf(target)}, nil },
		}, func(ctx context.Context, turn *Turn) error {
			doors := doorsOf(turn.Host().SSH)
			handshakes.add(1, doors...)
			dials.add(1)
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
			handshakes.add(-1, doors...)
			turn.Step("probe")
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
			dials.add(-1)
			if !turn.Reached("") {
				t.Errorf("%s is taken for another", turn.Host().Name)
			}
			turn.Streaming()
			streaming.add(1)
			<-stream
			return nil
		})
		for _, o := range out {
			if o.Err != nil || o.Same {
				t.Errorf("%+v", o)
			}
		}
		if dials.most != Overall || streaming.most != 300 {
			t.Errorf("at most %d dials and %d streams, want %d and 300", dials.most, streaming.most, Overall)
		}
		for door, most := range handshakes.mostB {
			if most > PerDoor || (most < PerDoor && strings.Contains("jump1 one sshd", door)) {
				t.Errorf("%s saw %d handshakes at once, want %d", door, most, PerDoor)
			}
		}
		if took := time.Since(start); took > time.Hour+time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// One host of a hundred hangs: the others have answered within the time of their own rounds, and the one that hangs ends by its
// silence with a name.
func TestOneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		last := time.Duration(0)
		var failed []string
		out := Each(t.Context(), numbered(100), Options{
			Failed: func(h inventory.Host, err error) { failed = append(failed, h.Name+" "+err.Error()) },
		}, func(ctx context.Context, turn *Turn) error {
			if turn.Host().Name == "h7" {
				<-ctx.Done()
				return ctx.Err()
			}
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			last = max(last, time.Since(start))
			return nil
		})
		if last != 2*time.Second {
			t.Errorf("the last answer came after %v, want the two rounds of 64", last)
		}
		if took := time.Since(start); took < Silence || took > Silence+time.Second { // it may have come in the second round
			t.Errorf("took %v, want about %v", took, Silence)
		}
		if !fault.Is(out[7].Err, fault.Timeout) || len(failed) != 1 || !strings.HasPrefix(failed[0], "h7 h7: nothing came for 30s (while connecting) — ") {
			t.Errorf("%v %q", out[7].Err, failed)
		}
		for i, o := range out {
			if i != 7 && o.Err != nil {
				t.Errorf("%s: %v", o.Host.Name, o.Err)
			}
		}
	})
}

// Silence counts, not the total; and what streams may be silent.
func TestProgressResetsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := Each(t.Context(), hosts("slow", "stuck", "stream"), Options{Silence: time.Minute}, func(ctx context.Context, turn *Turn) error {
			for range 10 {
				if err := pause(ctx, 50*time.Second); err != nil {
					return err
				}
				turn.Step("provision")
			}
			switch turn.Host().Name {
			case "stuck":
				return pause(ctx, time.Hour)
			case "stream":
				turn.Reached("x")
				turn.Streaming()
				return pause(ctx, time.Hour)
			}
			return nil
		})
		if out[0].Err != nil || out[2].Err != nil || !fault.Is(out[1].Err, fault.Timeout) || !strings.Contains(out[1].Err.Error(), "1m0s (at provision)") {
			t.Errorf("%+v", out)
		}
	})
}

func TestContextEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		time.AfterFunc(time.Second, func() { cancel(stop) })
		asked := newCounter()
		out := Each(ctx, numbered(200), Options{}, func(ctx context.Context, turn *Turn) error {
			asked.add(1)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		for _, o := range out {
			if !errors.Is(o.Err, stop) {
				t.Errorf("%+v", o)
			}
		}
		if asked.most < Overall {
			t.Errorf("%d asked", asked.most)
		}
	})
}

// Names that ssh leads to the same login are dialled once; names of one daemon by different ways are asked once.
func TestOneMachineByManyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var dialled, asked []string
		all := hosts("a", "b", "c", "other", "way", "d")
		login := map[string]string{"a": "u@1", "b": "u@1", "c": "u@1", "way": "u@2"}
		daemon := map[string]string{"a": "D", "b": "D", "c": "D", "way": "D", "other": "E"}
		out := Each(t.Context(), all, Options{Route: func(_ context.Context, target string) (Route, error) {
			return Route{Doors: []string{target}, Login: login[target]}, nil
		}}, func(ctx context.Context, turn *Turn) error {
			name := turn.Host().Name
			mu.Lock()
			dialled = append(dialled, name)
			mu.Unlock()
			d := time.Second
			if name == "way" {
				d = 2 * time.Second
			}
			if err := pause(ctx, d); err != nil {
				return err
			}
			if turn.Reached(daemon[name]) {
				mu.Lock()
				asked = append(asked, name)
				mu.Unlock()
			}
			return nil
		})
		if len(dialled) != 4 || len(asked) != 3 {
			t.Errorf("dialled %v, asked %v: one of a, b and c, the way to it, the other and d", dialled, asked)
		}
		var names [][]string
		for _, o := range out {
			if o.Err != nil {
				t.Errorf("%+v", o)
			}
			if !o.Same {
				names = append(names, o.Host.Names())
			}
		}
		if diff := cmp.Diff([][]string{{"a", "b", "c", "way"}, {"other"}, {"d"}}, names); diff != "" {
			t.Error(diff)
		}
	})
}

// A name shares the other's failure to reach the machine, but not a key of its own that was refused.
func TestFailuresOfOneMachine(t *testing.T) {
	for _, tt := range []struct {
		code  fault.Code
		dials int
	}{{fault.Unreachable, 1}, {fault.Timeout, 1}, {fault.Auth, 3}} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			dials := 0
			out := Each(t.Context(), hosts("a", "b", "c"), Options{Route: func(context.Context, string) (Route, error) {
				return Route{Doors: []string{"x"}, Login: "u@x"}, nil
			}}, func(ctx context.Context, turn *Turn) error {
				mu.Lock()
				dials++
				mu.Unlock()
				pause(ctx, time.Second)
				return &fault.Error{Code: tt.code, Host: turn.Host().Name, Detail: "no"}
			})
			if dials != tt.dials {
				t.Errorf("%s: %d dials, want %d", tt.code, dials, tt.dials)
			}
			for _, o := range out {
				if !fault.Is(o.Err, tt.code) {
					t.Errorf("%+v", o)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // the second key fits
		first := true
		out := Each(t.Context(), hosts("a", "b", "c"), Options{Route: func(context.Context, string) (Route, error) {
			return Route{Doors: []string{"x"}, Login: "u@x"}, nil
		}}, func(ctx context.Context, turn *Turn) error {
			pause(ctx, time.Second)
			if first {
				first = false
				return &fault.Error{Code: fault.Auth, Detail: "no"}
			}
			turn.Reached("D")
			return nil
		})
		failed, same := 0, 0
		for _, o := range out {
			if o.Err != nil {
				failed++
			}
			if o.Same {
				same++
			}
		}
		if failed != 1 || same != 1 {
			t.Errorf("%+v", out)
		}
	})
}

func TestRoutes(t *testing.T) {
	conf := map[string]ssh.Resolved{
		"plain": {HostName: "Plain.Example", Port: "22", User: "u"}, "alias": {HostName: "plain.example", Port: "22", User: "u"},
		"port": {HostName: "plain.example", Port: "23", User: "u"},
		"in1":  {HostName: "10.0.0.1", Port: "22", User: "u", Jump: "me@bastion:2222"}, "in2": {HostName: "10.0.0.2", Port: "22", User: "u", Jump: "bastion2,mid"},
		"elsewhere":             {HostName: "10.0.0.1", Port: "22", User: "u", Jump: "mid"},
		"ssh://me@bastion:2222": {HostName: "b.example", Port: "2222", User: "me"},
		"bastion2":              {HostName: "b.example", Port: "2222", User: "x"},
		"mid":                   {HostName: "m.example", Port: "22", User: "x", Jump: "bastion2"},
		"proxied":               {HostName: "p", Port: "22", User: "u", Proxy: "nc %h %p"},
		"named":                 {HostName: "p", Port: "22", User: "u", Proxy: "connect %n"},
		"ring":                  {HostName: "r", Port: "22", User: "u", Jump: "ring2"},
		"ring2":                 {HostName: "r2", Port: "22", User: "u", Jump: "ring"},
		"lost":                  {HostName: "l", Port: "22", User: "u", Jump: "nosuch"},
	}
	var mu sync.Mutex
	asked := map[string]int{}
	r := &resolver{known: map[string]*lookup{}, resolve: func(_ context.Context, target string) (ssh.Resolved, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[target]++
		if res, ok := conf[target]; ok {
			return res, nil
		}
		return ssh.Resolved{}, errors.New("unknown")
	}}
	got := map[string]Route{}
	var wg sync.WaitGroup
	for target := range conf {
		wg.Go(func() {
			route, err := r.route(t.Context(), target, hops)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			got[target] = route
			mu.Unlock()
		})
	}
	wg.Wait()
	for target, want := range map[string][]string{
		"plain":     {"plain.example:22"},
		"in1":       {"b.example:2222", "me@bastion:2222 10.0.0.1:22"},
		"in2":       {"b.example:2222", "bastion2 m.example:22", "bastion2,mid 10.0.0.2:22"},
		"elsewhere": {"b.example:2222", "bastion2 m.example:22", "mid 10.0.0.1:22"},
		"proxied":   {"command nc %h %p", "p:22"},
		"lost":      {"nosuch", "nosuch l:22"},
	} {
		if diff := cmp.Diff(want, got[target].Doors); diff != "" {
			t.Errorf("%s: %s", target, diff)
		}
	}
	if got["plain"].Login != got["alias"].Login || got["plain"].Login == got["port"].Login || got["in1"].Login == got["elsewhere"].Login {
		t.Errorf("logins %q", got)
	}
	if got["named"].Login != "" || got["proxied"].Login == "" {
		t.Error("a proxy that depends on the name makes no login known")
	}
	for target, n := range asked {
		if n != 1 {
			t.Errorf("%s was looked up %d times", target, n)
		}
	}
	if len(got["ring"].Doors) == 0 {
		t.Error("a ring of jump hosts has no doors")
	}
}

// This machine by its loopback's spellings is one login, and by its own name one more at the same sshd: whether that is the same machine is
// for its daemon to say (TestOneMachineByManyNames). A port or a jump host makes another one.
func TestSpellingsOfThisMachine(t *testing.T) {
	self, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(conf, []byte("Host far\n  HostName 127.0.0.1\n  ProxyJump bastion\nHost other\n  HostName localhost\n  Port 2222\nHost *\n  User u\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	route := SSH([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "KOLU_SSH_CONFIG=" + conf})
	at := func(name string) Route {
		r, err := route(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r
	}
	here := at("localhost")
	for _, name := range []string{"127.0.0.1", "::1", "LOCALHOST", "ssh://u@localhost:22", "ssh://u@[::1]:22"} {
		if diff := cmp.Diff(here, at(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if own := at(self); !slices.Equal(own.Doors, here.Doors) || own.Login == here.Login {
		t.Errorf("%s is %+v, localhost %+v", self, own, here)
	}
	for _, name := range []string{"far", "other", "ssh://me@localhost"} {
		if r := at(name); r.Login == here.Login || name != "ssh://me@localhost" && slices.Contains(r.Doors, here.Doors[0]) {
			t.Errorf("%s is taken for this machine: %+v", name, r)
		}
	}
}
