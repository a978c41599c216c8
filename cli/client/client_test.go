package client

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kolu/cli"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/daemon/kaval"
	"kolu/daemon/kaval/kavalrpc"
	"kolu/daemon/padi"
	"kolu/daemon/padi/padirpc"
	"kolu/internal/fault"
)

// world is a private runtime directory with daemons that this process serves.
type world struct {
	t    *testing.T
	dir  string
	vars []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, sub := range []string{"run", "a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return &world{t: t, dir: dir, vars: []string{"HOME=" + dir, daemon.RuntimeVar + "=" + filepath.Join(dir, "run")}}
}

func (w *world) root(name string) string { return filepath.Join(w.dir, name) }

func (w *world) env(vars ...string) *cli.Env {
	env, _, _ := clitest.Env("padi-tui", append(w.vars, vars...))
	env.Dir = w.dir
	return env
}

// serve runs a daemon of a kind for a state root until the test ends, and gives its socket.
func (w *world) serve(kind daemon.Kind, root, contract string) string {
	w.t.Helper()
	home := daemon.HomeFor(kind, root, w.env().Getenv)
	if root == "" {
		home = daemon.Standalone(kind, w.env().Getenv)
	}
	log := slog.New(slog.DiscardHandler)
	ready := make(chan string, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := daemon.Serve(ctx, daemon.ServeConfig{
			Home: home, Contract: contract, Build: "b", Log: log, LookupEnv: w.env().LookupEnv,
			Open: func(context.Context, daemon.Hello) (http.Handler, error) {
				if kind == daemon.Kaval {
					return kavalrpc.Handler(&clitest.Host{}, log), nil
				}
				return padirpc.Handler(&clitest.Workspace{Records: []padi.Record{{ID: "served-" + padi.TerminalID(filepath.Base(root))}}}, log), nil
			},
			Ready: func(h daemon.Hello) { ready <- h.Socket },
		})
		if err != nil {
			w.t.Errorf("serve: %v", err)
			close(ready)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return <-ready
}

// reached is the base name of the state root of the padi that an endpoint leads to.
func (w *world) reached(ep Endpoint, vars ...string) (string, error) {
	w.t.Helper()
	c, err := Padi(w.t.Context(), w.env(vars...), ep)
	if err != nil {
		return "", err
	}
	defer c.Close()
	records, err := c.Terminals(w.t.Context())
	if err != nil || len(records) != 1 {
		w.t.Fatalf("%v %v", records, err)
	}
	return strings.TrimPrefix(string(records[0].ID), "served-"), nil
}

func TestWhichPadi(t *testing.T) {
	w := newWorld(t)
	a := w.serve(daemon.Padi, w.root("a"), padi.Contract)
	if got, err := w.reached(Endpoint{}); got != "a" {
		t.Errorf("the only one: reached %q, %v", got, err)
	}
	env := w.env(daemon.StateRootVar + "=" + w.root("b"))
	if c, err := Padi(t.Context(), env, Endpoint{}); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	want := "— this is the padi of " + w.root("a") + ", the only one that runs; --state-root " + w.root("b") + " names yours\n"
	if got := env.Stderr.(interface{ String() string }).String(); got != want {
		t.Errorf("another root's: said %q, want %q", got, want)
	}
	w.serve(daemon.Padi, w.root("b"), padi.Contract)
	for name, tt := range map[string]struct {
		ep   Endpoint
		vars []string
		want string
	}{
		"the primary":                    {vars: []string{daemon.StateRootVar + "=" + w.root("b")}, want: "b"},
		"the variable":                   {vars: []string{"PADI_SOCKET=" + a, daemon.StateRootVar + "=" + w.root("b")}, want: "a"},
		"an empty variable is absent":    {vars: []string{"PADI_SOCKET=", daemon.StateRootVar + "=" + w.root("b")}, want: "b"},
		"the socket before all":          {ep: Endpoint{Socket: a}, vars: []string{daemon.StateRootVar + "=" + w.root("b")}, want: "a"},
		"the root before the variable":   {ep: Endpoint{StateRoot: w.root("b")}, vars: []string{"PADI_SOCKET=" + a}, want: "b"},
		"the root's spelling is cleaned": {ep: Endpoint{StateRoot: w.root("a") + "/../b/"}, want: "b"},
	} {
		if got, err := w.reached(tt.ep, tt.vars...); got != tt.want {
			t.Errorf("%s: reached %q, %v; want %q", name, got, err, tt.want)
		}
	}
	_, err := w.reached(Endpoint{})
	if err == nil || !strings.Contains(err.Error(), "PADI_SOCKET="+a) || !strings.Contains(err.Error(), w.root("b")) {
		t.Errorf("several and no primary: %v", err)
	}
}

// Contracts that do not fit are both named; nothing else happens to the daemon.
func TestContractGate(t *testing.T) {
	w := newWorld(t)
	socket := w.serve(daemon.Padi, w.root("a"), "2.1")
	_, err := w.reached(Endpoint{})
	if !fault.Is(err, fault.Contract) || !strings.Contains(err.Error(), "speaks 2.1") || !strings.Contains(err.Error(), "needs "+padi.Contract) {
		t.Errorf("%v", err)
	}
	if h, err := daemon.ReadHello(t.Context(), daemon.Unix(socket)); err != nil || h.PID != os.Getpid() {
		t.Errorf("the daemon is not as it was: %+v, %v", h, err)
	}
}

func TestNothingThere(t *testing.T) {
	w := newWorld(t)
	_, err := w.reached(Endpoint{Socket: w.root("gone.sock")})
	if err == nil || !fault.Is(err, fault.NoDaemon) || !strings.Contains(err.Error(), "no socket at "+w.root("gone.sock")+" (") || !strings.Contains(err.Error(), "is a daemon running?") {
		t.Errorf("%v", err)
	}
	_, err = w.reached(Endpoint{}, "PADI_SOCKET="+w.root("gone.sock"))
	if err == nil || !strings.Contains(err.Error(), "$PADI_SOCKET names it") {
		t.Errorf("a stale variable is not named: %v", err)
	}
	_, err = Kaval(t.Context(), w.env(), Endpoint{}, false)
	if !fault.Is(err, fault.NoDaemon) || !strings.Contains(err.Error(), "no kaval is running") || !strings.Contains(err.Error(), "`kaval-tui create` starts one") {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(w.root("run")); err != nil || len(entries) > 0 {
		t.Errorf("looking left something: %v %v", entries, err)
	}
}

func TestWhichKaval(t *testing.T) {
	w := newWorld(t)
	alone := w.serve(daemon.Kaval, "", kaval.Contract)
	a := w.serve(daemon.Kaval, w.root("a"), kaval.Contract)
	c, err := Kaval(t.Context(), w.env(daemon.StateRootVar+"="+w.root("a")), Endpoint{}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Where.Socket != a || c.Where.Started {
		t.Errorf("reached %+v, want the primary padi's at %s", c.Where, a)
	}
	env := w.env(daemon.StateRootVar + "=" + w.root("a"))
	if others := Others(env, Endpoint{}, c); len(others) != 1 || others[0].Socket != alone || others[0].Label != "standalone kaval" {
		t.Errorf("beside it run %+v, want the one at %s", others, alone)
	}
	if others := Others(env, Endpoint{Socket: a}, c); len(others) > 0 {
		t.Errorf("a kaval that was named is told of %+v", others)
	}
	if terms, err := c.List(t.Context()); err != nil || len(terms) != 0 {
		t.Errorf("%v %v", terms, err)
	}
	if _, err := Kaval(t.Context(), w.env(), Endpoint{}, true); err == nil || !strings.Contains(err.Error(), "standalone kaval") {
		t.Errorf("several and no primary: %v", err)
	}
}

func TestFlags(t *testing.T) {
	set := func(pairs ...string) (Endpoint, error) {
		var f Flags
		for i := 0; i < len(pairs); i += 2 {
			for _, flag := range f.Padi() {
				if flag.Name == pairs[i] {
					if err := flag.Value.Set(pairs[i+1]); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		return f.Endpoint("/dir")
	}
	ep, err := set("socket", "s/p.sock")
	if err != nil || ep != (Endpoint{Socket: "/dir/s/p.sock"}) {
		t.Errorf("%+v %v", ep, err)
	}
	ep, err = set("host", "me@box", "ssh", "native")
	if err != nil || ep != (Endpoint{Host: "me@box", SSH: "native"}) || strings.Join(ep.Args(), " ") != "--host me@box --ssh native" {
		t.Errorf("%+v %v", ep, err)
	}
	// Blank comes before the exclusions, so that an unset variable is named as what it is.
	if _, err = set("host", " ", "socket", "/s"); err == nil || !strings.Contains(err.Error(), "--host is blank") {
		t.Errorf("%v", err)
	}
}

// A path that no socket can have is said to be that, where the system would only say "invalid argument".
func TestSocketPathTooLong(t *testing.T) {
	socketFlag := func(path string) error {
		var f Flags
		for _, flag := range f.Padi() {
			if flag.Name == "socket" {
				if err := flag.Value.Set(path); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, err := f.Endpoint("/dir")
		return err
	}
	longest := "/" + strings.Repeat("x", 102)
	if err := socketFlag(longest); err != nil {
		t.Errorf("103 bytes: %v", err)
	}
	if err := socketFlag(longest[5:]); err != nil {
		t.Errorf("103 bytes with the directory: %v", err)
	}
	const want = "the path is too long for a socket (104 bytes; at most 103)"
	for _, path := range []string{longest + "x", longest[4:]} {
		if err := socketFlag(path); err == nil || !strings.HasPrefix(err.Error(), "--socket /") || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	w := newWorld(t)
	_, err := Padi(t.Context(), w.env("PADI_SOCKET="+longest+"x"), Endpoint{})
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "$PADI_SOCKET") {
		t.Errorf("the variable: %v", err)
	}
}
