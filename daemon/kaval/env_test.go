package kaval_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/kaval"
)

func TestCleanEnvPassesOnlyWhatIsNamed(t *testing.T) {
	got := kaval.CleanEnv([]string{
		"HOME=/h", "PATH=:/bin::", "LANG=C.UTF-8", "KOLU_RUNTIME_DIR=/r", // a private fleet is one inside its terminals too
		"KAVAL_TERMINAL_ID=outer", "PADI_SOCKET=/outer", "CLAUDECODE=1", "AWS_SECRET_ACCESS_KEY=s", "SSH_CONNECTION=x", "=x", "nonsense",
	})
	want := map[string]string{"HOME": "/h", "PATH": "/bin", "LANG": "C.UTF-8", "KOLU_RUNTIME_DIR": "/r"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := kaval.PresentationEnv([]string{"LANG=C.UTF-8", "KOLU_RUNTIME_DIR=/r"}); len(got) != 1 || got["LANG"] == "" {
		t.Errorf("to another machine: %v", got)
	}
}
