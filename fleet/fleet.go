// Package fleet reaches the daemons of other hosts. It connects with package ssh, has package provision put the build there when
// it is missing, starts the front over one exec, and carries connections with package stdio. It knows no terminals, and there
// is nothing in it that stops, drains or replaces a daemon. cli/client calls it; start reading at [Dial].
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kolu/fleet/ssh"
	"kolu/internal/fault"
	"kolu/provision"
	"kolu/stdio"
)

// Options say how to reach a host. The zero value is fine.
type Options struct {
	Transport  string // auto, master or native; empty means auto
	ConfigFile string // of ssh, in place of the user's; empty means $KOLU_SSH_CONFIG, else the user's
	// Contract is what the caller speaks, "major.minor". A daemon of another major is refused; empty takes any.
	Contract string
	// Catalog is where builds come from; nil opens the usual one while ssh connects.
	Catalog *provision.Catalog
	// Progress is told what happens, one step at a time; it must return soon.
	Progress func(Step)
	Log      *slog.Logger
	Env      []string // as os.Environ gives it, which nil means

	silence time.Duration // how long a host may say nothing; 0 is the usual
}

// Step is what a dial is doing. Total is 0 where it is not known.
type Step struct {
	Host   string `json:"host"`
	Stage  string `json:"stage"` // connect, probe, provision, start
	Detail string `json:"detail,omitempty"`
	Done   int64  `json:"done,omitempty"`
	Total  int64  `json:"total,omitempty"`
}

// Report is how a link came to be. BytesSent and BytesReceived grow while it lives.
type Report struct {
	Host      string      `json:"host"`
	Transport string      `json:"transport"`         // master or native
	Shared    bool        `json:"shared"`            // over a connection that was there before
	Rung      string      `json:"rung"`              // how the build got there: valid when it was there
	Refused   []Refusal   `json:"refused,omitempty"` // the ways to place the build that the host did not allow
	Execs     int         `json:"execs"`             // commands that were started on the host
	BuildSent int64       `json:"buildSent"`         // bytes of the build that went over
	Sent      int64       `json:"bytesSent"`
	Received  int64       `json:"bytesReceived"`
	Took      []StageTime `json:"took"`
	Warnings  []string    `json:"warnings,omitempty"`
}

// Refusal is a way to place the build that the host did not allow, and why.
type Refusal struct {
	Rung   string     `json:"rung"`
	Place  string     `json:"place,omitempty"`
	Code   fault.Code `json:"code"`
	Detail string     `json:"detail"`
}

// StageTime is how long one stage of a dial took.
type StageTime struct {
	Stage string        `json:"stage"`
	Took  time.Duration `json:"took"`
}

// Link is a front on a host. Each Dial of it is one connection to the daemon there. It may be used concurrently.
type Link struct {
	conn   *ssh.Conn
	proc   *ssh.Process
	mux    *stdio.Mux
	banner stdio.Banner
	report Report
	once   sync.Once
}

// Dial opens one connection to the daemon over there, at no round trip of its own.
func (l *Link) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := l.mux.Dial(ctx)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	return nil, &fault.Error{Code: fault.Interrupted, Stage: "link", Who: fault.Host, Host: l.report.Host, Err: err,
		Detail: "the link is gone: " + err.Error(), Remedy: "run the same command again; terminals on the host go on"}
}

// Banner is what the front said of the daemon.
func (l *Link) Banner() stdio.Banner { return l.banner }

// Report says how the link came to be and what went over it so far.
func (l *Link) Report() Report {
	r := l.report
	r.Sent, r.Received = l.mux.Bytes()
	return r
}

// RTT is the measured round trip to the front, zero before the first answer.
func (l *Link) RTT() time.Duration { return l.mux.RTT() }

// Done is closed when the link has ended, for whatever reason.
func (l *Link) Done() <-chan struct{} { return l.mux.Done() }

// Err says why the link ended; nil while it lives and when it ended in order.
func (l *Link) Err() error { return l.mux.Err() }

// Close ends the link and its connections. The daemon over there and its terminals stay as they are.
func (l *Link) Close() error {
	var err error
	l.once.Do(func() {
		err = errors.Join(l.mux.Close(), l.proc.Close())
		l.conn.Close() // the server may have closed it before
	})
	return err
}

// Dial reaches the daemon program, "padi" or "kaval", of a host, putting the build there and starting the daemon if need be. host
// is what ssh takes. ctx bounds the dialling; the link lives until Close. Every error is a *fault.Error that names the host.
func Dial(ctx context.Context, host, program string, o Options) (*Link, error) {
	d := &dialer{Options: o, host: host, program: program}
	l, err := d.dial(ctx)
	if err != nil {
		return nil, d.named(err)
	}
	return l, nil
}

