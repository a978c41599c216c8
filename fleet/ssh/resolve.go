package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Resolved is what the ssh configuration makes of a host argument.
type Resolved struct {
	HostName, Port, User string
	// Jump and Proxy are ProxyJump and ProxyCommand, or "".
	Jump, Proxy string
}

// Resolve asks the configuration; it connects to nothing. Errors are those of Dial.
func Resolve(ctx context.Context, host string, o Options) (Resolved, error) {
	t, err := ParseTarget(host)
	if err != nil {
		return Resolved{}, err
	}
	c, err := o.resolve(ctx, t)
	if err != nil {
		return Resolved{}, named(err, host)
	}
	r := Resolved{HostName: c.hostname(), Port: c.port(), User: c.login(), Jump: c.first("proxyjump"), Proxy: c.first("proxycommand")}
	if r.Jump == "none" {
		r.Jump = ""
	}
	if r.Proxy == "none" {
		r.Proxy = ""
	}
	return r, nil
}

// leaveWithin bounds how long a master may take to leave.
const leaveWithin = 5 * time.Second

// StopMasters ends the masters of ours that lead to a host, and gives the sockets that are gone. The user's own are left alone. It
// is no error when there are none.
func StopMasters(ctx context.Context, host string, o Options) ([]string, error) {
	t, err := ParseTarget(host)
	if err != nil {
		return nil, err
	}
	program, err := o.program()
	if err != nil {
		return nil, nil
	}
	base, err := o.socketBase(t)
	if err != nil {
		return nil, err
	}
	var gone []string
	var failed error
	for n := range generations {
		path := fmt.Sprintf("%s.%d", base, n)
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if err := o.stopMaster(ctx, program, path); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		gone = append(gone, path)
	}
	for n := range generations { // what was kept beside them, also by those that left by themselves
		path := fmt.Sprintf("%s.%d", base, n)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		beside, _ := filepath.Glob(path + ".*")
		for _, f := range beside {
			os.Remove(f)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(base), "*")); err == nil && len(left) == 0 {
		os.Remove(filepath.Dir(base))
	}
	return gone, failed
}

func (o *Options) stopMaster(ctx context.Context, program, path string) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-F", "none", "-o", "ControlPath="+path, "-O", "exit", "kolu")
	cmd.Env = o.environ()
	out, err := cmd.CombinedOutput()
	if _, still := os.Lstat(path); still != nil {
		return nil
	}
	if err == nil || strings.Contains(string(out), "Connection refused") {
		return os.Remove(path) // nobody listens there any more
	}
	return fmt.Errorf("end the ssh master at %s: %w", path, err)
}
