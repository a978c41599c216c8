package fleet

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kolu/internal/fault"
)

// TestStartUpFilesThatTakeTheShell has start-up files that never give the shell to our line: the error says what was seen, in bounded
// time, and nothing of the daemon was touched. The last one lets the line run and stops a program of it.
func TestStartUpFilesThatTakeTheShell(t *testing.T) {
	for _, tt := range []struct {
		name, rc string
		needs    string // a program
		code     fault.Code
		says     string
		evidence string
	}{
		{"waits for input", `printf 'Passphrase of the vault: '; read -r secret`, "", fault.Timeout, "start-up file of the login shell may be waiting for input", "Passphrase of the vault"},
		{"becomes another shell", `echo 'switching to fish'; exec fish`, "fish", fault.Timeout, "said nothing", "switching to fish"},
		{"starts tmux", `exec tmux new -A -s main`, "tmux", fault.NoShell, "exit status 1", "not a terminal"},
		{"starts something like tmux", `echo 'open terminal failed: not a terminal' >&2; exit 1`, "", fault.NoShell, "exit status 1", "not a terminal"},
		{"never ends", `echo 'loading'; while :; do sleep 0.1; done`, "", fault.Timeout, "said nothing", "loading"},
		{"stops the probe", `df(){ sleep 100; }; export -f df`, "", fault.Timeout, "the last step was places", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.needs != "" {
				if _, err := exec.LookPath(tt.needs); err != nil {
					if os.Getenv("CI") == "true" {
						t.Fatalf("%s is missing", tt.needs)
					}
					t.Skipf("%s is missing", tt.needs)
				}
			}
			h := newHost(t)
			if tt.name != "stops the probe" {
				h.place(ready, "")
			}
			h.write("rc", tt.rc, 0o600)
			h.shell = func(line string) *exec.Cmd {
				return exec.Command("bash", "-c", ". "+filepath.Join(h.dir, "rc")+"\n"+strings.Replace(line, "/bin/sh", "/bin/bash", 1))
			}
			o := h.options()
			o.silence = 3 * time.Second
			_, err := Dial(t.Context(), "box", "padi", o)
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != tt.code || !strings.Contains(err.Error(), tt.says) || !strings.Contains(f.Evidence, tt.evidence) || f.Remedy == "" {
				t.Errorf("got %v (%+v)", err, f)
			}
			if n := h.dials.Load(); n != 0 {
				t.Errorf("the daemon was dialled %d times", n)
			}
		})
	}
}

// TestStartUpFileThatReadsWithALimit takes a line of our stdin if one came, and then lets go: the front gets all of the wire, since
// nothing is sent before it has spoken.
func TestStartUpFileThatReadsWithALimit(t *testing.T) {
	h := newHost(t)
	h.place(ready, "")
	h.shell = func(line string) *exec.Cmd { return exec.Command("bash", "-c", "read -t 1 x; "+line) }
	l, err := Dial(t.Context(), "box", "padi", h.options())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(hang))
	b := make([]byte, 4)
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(b); err != nil || string(b) != "ping" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestFrontThatDiesSaysItAll has a front that ends with a message: the error names the command, the status, the message and what to do.
func TestFrontThatDiesSaysItAll(t *testing.T) {
	h := newHost(t)
	h.place(ready, "echo 'first line' >&2; echo 'cannot open the state root: Permission denied' >&2; exit 1")
	_, err := Dial(t.Context(), "box", "padi", h.options())
	if !fault.Is(err, fault.FrontDied) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"box: ", "/bin/padi --stdio", "exit status 1", "cannot open the state root: Permission denied", "kolu host doctor box"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

// TestBuildThatTheHostDoesNotRun has builds that stand there and whose exec is refused, as SELinux does it, or that lack what loads them.
func TestBuildThatTheHostDoesNotRun(t *testing.T) {
	for _, tt := range []struct{ name, first, says string }{
		{"refused", "#!/etc/passwd", "exit status 126"},
		{"no interpreter", "#!/lib/ld-of-another-world.so.2", "what should load it does not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.place(ready, "")
			for _, name := range []string{"padi", "kolu", "pulam-tui"} {
				h.write(filepath.Join(".local/share/kolu/builds", sum[:32], "bin", name), tt.first+"\n", 0o700)
			}
			_, err := Dial(t.Context(), "box", "padi", h.options())
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != fault.NoExec || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "bin/padi") || f.Remedy == "" {
				t.Errorf("got %v (%+v)", err, f)
			}
			var p plan
			if p.failed(err) {
				t.Error("it would be tried again")
			}
		})
	}
}
