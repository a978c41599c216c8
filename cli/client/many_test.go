package client

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/cli"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/fleet/inventory"
	"kolu/internal/fault"
	"kolu/stdio"
)

// flags are endpoint flags that were given as pairs of a name and a value.
func flags(t *testing.T, pairs ...string) *Flags {
	t.Helper()
	f := &Flags{}
	for i := 0; i < len(pairs); i += 2 {
		found := false
		for _, flag := range f.Padi() {
			if flag.Name == pairs[i] {
				found = true
				if err := flag.Value.Set(pairs[i+1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !found {
			t.Fatalf("no flag %s", pairs[i])
		}
	}
	return f
}

func TestAt(t *testing.T) {
	for _, tt := range []struct {
		pairs []string
		word  string
		ep    Endpoint
		id    string
		fail  string
	}{
		{nil, "0bad", Endpoint{}, "0bad", ""},
		{[]string{"host", "a"}, "0bad", Endpoint{Host: "a"}, "0bad", ""},
		{nil, "a/0bad", Endpoint{Host: "a"}, "0bad", ""},
		{[]string{"ssh", "native"}, "a/0bad", Endpoint{Host: "a", SSH: "native"}, "0bad", ""},
		{[]string{"host", "a", "host", "a,a"}, "a/0bad", Endpoint{Host: "a"}, "0bad", ""},
		{nil, "ssh://me@a:2/0bad", Endpoint{Host: "ssh://me@a:2"}, "0bad", ""},
		{[]string{"socket", "s"}, "0bad", Endpoint{Socket: "/dir/s"}, "0bad", ""},
		{[]string{"host", "b"}, "a/0bad", Endpoint{}, "", "which is not what --host b says"},
		{[]string{"host", "a,b"}, "a/0bad", Endpoint{}, "", "which is not what --host a,b says"},
		{[]string{"group", "g"}, "a/0bad", Endpoint{}, "", "--group g"},
		{[]string{"all", "true"}, "0bad", Endpoint{}, "", "takes one host; --all"},
		{[]string{"socket", "s"}, "a/0bad", Endpoint{}, "", "names a host"},
		{[]string{"ssh", "native"}, "0bad", Endpoint{}, "", "only for --host"},
		{[]string{"ssh", "telnet"}, "a/0bad", Endpoint{}, "", "use auto, master or native"},
		{nil, "a/", Endpoint{}, "", "written host/id"},
		{nil, " /x", Endpoint{}, "", "written host/id"},
		{nil, "-oX/x", Endpoint{}, "", "dash"},
	} {
		ep, id, err := flags(t, tt.pairs...).At("/dir", tt.word)
		if tt.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("%v %s: %v, want %q", tt.pairs, tt.word, err, tt.fail)
			}
			continue
		}
		if err != nil || ep != tt.ep || id != tt.id {
			t.Errorf("%v %s: %+v %q, %v", tt.pairs, tt.word, ep, id, err)
		}
	}
}

// FuzzAt never takes an option for a host and never a host for nothing.
func FuzzAt(f *testing.F) {
	f.Add("a/0bad")
	f.Add("-x/0bad")
	f.Add("ssh://a/b")
	f.Fuzz(func(t *testing.T, word string) {
		ep, id, err := (&Flags{}).At("/dir", word)
		if err != nil {
			return
		}
		if strings.HasPrefix(ep.Host, "-") || strings.Contains(id, "/") || (ep.Host != "" && ep.Host+"/"+id != word) || (ep.Host == "" && id != word) {
			t.Fatalf("%q became %+v and %q", word, ep, id)
		}
	})
}

func listed(t *testing.T, text string) *cli.Env {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "kolu"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kolu", "hosts.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env, _, _ := clitest.Env("padi-tui", []string{"XDG_CONFIG_HOME=" + dir, "HOME=" + dir, "PATH=" + dir, "KOLU_SSH_CONFIG=/dev/null"})
	return env
}

func TestHosts(t *testing.T) {
	env := listed(t, "[hosts.a]\nssh = \"me@a\"\ngroups = [\"g\"]\n[hosts.b]\n")
	for _, tt := range []struct {
		pairs []string
		want  string
		fail  string
	}{
		{[]string{"all", "true"}, "a=me@a b=b", ""},
		{[]string{"group", "g", "host", "x,b"}, "x=x b=b a=me@a", ""},
		{[]string{"group", "h"}, "", "there are g"},
		{[]string{"host", "a,b", "timeout-host", "x"}, "", "--timeout-host"},
		{[]string{"host", "a,b", "socket", "s"}, "", "exclude each other"},
	} {
		hosts, err := flags(t, tt.pairs...).Hosts(env)
		if tt.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("%v: %v, want %q", tt.pairs, err, tt.fail)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", tt.pairs, err)
			continue
		}
		var words []string
		for _, h := range hosts.List {
			words = append(words, h.Name+"="+h.SSH)
		}
		if got := strings.Join(words, " "); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.pairs, got, tt.want)
		}
	}
	if _, err := flags(t, "all", "true").Hosts(listed(t, "[hosts.a\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken list: %v", err)
	}
	target, err := Endpoint{Host: "a"}.target(env)
	if err != nil || target != "me@a" {
		t.Errorf("a is %q, %v", target, err)
	}
}

