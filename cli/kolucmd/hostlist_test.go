package kolucmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/client"
	"kolu/cli/clitest"
)

func TestHostList(t *testing.T) {
	dir := t.TempDir()
	kolu := func(args ...string) clitest.Result {
		t.Helper()
		env, _, _ := clitest.Env("kolu", []string{"XDG_CONFIG_HOME=" + dir, "HOME=" + dir, "KOLU_HOSTS=fromenv"}, args...)
		return clitest.Run(func(e *cli.Env) *cobra.Command {
			return NewWith(e, func(context.Context, *cli.Env, client.Endpoint) (*client.PadiClient, error) {
				t.Error("dialled")
				return nil, errors.New("dialled")
			}, func(context.Context, *cli.Env, client.Endpoint, bool) (*client.KavalClient, error) {
				t.Error("dialled")
				return nil, errors.New("dialled")
			})
		}, env)
	}
	path := filepath.Join(dir, "kolu", "hosts.toml")
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string // what is in them; empty means nothing
	}{
		{"host add prod --ssh nix@prod --group eu --group big", 0, "", "— added prod (ssh nix@prod) to " + path + "\n"},
		{"host add lab", 0, "", "— added lab (ssh lab) to "},
		{"host list", 0, "NAME     SSH       GROUPS\nprod     nix@prod  eu,big\nlab      lab\nfromenv  fromenv\n", ""},
		{"host list --group eu --json", 0, `[{"name":"prod","ssh":"nix@prod","groups":["eu","big"]}]` + "\n", ""},
		{"host add prod", 1, "", "kolu: add host: prod is listed already — `kolu host list` shows it"},
		{"host add x --ssh=", 1, "", "--ssh is blank"},
		{"host add x --ssh -oProxyCommand=y", 1, "", "begins with a dash"},
		{"host add -- -x", 1, "", "begins with a dash"},
		{"host add a/b", 1, "", "host/id"},
		{"host add a,b", 1, "", "holds ','"},
		{"host add x --group a/b", 1, "", "group"},
		{"host add x --host y", 1, "", "--host is not for this verb"},
		{"host add", 1, "", "add NAME"},
		{"host list --all", 1, "", "--all is not for this verb"},
		{"host list --group nosuch", 1, "", "there are big, eu"},
		{"host rename prod production", 0, "", "— renamed prod to production\n"},
		{"host rename prod x", 1, "", "prod is not listed — `kolu host list`"},
		{"host remove LAB", 1, "", "is lab meant?"},
		{"host remove fromenv", 1, "", "$KOLU_HOSTS names it"},
		{"host remove lab", 0, "", "— removed lab from "},
		{"host list", 0, "NAME        SSH       GROUPS\nproduction  nix@prod  eu,big\nfromenv     fromenv\n", ""},
	} {
		r := kolu(strings.Fields(tt.args)...)
		if r.Code != tt.code || r.Stdout != tt.stdout || !strings.Contains(r.Stderr, tt.stderr) || (tt.stderr == "" && r.Stderr != "") {
			t.Errorf("%s: want exit %d, %q and %q: %v", tt.args, tt.code, tt.stdout, tt.stderr, r)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "[hosts.production]\nssh = \"nix@prod\"\ngroups = [\"eu\", \"big\"]\n" {
		t.Errorf("%v\n%s", err, text)
	}
}

// The help of a verb about hosts lists what it takes, and none of the flags of reaching a daemon that it refuses.
func TestHelpOfHostVerbs(t *testing.T) {
	for verb, takes := range map[string]string{"add": "--ssh", "list": "--group", "remove": "", "rename": "", "doctor": "--ssh", "forget": "--all"} {
		env, _, _ := clitest.Env("kolu", nil, "host", verb, "--help")
		r := clitest.Run(New, env)
		if r.Code != 0 || !strings.Contains(r.Stdout, takes) {
			t.Errorf("%s: want %s in %v", verb, takes, r)
		}
		_, flags, _ := strings.Cut(r.Stdout, "\nFlags:\n")
		for _, refused := range []string{"--socket", "--state-root", "--timeout-host", "--host "} {
			if flags == "" || strings.Contains(flags, refused) {
				t.Errorf("%s: %s in %s", verb, refused, flags)
			}
		}
	}
}