type dialer struct {
	Options
	host, program string
	report        Report
	conn          *ssh.Conn
	stageName     string
	stageStart    time.Time
	execs         atomic.Int32
	telling       sync.Mutex
}

func (d *dialer) getenv(key string) string {
	if d.Env == nil {
		return os.Getenv(key)
	}
	for i := len(d.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(d.Env[i], key+"="); ok {
			return v
		}
	}
	return ""
}

func (d *dialer) tell(s Step) {
	if d.Progress != nil {
		d.telling.Lock()
		defer d.telling.Unlock()
		s.Host = d.host
		d.Progress(s)
	}
}

// stage begins a stage and ends the one before.
func (d *dialer) stage(name string) {
	now := time.Now()
	if d.stageName != "" {
		d.report.Took = append(d.report.Took, StageTime{d.stageName, now.Sub(d.stageStart)})
	}
	d.stageName, d.stageStart = name, now
	if name != "" {
		d.tell(Step{Stage: name})
	}
}

// frontTries bounds how often a master's connection may break before the front speaks.
const frontTries = 3

func (d *dialer) dial(ctx context.Context) (*Link, error) {
	for try := 1; ; try++ {
		d.report = Report{Host: d.host, Rung: string(provision.Valid)}
		d.stage("connect")
		if err := d.connect(ctx); err != nil {
			return nil, err
		}
		l, err := d.front(ctx)
		if err == nil {
			d.stage("")
			d.report.Execs = int(d.execs.Load())
			l.report = d.report
			return l, nil
		}
		d.conn.Close()
		if try == frontTries || ctx.Err() != nil || !d.brokeEarly(err) {
			return nil, err
		}
		d.tell(Step{Stage: "connect", Detail: "the connection broke; trying again"})
	}
}

// brokeEarly reports that a connection that others use too broke before anything was done over it. What others do can cause that on a
// healthy host: dropbear closes a session that was not yet told what to run when another one's command ends, and the whole
// connection when it is told at that moment.
func (d *dialer) brokeEarly(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	return ok && f.Code == fault.Interrupted && d.conn.Kind() == ssh.Master && d.report.BuildSent == 0
}

// connect logs in and opens the catalog, side by side.
func (d *dialer) connect(ctx context.Context) error {
	var catalogErr error
	var opening sync.WaitGroup
	if d.Catalog == nil {
		opening.Go(func() { d.Catalog, catalogErr = provision.OpenCatalog(ctx, d.getenv) })
	}
	conn, err := d.login(ctx)
	opening.Wait()
	if err != nil {
		return err
	}
	if catalogErr != nil {
		conn.Close()
		return catalogErr
	}
	d.conn = conn
	d.report.Transport, d.report.Shared = string(conn.Kind()), conn.Shared()
	d.report.Warnings = append(d.report.Warnings, conn.Warnings()...)
	return nil
}

// A busy sshd drops some of many connections before the login; a few tries with a growing pause get through. Nothing else is
// tried twice, least of all a refused login, which servers punish.
const (
	loginTries = 4
	firstPause = 200 * time.Millisecond
)

func (d *dialer) login(ctx context.Context) (*ssh.Conn, error) {
	o := ssh.Options{Transport: ssh.Kind(d.Transport), ConfigFile: d.ConfigFile, Log: d.Log, Env: d.Env, Notice: d.notices()}
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		conn, err := ssh.Dial(ctx, d.host, o)
		if err == nil || try == loginTries || !errors.Is(err, ssh.ErrDropped) {
			return conn, err
		}
		d.tell(Step{Stage: "connect", Detail: "the server dropped the connection; trying again"})
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// notices passes on what ssh prints, one line at a time.
func (d *dialer) notices() func(string) {
	if d.Progress == nil {
		return nil
	}
	return func(line string) { d.tell(Step{Stage: "connect", Detail: line}) }
}

// named makes a fault of any error and puts the host in.
func (d *dialer) named(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		f = &fault.Error{Code: fault.Internal, Stage: d.stageName, Who: fault.Local, Detail: err.Error(), Err: err}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			f.Code, f.Who, f.Detail = fault.Timeout, fault.Host, "no answer in the time allowed"
		case errors.Is(err, context.Canceled):
			f.Code, f.Detail = fault.Interrupted, "cancelled"
		}
	}
	if f.Host == "" {
		f.Host = d.host
	}
	if f.Stage == "" {
		f.Stage = d.stageName
	}
	f.Remedy = strings.ReplaceAll(f.Remedy, "HOST", d.host)
	return f
}