// What Ask hands to connect is the name for people and what ssh is given, and what fails is told by name.
func TestAsk(t *testing.T) {
	env := listed(t, "[hosts.a]\nssh = \"me@a\"\n[hosts.b]\nssh = \"me@b\"\n")
	hosts, err := flags(t, "all", "true", "ssh", "native").Hosts(env)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := hosts.Ask(t.Context(), env, func(_ context.Context, _ *cli.Env, ep Endpoint) (*PadiClient, error) {
		if ep.Target != "me@"+ep.Host || ep.SSH != "native" {
			t.Errorf("%+v", ep)
		}
		ep.Steps.Step("probe")
		if ep.Host == "b" {
			return nil, &fault.Error{Code: fault.Auth, Host: "me@b", Detail: "permission denied", Remedy: "try `ssh me@b true`"}
		}
		return NewPadi(&clitest.Workspace{}, daemon.Hello{}, Where{}, func() error { return nil }), nil
	}, func(context.Context, *PadiClient, *Turn) error { return nil })
	err = Partial(outcomes)
	if cli.ExitCode(err) != ExitPartial || err.Error() != "1 of 2 hosts did not answer: b" {
		t.Errorf("%v, exit %d", err, cli.ExitCode(err))
	}
	if diff := cmp.Diff("padi-tui: b: permission denied — try `ssh -F /dev/null me@b true`\n", env.Stderr.(interface{ String() string }).String()); diff != "" {
		t.Error(diff)
	}
	if err := Partial(outcomes[:1]); err != nil {
		t.Errorf("all answered: %v", err)
	}
	if err := Partial(outcomes[1:]); cli.ExitCode(err) != 1 {
		t.Errorf("none answered: %v", err)
	}
	if got := failure(inventory.Host{Name: "a", Also: []string{"b"}}, errors.New("x\ny")); got.Code != fault.Internal || cli.Clean(got.Error()) != "a,b: x y" {
		t.Errorf("%q", got)
	}
}

func TestIdentity(t *testing.T) {
	b := stdio.Banner{HostID: "h", BootID: "b", Socket: "/s", PID: 7, StartedAt: 9}
	other := b
	other.PID = 8
	if identity(b) == "" || identity(b) == identity(other) {
		t.Error("a copied machine is taken for the same")
	}
	if identity(stdio.Banner{HostID: "h", Socket: "/s"}) != "" {
		t.Error("a daemon that says nothing of itself has an identity")
	}
}
