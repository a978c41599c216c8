package ssh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"kolu/internal/fault"
	"kolu/internal/peer"
)

const (
	// answerWithin is how long a live master may take to open a session before it counts as dead: a master notices a lost
	// line only after half a minute.
	answerWithin = 8 * time.Second
	// connectWithin bounds a whole login, touch of a hardware key included.
	connectWithin = 90 * time.Second
	// generations is how many masters one target may have. One that does not answer keeps its socket and removes it when it
	// ends, so the next one needs another name; one that has all the sessions that the server allows gets one beside it.
	generations = 8
	// maxSocket is the longest path that every system takes, less what OpenSSH adds while it makes the socket.
	maxSocket = 103 - 18
)

// dialMaster connects over a control socket: ours if it is alive, else the user's, else one of ours that it starts.
func (o *Options) dialMaster(ctx context.Context, t Target) (*Conn, error) {
	base, err := o.socketBase(t)
	if err != nil {
		return nil, err
	}
	free := ""
	for late := time.Now().Add(placeWithin); ; {
		c, at, full := o.anyOfOurs(ctx, base)
		if c != nil {
			return c, nil
		}
		if free = at; free != "" || !full || time.Now().After(late) {
			break
		}
		select { // verbs are short
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if free == "" {
		return nil, &fault.Error{Code: fault.Timeout, Stage: "connect", Who: fault.Host,
			Detail: fmt.Sprintf("%d connections to this host are in use or do not answer", generations), Remedy: "wait for some of them to end"}
	}
	if c := o.usersMaster(ctx, t); c != nil {
		return c, nil
	}
	return o.startMaster(ctx, t, base, free)
}

// placeWithin is how long a dial waits for a place where all masters are in use.
const placeWithin = 20 * time.Second

// anyOfOurs attaches to a master of ours that lives and has a place. Else free is a path for another one, empty where there is none, and
// full reports that some live but have no place.
func (o *Options) anyOfOurs(ctx context.Context, base string) (c *Conn, free string, full bool) {
	for n := range generations {
		path := fmt.Sprintf("%s.%d", base, n)
		c, err := share(ctx, base, path)
		if err == nil {
			c.shared = true
			return c, "", false
		}
		if ctx.Err() != nil {
			return nil, "", true
		}
		full = full || errors.Is(err, errFull)
		if free == "" && !errors.Is(err, errNoAnswer) && !errors.Is(err, errFull) {
			free = path
		}
	}
	return nil, free, full
}

// sharers is how many connections share a master of ours. OpenSSH closes somebody else's session when one that was opened
// this way is refused for lack of room, so the room must not run out: sshd's MaxSessions is 10 unless set, and a connection
// may have two sessions for a moment. Where it did run out, a mark is left and nothing is shared at once any more; so it is where
// a server closes a session because of what goes on in another one, as dropbear does.
const sharers = 4

const fewSuffix = ".few"

// shareNoMore leaves the mark. Without it the next dial finds out again.
func (c *Conn) shareNoMore() {
	ended := make(chan struct{})
	c.work.Go(func() { c.client.Wait(); close(ended) })
	select {
	case <-ended: // it was the connection that broke, not the session
	case <-time.After(50 * time.Millisecond):
		if c.few != "" {
			os.WriteFile(c.few, nil, 0o600)
		}
	}
}

// share takes one of the places at a master of ours and attaches to it.
func share(ctx context.Context, base, path string) (*Conn, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	places := sharers
	if _, err := os.Lstat(base + fewSuffix); err == nil {
		places = 1
	}
	for n := range places {
		place, err := tryLock(fmt.Sprintf("%s.%d.place", path, n))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c, err := attach(ctx, path)
		if errors.Is(err, errFull) {
			os.WriteFile(base+fewSuffix, nil, 0o600) // without it the next dial finds out again
		}
		if err != nil {
			place.Close()
			return nil, err
		}
		c.closers, c.few = append(c.closers, place), base+fewSuffix
		return c, nil
	}
	return nil, errFull
}

// usersMaster attaches to the live master that the user's own configuration names, or gives nil.
func (o *Options) usersMaster(ctx context.Context, t Target) *Conn {
	path := o.usersSocket(ctx, t)
	if path == "" || !o.hasRoom(ctx, t, path) {
		return nil
	}
	c, err := attach(ctx, path)
	if err != nil {
		return nil
	}
	c.shared = true
	return c
}

// usersSocket is the control socket that the user's own configuration names, if there is one.
func (o *Options) usersSocket(ctx context.Context, t Target) string {
	if !mentions(o.configFiles(), "controlpath", o.getenv("HOME"), 4) {
		return ""
	}
	conf, err := o.resolve(ctx, t)
	if err != nil {
		return "" // starting the master will say why, and better
	}
	path := conf.first("controlpath")
	if path == "" || path == "none" {
		return ""
	}
	path = conf.expand(path)
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
		return ""
	}
	return path
}

// hasRoom asks a master that others use for a session in the way that is harmless when the server refuses it.
func (o *Options) hasRoom(ctx context.Context, t Target, path string) bool {
	program, err := o.program()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	args := append(o.configArgs(), "-T", "-n", "-x", "-S", path)
	for _, opt := range []string{"ControlMaster=no", "ProxyJump=none", "ProxyCommand=false", "ProxyUseFdpass=no", "BatchMode=yes", "RequestTTY=no",
		"RemoteCommand=none", "PermitLocalCommand=no", "ClearAllForwardings=yes", "ForkAfterAuthentication=no", "SessionType=default"} {
		args = append(args, "-o", opt)
	}
	cmd := exec.CommandContext(ctx, program, append(append(args, t.args()...), "exit 0")...)
	cmd.Env = o.environ()
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	exit, ran := errors.AsType[*exec.ExitError](err)
	return err == nil || ran && exit.ExitCode() != 255
}

var (
	errNoAnswer = errors.New("the master does not answer")
	errFull     = errors.New("the server allows no further session on this connection")
)

// attach speaks to a control socket and opens a first session through it, which proves that the line behind it lives.
func attach(ctx context.Context, path string) (*Conn, error) {
	var d net.Dialer
	sock, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := sameUser(sock.(*net.UnixConn)); err != nil {
		sock.Close()
		return nil, err
	}
	sock.SetDeadline(time.Now().Add(answerWithin))
	conn, chans, reqs, err := xssh.NewControlClientConn(sock)
	if err != nil {
		sock.Close()
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	sock.SetDeadline(time.Time{})
	c := &Conn{client: xssh.NewClient(conn, chans, reqs), kind: Master, first: make(chan *session, 1)}
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errNoAnswer)
	defer cancel()
	s, err := c.open(ctx)
	if err == nil {
		c.first <- s
		return c, nil
	}
	c.Close()
	if _, refused := errors.AsType[*xssh.OpenChannelError](err); refused {
		return nil, fmt.Errorf("%w: %w", errFull, err)
	}
	return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
}

// sameUser refuses a control socket behind which another user's process listens; root's are taken.
func sameUser(c *net.UnixConn) error {
	uid, err := peer.UID(c)
	if err == nil && uid != os.Getuid() && uid != 0 {
		err = fmt.Errorf("it belongs to uid %d, not %d", uid, os.Getuid())
	}
	if err != nil {
		return fmt.Errorf("check control socket: %w", err)
	}
	return nil
}

// errTaken means that a control socket is somebody else's by now.
var errTaken = errors.New("others were quicker")

// startMaster starts a master of ours at path, unless someone else is just doing so, and attaches to it.
func (o *Options) startMaster(ctx context.Context, t Target, base, path string) (c *Conn, err error) {
	err = o.alone(ctx, t, path, func() error {
		if c, err = share(ctx, base, path); err == nil { // whoever had the lock made it
			c.shared = true
			return nil
		}
		if errors.Is(err, errFull) || errors.Is(err, errNoAnswer) {
			return errTaken
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(path) // dead, and ours: the directory is, and the lock is held
		}
		via, err := o.throughJumps(ctx, t, nil)
		if err == nil {
			err = o.runMaster(ctx, t, path, via)
		}
		return err
	})
	switch {
	case errors.Is(err, errTaken):
		return o.dialMaster(ctx, t) // the next one has another path
	case err != nil || c != nil:
		return c, err
	}
	c, err = share(ctx, base, path)
	if _, refused := errors.AsType[*xssh.OpenChannelError](err); errors.Is(err, errFull) && !refused {
		return o.dialMaster(ctx, t) // others were quicker to use it
	}
	if errors.Is(err, errFull) {
		return nil, sessionFault(err)
	}
	if err != nil {
		return nil, fmt.Errorf("attach to the new ssh master: %w: %w", errLocal, err)
	}
	return c, nil
}

// alone calls start under the lock of a control socket. Who waited for one that failed has its error instead.
func (o *Options) alone(ctx context.Context, t Target, path string, start func() error) error {
	began := time.Now()
	waited := false
	unlock, err := lock(ctx, path+".lock", func() {
		waited = true
		o.log().Debug("waiting for another login to the host", "host", t.String())
	})
	if err != nil {
		return err
	}
	defer unlock()
	if waited {
		if err := failedSince(path+".lock", began); err != nil {
			return err
		}
	}
	err = start()
	if err != nil && !errors.Is(err, errTaken) {
		leaveFailure(path+".lock", err)
	}
	return err
}

// masterArgs is the whole command line of a master. It overrides what a configuration may say that would break the wire,
// ask a question, or start something beside the connection.
func (o *Options) masterArgs(ctx context.Context, t Target, path, proxy string) []string {
	// With ControlPersist ssh throws away what a proxy or a jump host prints, unless it is told to be verbose.
	args := append(o.configArgs(), "-M", "-N", "-f", "-T", "-x", "-v")
	for _, opt := range []string{
		"ControlMaster=yes", "ControlPath=" + path, "ControlPersist=600",
		"BatchMode=yes", "RequestTTY=no", "RemoteCommand=none", "PermitLocalCommand=no",
		"ClearAllForwardings=yes", "ExitOnForwardFailure=no", "Tunnel=no",
		"ServerAliveInterval=10", "ServerAliveCountMax=3", "ConnectTimeout=10",
		"EscapeChar=none",
	} {
		args = append(args, "-o", opt)
	}
	if o.forwardsAgent(ctx, t) == "" {
		args = append(args, "-o", "ForwardAgent=no")
	}
	if proxy != "" {
		args = append(args, "-o", "ProxyCommand="+proxy, "-o", "ProxyUseFdpass=no")
	}
	return append(args, t.args()...)
}

// runMaster runs ssh until it has logged in and gone into the background, or failed. proxy is the command that it connects with; empty
// is as the configuration says.
func (o *Options) runMaster(ctx context.Context, t Target, path, proxy string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectWithin, context.DeadlineExceeded)
	defer cancel()
	program, err := o.program()
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	// The master keeps its stderr, so the pipe's end is not its end: it is read until ssh itself has left.
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	defer r.Close()
	cmd := exec.Command(program, o.masterArgs(ctx, t, path, proxy)...)
	cmd.Env = o.environ()
	cmd.Stderr = w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C of ours is not the master's
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	stop := context.AfterFunc(ctx, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	said := &tail{}
	var reading sync.WaitGroup
	reading.Go(func() { o.listen(r, said) })
	err = cmd.Wait()
	stop()
	if err == nil {
		r.Close() // the master holds the other end and has nothing more to say
	} else {
		r.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // a proxy may hold it still
	}
	reading.Wait()
	if err == nil {
		return nil
	}
	return o.masterFault(ctx, t, said.String(), err)
}

func (o *Options) listen(r *os.File, said *tail) {
	lines := bufio.NewReaderSize(r, 4<<10)
	touch := time.AfterFunc(time.Hour, func() {}) // for a key that is asked to sign and does not
	defer func() { touch.Stop() }()
	heard := o.notices()
	defer heard.end()
	for {
		line, err := lines.ReadSlice('\n')
		touch.Stop()
		if m := accepted().FindSubmatch(line); m != nil {
			text := waitsForTouch(fault.Printable(string(m[1])+string(m[2]), 200))
			touch = time.AfterFunc(touchAfter, func() { o.notice(text) })
		}
		if chatter().Match(line) {
			line = nil
		}
		said.Write(line)
		heard.add(string(line))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// chatter is what -v adds.
var chatter = lazy(`^debug\d: |^OpenSSH_|^Authenticated to .* using |^Transferred: sent |^Bytes per second: `)

// accepted is what -v says before a key of an agent, or one that is a device, signs.
var accepted = lazy(`^debug\d: Server accepts key: .*?(?:(\S+-SK SHA256:\S+)|(\S+ SHA256:\S+) .*agent)`)

var localMaster = lazy(`(?i)ControlPath|ControlSocket|unix_listener|muxserver|cannot bind to path`)

func (o *Options) masterFault(ctx context.Context, t Target, stderr string, err error) error {
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return context.Cause(ctx)
		}
		return &fault.Error{Code: fault.Timeout, Stage: "connect", Who: fault.Host, Err: context.Cause(ctx),
			Detail: "ssh did not get through the login in time", Remedy: "see where `ssh -v HOST true` stops",
			Evidence: fault.Printable(stderr, 600)}
	}
	if localMaster().MatchString(stderr) {
		return fmt.Errorf("%w: %s", errLocal, fault.Printable(stderr, 200))
	}
	f := classify(stderr, o.names(ctx, t))
	f.Err = errors.Join(f.Err, err)
	if f.Code == fault.Auth && o.getenv("SSH_AUTH_SOCK") == "" {
		f.Detail += " (no agent: SSH_AUTH_SOCK is not set)"
	}
	return f
}

// names are what the target may be called in a message of ssh.
func (o *Options) names(ctx context.Context, t Target) []string {
	names := []string{t.Host, "UNKNOWN"}
	conf, err := o.resolve(context.WithoutCancel(ctx), t)
	if err != nil {
		return names
	}
	names = append(names, conf.hostname())
	if alias := conf.first("hostkeyalias"); alias != "" {
		names = append(names, alias)
	}
	if addrs, err := net.DefaultResolver.LookupHost(ctx, conf.hostname()); err == nil {
		names = append(names, addrs...)
	}
	return names
}
