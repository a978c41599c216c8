package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"kolu/fleet/ssh"
	"kolu/internal/fault"
	"kolu/provision"
	"kolu/stdio"
)

const (
	// usualSilence is how long a host may say nothing while it is asked or starts the front.
	usualSilence = 30 * time.Second
	// lastWords is how long a process that ended may take to say how.
	lastWords = 2 * time.Second
)

// front starts the front with one exec where the build is there, and with a second one after placing it.
func (d *dialer) front(ctx context.Context) (*Link, error) {
	d.stage("probe")
	nonce := strings.ToLower(rand.Text())
	proc, pre, err := d.run(ctx, d.Catalog.Line(d.program, nonce), nonce)
	if err != nil {
		return nil, err
	}
	if pre.Banner == nil {
		proc.Close()
		proc.Wait() // a server may allow one session at a time
		if proc, pre, err = d.install(ctx, pre.Facts); err != nil {
			return nil, err
		}
	}
	return d.link(proc, pre)
}

// install places the build and starts the front from it.
func (d *dialer) install(ctx context.Context, said map[string]string) (*ssh.Process, stdio.Preamble, error) {
	d.stage("provision")
	facts := provision.ParseFacts(said)
	system, err := facts.System()
	if err != nil {
		return nil, stdio.Preamble{}, err
	}
	build, err := d.Catalog.Build(ctx, system)
	if err != nil {
		return nil, stdio.Preamble{}, err
	}
	placed, err := provision.Install(ctx, runner{d}, facts, build, func(s provision.Step) {
		d.tell(Step{Stage: "provision", Detail: s.Stage, Done: s.Done, Total: s.Total})
	})
	d.report.BuildSent = placed.Sent
	for _, t := range placed.Tried {
		d.report.Refused = append(d.report.Refused, Refusal{Rung: string(t.Rung), Place: t.Place, Code: t.Err.Code, Detail: t.Err.Detail})
	}
	if err != nil {
		return nil, stdio.Preamble{}, err
	}
	d.report.Rung = string(placed.Rung)
	d.report.Warnings = append(d.report.Warnings, placed.Warnings...)
	d.stage("start")
	nonce := strings.ToLower(rand.Text())
	proc, pre, err := d.run(ctx, provision.StartLine(placed, d.program, nonce), nonce)
	if err == nil && pre.Banner == nil {
		proc.Close()
		err = &fault.Error{Code: fault.FrontDied, Stage: "start", Who: fault.Host, Detail: "the front that was just placed did not start",
			Evidence: fault.Printable(pre.Noise, 600)}
	}
	return proc, pre, err
}

// run starts a line and reads what it says up to the banner or the end of the facts.
func (d *dialer) run(ctx context.Context, line, nonce string) (*ssh.Process, stdio.Preamble, error) {
	d.execs.Add(1)
	proc, err := d.conn.StartWithAgent(ctx, line)
	if err != nil {
		return nil, stdio.Preamble{}, err
	}
	out := newWatched(ctx, proc.Stdout(), d.patience())
	pre, err := stdio.ReadPreamble(out.ctx, out, nonce)
	out.stop()
	if err == nil {
		return proc, pre, nil
	}
	defer proc.Close()
	if ctx.Err() != nil {
		return nil, pre, context.Cause(ctx)
	}
	return nil, pre, d.explain(proc, pre, err)
}

// patience is how long a host may be silent.
func (d *dialer) patience() time.Duration { return cmp.Or(d.silence, usualSilence) }

// watched ends its context when nothing was read for a while.
type watched struct {
	io.ReadCloser
	ctx   context.Context
	end   context.CancelCauseFunc
	timer *time.Timer
	limit time.Duration
}

var errSilent = errors.New("the host was silent")

func newWatched(ctx context.Context, r io.ReadCloser, limit time.Duration) *watched {
	ctx, end := context.WithCancelCause(ctx)
	return &watched{ReadCloser: r, ctx: ctx, end: end, limit: limit, timer: time.AfterFunc(limit, func() { end(errSilent) })}
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if n > 0 && w.ctx.Err() == nil {
		w.timer.Reset(w.limit)
	}
	return n, err
}

func (w *watched) stop() {
	w.timer.Stop()
	w.end(nil)
}

