package ssh

import (
	"strings"
	"testing"

	"kolu/internal/fault"
)

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Target
	}{
		{"prod", Target{Host: "prod"}},
		{"srid@prod.example.com", Target{User: "srid", Host: "prod.example.com"}},
		{"ssh://prod", Target{Host: "prod"}},
		{"ssh://srid@prod:2222", Target{User: "srid", Host: "prod", Port: "2222"}},
		{"ssh://srid@prod:2222/", Target{User: "srid", Host: "prod", Port: "2222"}},
		{"::1", Target{Host: "::1"}},
		{"srid@fe80::1%eth0", Target{User: "srid", Host: "fe80::1%eth0"}},
		{"ssh://[::1]:22", Target{Host: "::1", Port: "22"}},
		{"ssh://[fe80::1%eth0]", Target{Host: "fe80::1%eth0"}},
		{`CORP\srid@prod`, Target{User: `CORP\srid`, Host: "prod"}},
		{"a@b@prod", Target{User: "a@b", Host: "prod"}},
		{"büro", Target{Host: "büro"}},
	} {
		got, err := ParseTarget(c.in)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v; want %+v", c.in, got, err, c.want)
		}
	}
	for _, c := range []struct{ in, says string }{
		{"-oProxyCommand=touch /tmp/x", "dash"},
		{"-", "dash"},
		{"a@-F", "dash"},
		{"-l@host", "dash"},
		{"ssh://-oX", "dash"},
		{"ssh://-oX@host", "dash"},
		{"ssh://%2doX@host", "dash"},
		{"", "empty"},
		{"@host", "empty user"},
		{"user@", "no name"},
		{"a b", `' '`},
		{"a\nb", `'\n'`},
		{"a\x00b", `'\x00'`},
		{"a\tb", `'\t'`},
		{"a;b", `';'`},
		{"a`b", "'`'"},
		{"$(x)", `'$'`},
		{"[a]", `'['`},
		{"a,b", `','`},
		{"a\u200bb", "holds"},
		{"a\xffb", "UTF-8"},
		{"prod:22", "ssh://prod:22"},
		{"srid@prod:2222", "ssh://srid@prod:2222"},
		{"prod:", "neither"},
		{"ssh://prod:0", "port"},
		{"ssh://prod:99999999999999999999", "port"},
		{"ssh://prod:22x", "port"},
		{"ssh://[::1", "bracket"},
		{"ssh://[::1]x", "after"},
		{"ssh://", "no name"},
		{strings.Repeat("a", 600), "longer"},
	} {
		_, err := ParseTarget(c.in)
		if !fault.Is(err, fault.BadHost) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want bad-host with %q", c.in, err, c.says)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"a", "ssh://u@h:1", "::1", "-x", "ssh://[a]:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := ParseTarget(in)
		if err != nil {
			return
		}
		args := got.args()
		if args[len(args)-2] != "--" || args[len(args)-1] == "" {
			t.Fatalf("%q becomes %q", in, args)
		}
		for _, a := range append([]string{got.User, got.Port}, got.Host) {
			if strings.HasPrefix(a, "-") || strings.ContainsAny(a, " \n\t\x00;&|<>'\"$`") {
				t.Fatalf("%q gives %+v", in, got)
			}
		}
	})
}
