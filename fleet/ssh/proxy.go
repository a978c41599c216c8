package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"kolu/internal/fault"
)

// proxy starts a ProxyCommand and gives the connection it makes. heard is told what it prints.
func (o *Options) proxy(ctx context.Context, c *config, command string, heard *notices) (net.Conn, error) {
	cmd := exec.Command("/bin/sh", "-c", "exec "+c.expand(command))
	cmd.Env = o.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &tail{}
	cmd.Stderr = io.MultiWriter(said, heard)
	var conn net.Conn
	var err error
	if c.yes("proxyusefdpass") {
		conn, err = passed(ctx, cmd)
	} else {
		conn, err = piped(cmd, said)
	}
	if err != nil {
		return nil, proxyFault(err, said.String())
	}
	return conn, nil
}

func proxyFault(err error, stderr string) error {
	f := &fault.Error{Code: fault.Unreachable, Stage: "connect", Who: fault.Host, Err: err,
		Detail: "the ProxyCommand made no connection", Remedy: "run the ProxyCommand by hand", Evidence: fault.Printable(stderr, 600)}
	if text := fault.Printable(stderr, 200); text != "" {
		f.Detail += ": " + text
	}
	return f
}

// proxyConn is a connection whose other end is a child process.
type proxyConn struct {
	net.Conn
	cmd  *exec.Cmd
	said *tail
	once sync.Once
	gone chan struct{}
}

func (p *proxyConn) Close() error {
	err := p.Conn.Close()
	p.once.Do(func() { endGroup(p.cmd, p.gone) })
	return err
}

// endGroup ends a command and what it started, asking first.
func endGroup(cmd *exec.Cmd, gone <-chan struct{}) {
	syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-gone:
	case <-time.After(time.Second):
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-gone
	}
}

func start(cmd *exec.Cmd) (gone chan struct{}, err error) {
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	gone = make(chan struct{})
	go func() { cmd.Wait(); close(gone) }() // endGroup waits for it
	return gone, nil
}

// piped joins a command's stdin and stdout into a connection.
func piped(cmd *exec.Cmd, said *tail) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout = theirs, theirs
	gone, err := start(cmd)
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	return &proxyConn{Conn: ours, cmd: cmd, said: said, gone: gone}, nil
}

// passed takes the connection that a command made and hands over as a file descriptor on its stdout.
func passed(ctx context.Context, cmd *exec.Cmd) (net.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	cmd.Stdin, cmd.Stdout = theirs, theirs
	gone, err := start(cmd)
	theirs.Close()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { ours.Close() })
	defer stop()
	conn, err := receive(ours)
	endGroup(cmd, gone)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return conn, err
}

func socketPair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "proxy")
	f := os.NewFile(uintptr(fds[0]), "proxy")
	defer f.Close()
	ours, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours.(*net.UnixConn), theirs, nil
}

func receive(c *net.UnixConn) (net.Conn, error) {
	b, oob := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	f := os.NewFile(uintptr(fds[0]), "proxied")
	defer f.Close()
	syscall.CloseOnExec(fds[0])
	conn, err := net.FileConn(f)
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetNoDelay(true) // which a dial of ours would have done
	}
	return conn, err
}
