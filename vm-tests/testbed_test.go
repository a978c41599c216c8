package vmtests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testbed drives testbed/testbed.
type testbed struct {
	script, name, net string
	config            string
}

func startTestbed(name, net string) (*testbed, error) {
	script, err := filepath.Abs("testbed/testbed")
	if err != nil {
		return nil, err
	}
	b := &testbed{script: script, name: name, net: net}
	if os.Getenv("KOLU_VM_KEEP") == "" {
		if err := b.run("down"); err != nil { // what an earlier run that was killed has left
			return nil, err
		}
	}
	if err := b.run("up", kinds...); err != nil {
		return nil, err
	}
	out, err := b.output("env")
	if err != nil {
		return nil, err
	}
	_, rest, ok := strings.Cut(out, "TESTBED_SSH_CONFIG=")
	if !ok {
		return nil, fmt.Errorf("testbed env: no TESTBED_SSH_CONFIG in %q", out)
	}
	b.config = strings.Fields(rest)[0]
	return b, nil
}

func (b *testbed) command(verb string, args ...string) *exec.Cmd {
	cmd := exec.Command(b.script, append([]string{verb}, args...)...)
	cmd.Env = append(os.Environ(), "TESTBED_NAME="+b.name, "TESTBED_NET="+b.net)
	return cmd
}

func (b *testbed) output(verb string, args ...string) (string, error) {
	var stderr strings.Builder
	cmd := b.command(verb, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("testbed %s %s: %w\n%s", verb, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

func (b *testbed) run(verb string, args ...string) error {
	_, err := b.output(verb, args...)
	return err
}

// do runs a verb that must work.
func (b *testbed) do(t *testing.T, verb string, args ...string) string {
	t.Helper()
	out, err := b.output(verb, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// in runs a script as root on a host, without ssh.
func (b *testbed) in(t *testing.T, host, script string) string {
	t.Helper()
	return b.do(t, "in", host, "sh", "-ec", script)
}

// sent is how many bytes have gone to the host over its cable so far.
func (b *testbed) sent(t *testing.T, host string) int64 {
	t.Helper()
	out, err := exec.Command("ip", "-n", b.name+"-lan", "-s", "-j", "link", "show", "dev", b.name+"-"+host).Output()
	if err != nil {
		t.Fatalf("ip link show: %v", err)
	}
	var links []struct {
		Stats struct{ TX struct{ Bytes int64 } } `json:"stats64"`
	}
	if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
		t.Fatalf("ip link show: %v in %s", err, out)
	}
	return links[0].Stats.TX.Bytes
}

// execs is how many commands the host's sshd has started so far.
func (b *testbed) execs(t *testing.T, host string) int {
	t.Helper()
	return strings.Count(b.do(t, "logs", host), "Starting session: command")
}
