package kolucmd

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kolu/cli"
	"kolu/cli/clitest"
	"kolu/daemon"
	"kolu/fleet/doctor"
	"kolu/stdio"
)

func host(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	dir := t.TempDir()
	env, _, _ := clitest.Env("kolu", []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "PATH=/nonexistent"}, args...)
	return clitest.Run(func(e *cli.Env) *cobra.Command { return NewWith(e, nil, nil) }, env)
}

func TestHostVerbsRefuse(t *testing.T) {
	for args, says := range map[string]string{
		"host doctor":                    "HOST",
		"host doctor a b":                "HOST",
		"host doctor a --host b":         "--host is not for this verb",
		"host doctor a --all":            "--all is not for this verb",
		"host doctor a --ssh pigeon":     "pigeon",
		"host forget":                    "HOST",
		"host forget a --socket /tmp/x":  "--socket is not for this verb",
		"host forget -- -oProxyCommand=": "dash",
	} {
		if r := host(t, strings.Fields(args)...); r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: got %+v", args, r)
		}
	}
}

func TestStepPrinter(t *testing.T) {
	var out bytes.Buffer
	env, _, _ := clitest.Env("kolu", []string{"KOLU_SSH_CONFIG=/c"})
	p := &stepPrinter{env: env, w: &out}
	p.step(doctor.Step{Name: "connect", Status: doctor.OK, Detail: "transport master", MS: 12})
	p.step(doctor.Step{Name: "places", Status: doctor.Fail, Detail: "none\x1b[2J", Remedy: "see `ssh a true`"})
	want := "connect  ok      12 ms  transport master\n" +
		"places   FAIL           none [2J\n" + strings.Repeat(" ", 24) + "— see `ssh -F /c a true`\n"
	if out.String() != want || p.err != nil {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestPrintForgotten(t *testing.T) {
	var out bytes.Buffer
	err := printForgotten(&out, doctor.Forgotten{Host: "h", Ended: []string{"padi pid 7"}, Removed: []string{"/a"}, Masters: []string{"/run/m"},
		Kept: []doctor.Kept{{What: "/b", Why: "a process runs from it", Remedy: "do this"}, {What: "/c", Why: "so"}}})
	want := "ended    padi pid 7\nremoved  /a\nremoved  /run/m\nkept     /b (a process runs from it) — do this\nkept     /c (so)\n"
	if err != nil || out.String() != want {
		t.Errorf("got %v\n%s", err, out.String())
	}
	out.Reset()
	if err := printForgotten(&out, doctor.Forgotten{Host: "h"}); err != nil || out.String() != "nothing of kolu's was on h\n" {
		t.Errorf("got %v, %q", err, out.String())
	}
	text, err := json.Marshal(doctor.Forgotten{Host: "h", Ended: []string{}, Removed: []string{}, Masters: []string{}, Kept: []doctor.Kept{}})
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("got %s, %v", text, err)
	}
}

// TestBridge asks a daemon behind a socket who it is, through the command that a host runs for it.
func TestBridge(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "k")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		daemon.WriteJSON(w, http.StatusOK, daemon.Hello{Daemon: "padi", Contract: "1.0", PID: 7, Socket: socket})
	})}
	go server.Serve(l)
	defer server.Close()

	const nonce = "0123456789abcdef"
	toBridge, fromUs := io.Pipe()
	toUs, fromBridge := io.Pipe()
	code := make(chan int, 1)
	go func() {
		env := &cli.Env{Name: "kolu", Args: []string{"bridge", "--nonce", nonce, "s.sock"}, Stdin: toBridge, Stdout: fromBridge, Stderr: io.Discard, Dir: dir}
		code <- cli.Main(func(e *cli.Env) *cobra.Command { return NewWith(e, nil, nil) }, env)
	}()
	pre, err := stdio.ReadPreamble(t.Context(), toUs, nonce)
	if err != nil || pre.Banner == nil || pre.Banner.Socket != socket {
		t.Fatalf("got %+v, %v", pre, err)
	}
	mux, err := stdio.Client(toUs, fromUs)
	if err != nil {
		t.Fatal(err)
	}
	hello, err := daemon.ReadHello(t.Context(), daemon.DialFunc(mux.Dial))
	if err != nil || hello.PID != 7 {
		t.Errorf("got %+v, %v", hello, err)
	}
	mux.Close()
	fromUs.Close()
	<-code
}
