package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"time"

	"kolu/fleet/ssh"
	"kolu/internal/fault"
	"kolu/provision"
	"kolu/stdio"
)

// Visit is a connection to a host over which questions are asked. Nothing is placed there and no daemon is started by it.
type Visit struct {
	d    *dialer
	took time.Duration
}

// Open connects to a host and no more. Every error is a *fault.Error that names the host.
func Open(ctx context.Context, host string, o Options) (*Visit, error) {
	d := &dialer{Options: o, host: host, program: "padi", report: Report{Host: host}}
	start := time.Now()
	d.stage("connect")
	if err := d.connect(ctx); err != nil {
		return nil, d.named(err)
	}
	d.stage("probe")
	return &Visit{d: d, took: time.Since(start)}, nil
}

// Report says how the connection came to be.
func (v *Visit) Report() Report {
	r := v.d.report
	r.Execs = int(v.d.execs.Load())
	return r
}

// Took is how long connecting took.
func (v *Visit) Took() time.Duration { return v.took }

// Catalog is where builds come from.
func (v *Visit) Catalog() *provision.Catalog { return v.d.Catalog }

// Ask runs the line that is made for a nonce and reads the facts that it prints, to their end.
func (v *Visit) Ask(ctx context.Context, line func(nonce string) string) (stdio.Preamble, error) {
	nonce := strings.ToLower(rand.Text())
	proc, pre, err := v.d.run(ctx, line(nonce), nonce)
	if err != nil {
		return pre, v.d.named(err)
	}
	defer func() { proc.Close(); proc.Wait() }()
	if pre.Banner != nil {
		return pre, v.d.named(&fault.Error{Code: fault.Internal, Who: fault.Local, Detail: "a front answered a question"})
	}
	return pre, nil
}

// Start runs one line, as provision wants it.
func (v *Visit) Start(ctx context.Context, line string) (provision.Process, error) {
	return runner{v.d}.Start(ctx, line)
}

// Bridge carries connections to one socket of the host, by the build whose file kolu is given. It starts no daemon.
func (v *Visit) Bridge(ctx context.Context, kolu, socket string) (*Bridge, error) {
	nonce := strings.ToLower(rand.Text())
	line, err := provision.BridgeLine(kolu, socket, nonce)
	if err != nil {
		return nil, err
	}
	proc, pre, err := v.d.run(ctx, line, nonce)
	if err != nil {
		return nil, v.d.named(err)
	}
	if pre.Banner == nil {
		proc.Close()
		return nil, errors.New("the build there cannot be asked for " + socket)
	}
	mux, err := stdio.Client(proc.Stdout(), proc.Stdin())
	if err != nil {
		proc.Close()
		return nil, err
	}
	return &Bridge{mux: mux, proc: proc}, nil
}

// Bridge is a way to one socket of a host.
type Bridge struct {
	mux  *stdio.Mux
	proc *ssh.Process
}

// Dial opens one connection to the socket.
func (b *Bridge) Dial(ctx context.Context) (net.Conn, error) { return b.mux.Dial(ctx) }

// Close ends the bridge and its connections.
func (b *Bridge) Close() error { return errors.Join(b.mux.Close(), b.proc.Close()) }

// Close ends the connection. A master stays.
func (v *Visit) Close() error { return v.d.conn.Close() }
