package client

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kolu/cli/clitest"
	"kolu/fleet"
	"kolu/internal/fault"
)

func TestWarningsAreSaidOnceInADaemonsLife(t *testing.T) {
	home := t.TempDir()
	env := map[string]string{"HOME": home}
	getenv := func(key string) string { return env[key] }
	for _, step := range []struct {
		name, host, kind, identity string
		warnings, want             []string
	}{
		{"the first verb", "h", "padi", "pid 1", []string{"noise", "ends at\nlogout"}, []string{"noise", "ends at\nlogout"}},
		{"the second verb", "h", "padi", "pid 1", []string{"noise", "ends at\nlogout"}, nil},
		{"something new", "h", "padi", "pid 1", []string{"noise", "no linger"}, []string{"no linger"}},
		{"and what was said before it", "h", "padi", "pid 1", []string{"ends at\nlogout", "no linger"}, nil},
		{"another host", "g", "padi", "pid 1", []string{"noise"}, []string{"noise"}},
		{"another daemon", "h", "kaval", "pid 1", []string{"noise"}, []string{"noise"}},
		{"its next life", "h", "padi", "pid 2", []string{"noise"}, []string{"noise"}},
		{"a daemon that does not say who it is", "h", "padi", "", []string{"noise"}, []string{"noise"}},
		{"nothing to say", "h", "padi", "pid 3", nil, nil},
	} {
		if got := untold(getenv, step.host, step.kind, step.identity, step.warnings); !slices.Equal(got, step.want) {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(home, ".cache/kolu/told/.tmp-*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestWarningsThatCannotBeNotedAreSaid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{"", "relative", file} {
		for range 2 {
			got := untold(func(key string) string { return map[string]string{"HOME": home}[key] }, "h", "padi", "pid 1", []string{"noise"})
			if !slices.Equal(got, []string{"noise"}) {
				t.Errorf("HOME=%q: got %q", home, got)
			}
		}
	}
}

// TestPlacedNamesTheRung says on stderr which way a build went and what was refused, and nothing when it was there.
func TestPlacedNamesTheRung(t *testing.T) {
	for want, r := range map[string]fleet.Report{
		"": {Rung: "valid"},
		"— h: the build went there by upload; nix was refused (nix-daemon-down): it does not answer\n": {Rung: "upload",
			Refused: []fleet.Refusal{{Rung: "nix", Code: fault.NixDaemonDown, Detail: "it does not answer"}}},
	} {
		env, stdout, stderr := clitest.Env("padi-tui", nil)
		placed(env, "h", r)
		if stdout.String() != "" || stderr.String() != want {
			t.Errorf("stdout %q, stderr %q, want %q", stdout, stderr, want)
		}
	}
}
