package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"kolu/internal/fault"
	"kolu/internal/shellquote"
)

// proven is for how long a master at a jump host need not be asked again whether its line lives.
const proven = 5 * time.Second

// throughJumps gives the ProxyCommand that leads to a target through a master at its jump host, which all targets behind that host
// share: a bastion sees one login, and those behind it are channels. Without a jump host it is empty, and so it is where no such
// master can be had; ssh then goes through the jump host by itself. seen are the targets whose way leads through this one.
func (o *Options) throughJumps(ctx context.Context, t Target, seen []string) (string, error) {
	if !mentions(o.configFiles(), "proxyjump", o.getenv("HOME"), 4) {
		return "", nil
	}
	conf, err := o.resolve(ctx, t)
	if err != nil {
		return "", nil // ssh will say why, and better
	}
	jump := conf.expand(conf.first("proxyjump"))
	if jump == "" || jump == "none" {
		return "", nil
	}
	return o.behind(ctx, strings.Split(jump, ","), append(seen[:len(seen):len(seen)], t.String()))
}

// behind gives the ProxyCommand that goes through the last of hops, each of which is reached through those before it.
func (o *Options) behind(ctx context.Context, hops, seen []string) (string, error) {
	hop := strings.TrimSpace(hops[len(hops)-1])
	path, err := o.hopMaster(ctx, hop, hops[:len(hops)-1], seen)
	if errors.Is(err, errLocal) {
		return "", nil
	}
	if err != nil {
		return "", atHop(err, hop)
	}
	program, err := o.program()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errLocal, err)
	}
	return strings.ReplaceAll(shellquote.Join(append([]string{program}, stdioForward(path)...)), "%", "%%") + " -W '[%h]:%p' kolu", nil
}

// stdioForward are the options of an ssh that goes through the master at path or nowhere.
func stdioForward(path string) []string {
	return []string{"-F", "none", "-S", path, "-o", "ControlMaster=no", "-o", "BatchMode=yes", "-o", "ProxyCommand=false"}
}

func tooManyHops() error {
	return &fault.Error{Code: fault.ConfigError, Stage: "resolve", Who: fault.Local,
		Detail: fmt.Sprintf("more than %d jump hosts, or jump hosts in a ring", maxHops), Remedy: "check ProxyJump in ~/.ssh/config"}
}

// hopTarget takes a jump host apart, which may be written host:port.
func hopTarget(hop string) (Target, error) {
	t, err := ParseTarget(hop)
	if err != nil && strings.Count(hop, ":") == 1 {
		t, err = ParseTarget("ssh://" + hop)
	}
	return t, err
}

// hopMaster gives the control socket of a live master at a jump host: the user's, else ours, which is started if need be. Without
// hops before it the jump host's own configuration says how it is reached.
func (o *Options) hopMaster(ctx context.Context, hop string, before, seen []string) (string, error) {
	t, err := hopTarget(hop)
	if err != nil {
		return "", err
	}
	if slices.Contains(seen, t.String()) || len(seen) > maxHops {
		return "", tooManyHops() // its lock is held
	}
	if len(before) == 0 {
		if path := o.usersSocket(ctx, t); path != "" && o.carries(ctx, path) == nil {
			return path, nil
		}
	}
	base, err := o.socketBase(t, before...)
	if err != nil {
		return "", err
	}
	for n := range generations {
		path := fmt.Sprintf("%s.%d", base, n)
		err := o.alone(ctx, t, path, func() error { return o.standHop(ctx, t, before, seen, path) })
		if !errors.Is(err, errTaken) {
			return path, err
		}
	}
	return "", &fault.Error{Code: fault.Timeout, Stage: "connect", Who: fault.Hop,
		Detail: fmt.Sprintf("%d connections to it do not answer", generations), Remedy: "see whether `ssh HOST true` returns"}
}

// standHop sees to it that a master of ours at path carries connections. One that does not answer is left, with errTaken. The caller
// holds the lock.
func (o *Options) standHop(ctx context.Context, t Target, before, seen []string, path string) error {
	switch err := o.carries(ctx, path); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, syscall.ECONNREFUSED):
		os.Remove(path) // dead, and ours
	case errors.Is(err, errNoAnswer):
		return errTaken
	}
	proxy, err := "", error(nil)
	if len(before) > 0 {
		if proxy, err = o.behind(ctx, before, seen); proxy == "" && err == nil {
			err = errLocal
		}
	} else {
		proxy, err = o.throughJumps(ctx, t, seen)
	}
	if err != nil {
		return err
	}
	return o.runMaster(ctx, t, path, proxy)
}

// carries asks a master for a connection to a port where nobody listens: that it is refused, or not, proves that the line behind it
// lives. No session is asked for, since a bastion may allow none (MaxSessions 0). What was proven a moment ago is not asked again.
func (o *Options) carries(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	sock, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	err = sameUser(sock.(*net.UnixConn))
	sock.Close()
	if age := time.Since(info.ModTime()); err != nil || age >= 0 && age < proven {
		return err
	}
	program, err := o.program()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errNoAnswer)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(stdioForward(path), "-W", "127.0.0.1:1", "kolu")...)
	cmd.Env = o.environ()
	cmd.WaitDelay = time.Second
	_ = cmd.Run() // refused is as good as not
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // without it the next one asks too
	return nil
}