// explain adds to a failed preamble what the process said of its end.
func (d *dialer) explain(proc *ssh.Process, pre stdio.Preamble, err error) error {
	if errors.Is(err, errSilent) {
		return d.silent(proc, pre, err)
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	f.Stage = d.stageName
	if f.Code != fault.NoShell && f.Code != fault.FrontDied {
		return f
	}
	f.Evidence = fault.Printable(pre.Noise+"\n"+proc.Stderr(), 600)
	select {
	case <-proc.Done():
	case <-time.After(lastWords):
		return f
	}
	f.Evidence = fault.Printable(pre.Noise+"\n"+proc.Stderr(), 600)
	d.ended(f, pre, proc.Wait(), proc.Stderr())
	return f
}

func (d *dialer) silent(proc *ssh.Process, pre stdio.Preamble, err error) error {
	f := &fault.Error{Code: fault.Timeout, Stage: d.stageName, Who: fault.Host, Err: err,
		Detail:   fmt.Sprintf("the host said nothing for %s", d.patience()),
		Remedy:   "see whether `ssh HOST true` returns; a start-up file of the login shell may be waiting for input",
		Evidence: fault.Printable(pre.Noise+"\n"+proc.Stderr(), 600)}
	if pre.LastMark != "" {
		f.Detail += "; the last step was " + fault.Printable(pre.LastMark, 80)
	}
	return f
}

// refusals are what a host prints that lets a user authenticate and then not work.
var refusals = []string{"not available", "expired", "nologin", "not allowed to", "disabled"}

// ended says how the process came to its end, and what it said on its stderr, which is often the reason.
func (d *dialer) ended(f *fault.Error, pre stdio.Preamble, how error, said string) {
	exit, isExit := errors.AsType[*ssh.ExitError](how)
	switch {
	case errors.Is(how, ssh.ErrExecRefused):
		f.Code, f.Detail, f.Remedy = fault.LoginRefused, "the server does not run commands for this user", "see what `ssh HOST true` says"
	case errors.Is(how, ssh.ErrNoStatus):
		f.Code, f.Detail, f.Remedy = fault.Interrupted, "the connection broke", "run the same command again"
	case f.Code == fault.NoShell && refusal(f.Evidence):
		f.Code, f.Detail, f.Remedy = fault.LoginRefused, "the host lets this user log in but not work", "see what `ssh HOST true` says"
	case isExit:
		f.Detail += " (" + exit.Error() + ")"
		d.neverRan(f, pre, exit.Status)
	}
	if last := fault.Printable(said, 200); last != "" && (f.Code == fault.FrontDied || f.Code == fault.NoExec) {
		f.Detail += ": " + last
	}
	if f.Code == fault.LoginRefused && f.Evidence != "" {
		f.Detail += ": " + fault.Printable(f.Evidence, 120)
	}
	if f.Code == fault.FrontDied && f.Remedy == "" {
		f.Remedy = "run `kolu host doctor HOST`, or the same command again"
	}
}

// neverRan names a build that stands there and that the host would not run: sh says so by 126, and by 127 when what should load it is
// missing.
func (d *dialer) neverRan(f *fault.Error, pre stdio.Preamble, code int) {
	if f.Code != fault.FrontDied || !strings.HasPrefix(pre.LastMark, "exec ") || code != 126 && code != 127 {
		return
	}
	f.Code, f.Detail = fault.NoExec, "the host does not run the build that stands there"
	if code == 127 {
		f.Detail = "the build stands there, and what should load it does not"
	}
	f.Detail += fmt.Sprintf(" (%s, exit status %d)", fault.Printable(pre.LastMark, 200), code)
	f.Remedy = "see what forbids it there (noexec, SELinux, AppArmor), or take it away with: kolu host forget HOST"
}

func refusal(text string) bool {
	for _, r := range refusals {
		if strings.Contains(strings.ToLower(text), r) {
			return true
		}
	}
	return false
}

// link checks the banner and goes over to the wire after it.
func (d *dialer) link(proc *ssh.Process, pre stdio.Preamble) (*Link, error) {
	b := *pre.Banner
	if err := d.admit(b, proc); err != nil {
		proc.Close()
		return nil, err
	}
	if noise := fault.Printable(pre.Noise, 120); noise != "" {
		d.report.Warnings = append(d.report.Warnings, "the login shell prints on stdout of commands: "+noise)
	}
	d.report.Warnings = append(d.report.Warnings, b.Warnings...)
	mux, err := stdio.Client(proc.Stdout(), proc.Stdin())
	if err != nil {
		proc.Close()
		return nil, &fault.Error{Code: fault.Interrupted, Stage: "link", Who: fault.Host, Err: err, Detail: err.Error(), Remedy: "run the same command again"}
	}
	return &Link{conn: d.conn, proc: proc, mux: mux, banner: b}, nil
}

// admit is the gate: a daemon of another major contract, whether or not its front says so, and a front that says no, are left
// alone.
func (d *dialer) admit(b stdio.Banner, proc *ssh.Process) error {
	known := b.Verdict == stdio.Ready || b.Contract != ""
	if known && d.Contract != "" && major(b.Contract) != major(d.Contract) {
		return d.foreign(b)
	}
	if b.Verdict == stdio.Ready {
		return nil
	}
	code := fault.Code(b.Code)
	if code == "" {
		code = fault.FrontRefused
	}
	return &fault.Error{Code: code, Stage: d.stageName, Who: fault.Host, Detail: fault.Printable(b.Detail, 300),
		Remedy: "see the log of " + d.program + " on the host", Evidence: fault.Printable(proc.Stderr(), 600)}
}

// foreign names a daemon of another major contract.
func (d *dialer) foreign(b stdio.Banner) error {
	f := &fault.Error{Code: fault.Contract, Stage: d.stageName, Who: fault.Host,
		Detail: fmt.Sprintf("the %s there is build %.12s and speaks contract %s, this client speaks %s; it and its terminals are left alone",
			d.program, fault.Printable(b.Build, 40), fault.Printable(b.Contract, 20), d.Contract),
		Remedy: "use the client of that build"}
	if theirs, err := strconv.Atoi(major(b.Contract)); err == nil {
		if ours, err := strconv.Atoi(major(d.Contract)); err == nil && theirs > ours {
			f.Who, f.Remedy = fault.Local, "upgrade this client"
		}
	}
	return f
}

func major(contract string) string {
	m, _, _ := strings.Cut(contract, ".")
	return m
}

// start runs a line and counts it.
func (d *dialer) start(ctx context.Context, line string) (*ssh.Process, error) {
	d.execs.Add(1)
	return d.conn.Start(ctx, line)
}

// runner is the connection as provision wants it.
type runner struct{ d *dialer }

func (r runner) Start(ctx context.Context, line string) (provision.Process, error) {
	p, err := r.d.start(ctx, line)
	if err != nil {
		return nil, err
	}
	return p, nil
}
