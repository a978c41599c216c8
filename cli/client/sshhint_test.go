package client

import (
	"errors"
	"testing"

	"kolu/cli/clitest"
	"kolu/internal/fault"
)

func TestSSHHint(t *testing.T) {
	for _, tt := range []struct{ config, remedy, want string }{
		{"", "see what `ssh box true` says", "see what `ssh box true` says"},
		{"/c", "see what `ssh -v box true` says", "see what `ssh -F /c -v box true` says"},
		{"/my c", "run `ssh box`, then `ssh -M box`", "run `ssh -F '/my c' box`, then `ssh -F '/my c' -M box`"},
		{"/c", "see what it is with: ssh box uname -sm", "see what it is with: ssh -F /c box uname -sm"},
		{"/c", "run `ssh -F /c box`", "run `ssh -F /c box`"},
		{"/c", "leave out --ssh master, or the ssh agent", "leave out --ssh master, or the ssh agent"},
		{"/$1", "`ssh box`", "`ssh -F '/$1' box`"},
	} {
		env, _, _ := clitest.Env("kolu", []string{"KOLU_SSH_CONFIG=" + tt.config})
		if got := SSHHint(env, tt.remedy); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		given := &fault.Error{Code: fault.Auth, Host: "box", Detail: "denied", Remedy: tt.remedy}
		if got, want := hinted(env, given).Error(), "box: denied — "+tt.want; got != want || given.Remedy != tt.remedy {
			t.Errorf("got %s, want %s; the fault has %s", got, want, given.Remedy)
		}
	}
	env, _, _ := clitest.Env("kolu", []string{"KOLU_SSH_CONFIG=/c"})
	if other := errors.New("other"); hinted(env, other) != other {
		t.Error("an error that is no fault was changed")
	}
}
