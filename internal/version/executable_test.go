package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestMain lets the test program say where it is.
func TestMain(m *testing.M) {
	if os.Getenv("VERSION_TEST") == "where" {
		path, err := Executable()
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString(path)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestExecutableWithoutProc starts this program by a link, with a first argument that is no path, where /proc is empty.
func TestExecutableWithoutProc(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test makes a mount namespace: run it as root on Linux")
		}
		t.Skip("this test makes a mount namespace: run it as root on Linux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "padi")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{`exec -a padi "$0"`: self, `mount -t tmpfs tmpfs /proc && exec -a padi "$0"`: link} {
		cmd := exec.Command("unshare", "-m", "bash", "-c", script, link)
		cmd.Env = append(os.Environ(), "VERSION_TEST=where")
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%s: got %q, %v, want %q", script, out, err, want)
		}
	}
}
