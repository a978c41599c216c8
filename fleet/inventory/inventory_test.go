package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestMain lets the test program be one of many clients: `TEST add PATH NAME…` lists hosts, one change each.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "add" {
		for _, name := range os.Args[3:] {
			if err := Add(context.Background(), os.Args[2], Host{Name: name}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func env(vars ...string) func(string) string {
	return func(key string) string {
		for _, kv := range vars {
			if v, ok := strings.CutPrefix(kv, key+"="); ok {
				return v
			}
		}
		return ""
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kolu", "hosts.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPath(t *testing.T) {
	for _, tt := range []struct {
		vars []string
		want string
	}{
		{[]string{"HOME=/h", "XDG_CONFIG_HOME=/x"}, "/x/kolu/hosts.toml"},
		{[]string{"HOME=/h"}, "/h/.config/kolu/hosts.toml"},
		{[]string{"HOME=/h", "XDG_CONFIG_HOME=rel"}, "/h/.config/kolu/hosts.toml"},
		{nil, ""},
	} {
		if got := Path(env(tt.vars...)); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.vars, got, tt.want)
		}
	}
}

const page = `# our machines

# the big one
[hosts.alpha]
ssh = "nix@alpha.example.org" # port 22
groups = [
  "prod",  # keep
  "eu",
]

[hosts."b.example.org"]
groups = ["prod"]

[hosts.gamma]
ssh = "ssh://me@[2001:db8::1]:2222"
colour = "red"
`

func TestLoad(t *testing.T) {
	path := write(t, page)
	l, err := Load(env("XDG_CONFIG_HOME="+filepath.Dir(filepath.Dir(path)), HostsVar+"=delta, alpha\nepsilon"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Host{
		{Name: "alpha", SSH: "nix@alpha.example.org", Groups: []string{"prod", "eu"}},
		{Name: "b.example.org", SSH: "b.example.org", Groups: []string{"prod"}},
		{Name: "gamma", SSH: "ssh://me@[2001:db8::1]:2222"},
		{Name: "delta", SSH: "delta"}, {Name: "epsilon", SSH: "epsilon"},
	}
	if diff := cmp.Diff(want, l.Hosts, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "hosts.gamma.colour") {
		t.Errorf("warnings %q", l.Warnings)
	}
	if diff := cmp.Diff([]string{"eu", "prod"}, l.Groups()); diff != "" {
		t.Error(diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[hosts.a]\nssh = 5\n", "ssh"},
		{"[hosts.a]\nssh = \"-oProxyCommand=x\"\n", "dash"},
		{"[hosts.\"-a\"]\n", "dash"},
		{"[hosts.\"a b\"]\n", "holds"},
		{"[hosts.\"a/b\"]\n", "slash"},
		{"[hosts.\"\"]\n", "empty"},
		{"[hosts.a]\nssh = \"a:22\"\n", "ssh://a:22"},
		{"[hosts.a]\n[hosts.a]\n", "line 2"},
		{"[hosts.a]\n\nssh = \n", "line 3"},
		{"[hosts.a]\ngroups = [\"x y\"]\n", "group"},
		{"hosts = 3\n", "hosts"},
		{strings.Repeat("#", maxSize+1), "larger"},
	} {
		path := write(t, tt.text)
		_, err := Load(env("XDG_CONFIG_HOME=" + filepath.Dir(filepath.Dir(path))))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q and the path", tt.text, err, tt.want)
		}
	}
	if _, err := Load(env(HostsVar + "=a,-b")); err == nil || !strings.Contains(err.Error(), "$KOLU_HOSTS") {
		t.Errorf("hostile variable: %v", err)
	}
}

func TestChoose(t *testing.T) {
	l := List{Hosts: []Host{
		{Name: "a", SSH: "nix@a", Groups: []string{"prod"}}, {Name: "b", SSH: "b", Groups: []string{"prod", "eu"}},
		{Name: "big", SSH: "nix@a", Groups: []string{"eu"}},
	}}
	for _, tt := range []struct {
		s    Selection
		want string // "names=ssh …"
		fail string
	}{
		{Selection{Hosts: []string{"a"}}, "a=nix@a", ""},
		{Selection{Hosts: []string{"b,a"}}, "b=b a=nix@a", ""},
		{Selection{Hosts: []string{"b", "a, b"}}, "b=b a=nix@a", ""},
		{Selection{Hosts: []string{"x@other", "ssh://y:2"}}, "x@other=x@other ssh://y:2=ssh://y:2", ""},
		{Selection{Hosts: []string{"big"}, Groups: []string{"prod"}}, "big+a=nix@a b=b", ""},
		{Selection{Groups: []string{"eu,prod"}}, "b=b big+a=nix@a", ""},
		{Selection{All: true}, "a+big=nix@a b=b", ""},
		{Selection{All: true, Hosts: []string{"new"}}, "new=new a+big=nix@a b=b", ""},
		{Selection{Groups: []string{"us"}}, "", "there are eu, prod"},
		{Selection{Groups: []string{"-x"}}, "", "begin with"},
		{Selection{Hosts: []string{"a,"}}, "", "empty"},
		{Selection{Hosts: []string{"a,-oX"}}, "", "dash"},
		{Selection{Hosts: []string{"a/0badcafe"}}, "", "host/id"},
	} {
		got, err := l.Choose(tt.s)
		if tt.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("%+v: %v, want %q", tt.s, err, tt.fail)
			}
			continue
		}
		var words []string
		for _, h := range got {
			words = append(words, strings.Join(h.Names(), "+")+"="+h.SSH)
		}
		if s := strings.Join(words, " "); err != nil || s != tt.want {
			t.Errorf("%+v: %q, %v; want %q", tt.s, s, err, tt.want)
		}
	}
	if _, err := (List{}).Choose(Selection{All: true}); err == nil || !strings.Contains(err.Error(), "kolu host add") {
		t.Errorf("all of none: %v", err)
	}
	if _, err := (List{}).Choose(Selection{Groups: []string{"g"}}); err == nil || !strings.Contains(err.Error(), "--group g") {
		t.Errorf("a group of none: %v", err)
	}
	for _, tt := range []struct {
		s    Selection
		want bool
	}{
		{Selection{}, false}, {Selection{Hosts: []string{"a"}}, false}, {Selection{Hosts: []string{"a,a", "a"}}, false},
		{Selection{Hosts: []string{"a,b"}}, true}, {Selection{Hosts: []string{"a", "b"}}, true},
		{Selection{Groups: []string{"g"}}, true}, {Selection{All: true}, true},
	} {
		if tt.s.Several() != tt.want {
			t.Errorf("%+v: several is %v", tt.s, !tt.want)
		}
	}
}

func TestSplitID(t *testing.T) {
	for _, tt := range []struct {
		word, host, id string
		ok             bool
	}{
		{"0bad", "", "0bad", false}, {"a/0bad", "a", "0bad", true}, {"ssh://u@h:2/0bad", "ssh://u@h:2", "0bad", true}, {"/x", "", "x", true}, {"a/", "a", "", true},
	} {
		if host, id, ok := SplitID(tt.word); host != tt.host || id != tt.id || ok != tt.ok {
			t.Errorf("%q: %q %q %v", tt.word, host, id, ok)
		}
	}
}

func TestChangesKeepComments(t *testing.T) {
	path := write(t, page)
	ctx := t.Context()
	if err := Add(ctx, path, Host{Name: "delta", SSH: "x@d", Groups: []string{"eu", "us"}}); err != nil {
		t.Fatal(err)
	}
	if err := Rename(ctx, path, "b.example.org", "beta"); err != nil {
		t.Fatal(err)
	}
	if err := Rename(ctx, path, "alpha", "a.b"); err != nil {
		t.Fatal(err)
	}
	if err := Remove(ctx, path, "gamma"); err != nil {
		t.Fatal(err)
	}
	want := `# our machines

# the big one
[hosts."a.b"]
ssh = "nix@alpha.example.org" # port 22
groups = [
  "prod",  # keep
  "eu",
]

[hosts.beta]
ssh = "b.example.org"
groups = ["prod"]

[hosts.delta]
ssh = "x@d"
groups = ["eu", "us"]
`
	if diff := cmp.Diff(want, content(t, path)); diff != "" {
		t.Error(diff)
	}
	if err := Remove(ctx, path, "a.b"); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); !strings.Contains(got, "# our machines") || !strings.Contains(got, "# the big one") || strings.Contains(got, "alpha") {
		t.Errorf("left:\n%s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

func TestChangesRefuse(t *testing.T) {
	ctx := t.Context()
	path := write(t, page)
	for name, tt := range map[string]struct {
		do   func() error
		want error
		says string
	}{
		"add twice":         {func() error { return Add(ctx, path, Host{Name: "alpha"}) }, ErrExists, "alpha"},
		"remove none":       {func() error { return Remove(ctx, path, "nosuch") }, ErrNone, "nosuch"},
		"rename none":       {func() error { return Rename(ctx, path, "nosuch", "x") }, ErrNone, "nosuch"},
		"rename onto":       {func() error { return Rename(ctx, path, "alpha", "gamma") }, ErrExists, "gamma"},
		"an option":         {func() error { return Add(ctx, path, Host{Name: "-oProxyCommand=x"}) }, nil, "dash"},
		"an option for ssh": {func() error { return Add(ctx, path, Host{Name: "x", SSH: "-v"}) }, nil, "dash"},
		"a newline":         {func() error { return Add(ctx, path, Host{Name: "x\n[hosts.y]"}) }, nil, "holds"},
		"a quote for ssh":   {func() error { return Add(ctx, path, Host{Name: "x", SSH: `a"b`}) }, nil, "holds"},
		"a slash":           {func() error { return Rename(ctx, path, "alpha", "a/b") }, nil, "slash"},
		"a bad group":       {func() error { return Add(ctx, path, Host{Name: "x", Groups: []string{"a,b"}}) }, nil, "group"},
		"no place":          {func() error { return Add(ctx, "", Host{Name: "x"}) }, nil, "no place"},
	} {
		err := tt.do()
		if err == nil || !strings.Contains(err.Error(), tt.says) || (tt.want != nil && !errors.Is(err, tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if content(t, path) != page {
		t.Error("a refused change changed the file")
	}
}

// What says the same in another way than with a table for each host is left as it is.
func TestWhatIsNotChangedByLines(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		do   func(path string) error
	}{
		"inline":          {"hosts = { a = { ssh = \"b\" } }\n", func(p string) error { return Add(t.Context(), p, Host{Name: "x"}) }},
		"dotted":          {"hosts.a.ssh = \"b\"\n", func(p string) error { return Remove(t.Context(), p, "a") }},
		"one table":       {"[hosts]\na = { ssh = \"b\" }\n", func(p string) error { return Rename(t.Context(), p, "a", "x") }},
		"a look-alike":    {"x = \"\"\"\n[hosts.a]\n\"\"\"\n[hosts]\na.ssh = \"b\"\n", func(p string) error { return Remove(t.Context(), p, "a") }},
		"a broken file":   {"[hosts.a\n", func(p string) error { return Add(t.Context(), p, Host{Name: "x"}) }},
		"a comment alone": {"[hosts.a]\ngroups = [ \"x\",\n# \"\n]\n[hosts.b]\nssh = \"\"\"c\"\"\"\n[hosts]\n", func(p string) error { return Remove(t.Context(), p, "c") }},
	} {
		path := write(t, tt.text)
		if err := tt.do(path); err == nil {
			t.Errorf("%s: no error:\n%s", name, content(t, path))
		}
		if content(t, path) != tt.text {
			t.Errorf("%s: the file was changed:\n%s", name, content(t, path))
		}
		left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".hosts-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}

func TestSymbolicLinkStays(t *testing.T) {
	real := write(t, page)
	link := filepath.Join(t.TempDir(), "hosts.toml")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if err := Add(t.Context(), link, Host{Name: "new"}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != real || !strings.HasSuffix(content(t, real), "\n[hosts.new]\n") {
		t.Errorf("%q %v:\n%s", to, err, content(t, real))
	}
}

// An editor that saved after we read keeps what it saved.
func TestEditorMeanwhile(t *testing.T) {
	path := write(t, "[hosts.a]\n")
	saved := false
	err := change(t.Context(), path, func(text string, hosts []Host) (string, []Host, error) {
		if !saved {
			saved = true
			if err := os.WriteFile(path, []byte(text+"# saved\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h := Host{Name: "b", SSH: "b", Groups: []string{}}
		return withBlock(text, h), append(hosts, h), nil
	})
	if got := content(t, path); err != nil || got != "[hosts.a]\n# saved\n\n[hosts.b]\n" {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestLockEndsWithTheContext(t *testing.T) {
	path := write(t, "")
	unlock, err := lock(t.Context(), path+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Add(ctx, path, Host{Name: "x"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// Many clients change the list at once, each a process of its own; nothing is lost.
func TestManyClientsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "hosts.toml")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const clients, each = 8, 6
	var running []*exec.Cmd
	for c := range clients {
		args := []string{"add", path}
		for i := range each {
			args = append(args, fmt.Sprintf("h%d-%d", c, i))
		}
		cmd := exec.Command(self, args...)
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	hosts, _, err := parse(content(t, path))
	if err != nil || len(hosts) != clients*each {
		t.Errorf("%d hosts, %v; want %d", len(hosts), err, clients*each)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 { // the list and its lock
		t.Errorf("left %v, %v", entries, err)
	}
}

// FuzzChanges adds, renames and removes a host in any file that can be read: the other hosts and every line that is a comment stay,
// or nothing is changed at all.
func FuzzChanges(f *testing.F) {
	f.Add(page, "new", "x@y", "g")
	f.Add("[hosts]\n a={ssh='b'}", "c", "", "")
	f.Add("x = '''\n[hosts.new]\n'''\n", "new", "d", "")
	f.Add("[hosts.a] # c\r\n\tgroups=['x']\r\n", "a.b", "ssh://h:2", "p.q")
	f.Fuzz(func(t *testing.T, text, name, target, group string) {
		before, _, err := parse(text)
		if err != nil || index(before, name) >= 0 || index(before, "moved") >= 0 {
			return
		}
		path := write(t, text)
		h := Host{Name: name, SSH: target}
		if group != "" {
			h.Groups = []string{group}
		}
		if err := Add(t.Context(), path, h); err != nil {
			if content(t, path) != text {
				t.Fatalf("refused and changed: %v", err)
			}
			return
		}
		// A string may look like the host's table; then it is left alone.
		byHand := func(err error, as string) bool {
			if err != nil && (!errors.Is(err, ErrByHand) || content(t, path) != as) {
				t.Fatal(err)
			}
			return err != nil
		}
		added := content(t, path)
		if byHand(Rename(t.Context(), path, name, "moved"), added) {
			return
		}
		hosts, _, err := parse(content(t, path))
		if err != nil || len(hosts) != len(before)+1 {
			t.Fatalf("%v %v", hosts, err)
		}
		moved := content(t, path)
		if byHand(Remove(t.Context(), path, "moved"), moved) {
			return
		}
		after, _, err := parse(content(t, path))
		if err != nil || !same(before, after) {
			t.Fatalf("%v, then %v, %v", before, after, err)
		}
		if !strings.HasPrefix(content(t, path), text) {
			t.Fatalf("%q became %q", text, content(t, path))
		}
	})
}

func FuzzChoose(f *testing.F) {
	f.Add("a,b", "g", true)
	f.Add("-x", "", false)
	f.Add("ssh://u@[::1]:3/abc", "", false)
	l := List{Hosts: []Host{{Name: "a", SSH: "x@a", Groups: []string{"g"}}}}
	f.Fuzz(func(t *testing.T, hosts, groups string, all bool) {
		s := Selection{Hosts: []string{hosts}, All: all}
		if groups != "" {
			s.Groups = []string{groups}
		}
		chosen, err := l.Choose(s)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, h := range chosen {
			if seen[h.SSH] || h.SSH == "" || strings.HasPrefix(h.SSH, "-") || strings.ContainsAny(h.SSH, ", \n") {
				t.Fatalf("chose %+v of %+v", h, s)
			}
			seen[h.SSH] = true
		}
		if len(chosen) == 0 {
			t.Fatalf("nothing chosen by %+v", s)
		}
	})
}
