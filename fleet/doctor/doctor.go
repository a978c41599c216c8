// Package doctor looks at a host the way a dial does, step by step, and says of each what it found, how long it took and what helps;
// and it takes away what kolu left on a host. cli/kolucmd calls it. An examination never places a build, starts a daemon or changes
// anything over there; [Forget] ends only daemons that hold no terminal, and those only when it is told to. Start reading at [Examine].
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"kolu/fleet"
	"kolu/fleet/ssh"
	"kolu/internal/fault"
	"kolu/provision"
)

// Options say how the host is reached, as for [fleet.Dial].
type Options struct {
	// Target is what ssh takes for the host; empty means the host's name itself.
	Target     string
	Transport  string
	ConfigFile string
	Env        []string
	Log        *slog.Logger
	// Told is given each step when it is known, if it is set.
	Told func(Step)
}

func (o Options) target(host string) string { return cmp.Or(o.Target, host) }

func (o Options) fleet() fleet.Options {
	return fleet.Options{Transport: o.Transport, ConfigFile: o.ConfigFile, Env: o.Env, Log: o.Log}
}

func (o Options) ssh() ssh.Options {
	return ssh.Options{Transport: ssh.Kind(o.Transport), ConfigFile: o.ConfigFile, Env: o.Env, Log: o.Log}
}

// Status is how a step went.
type Status string

// The states of a step. Warn means that kolu works and that something is less than it should be.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Step is one thing that was looked at.
type Step struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
	// Code is that of the failure, as docs/errors.md has them.
	Code fault.Code `json:"code,omitempty"`
	// MS is how long the step took; 0 where it came along with another one.
	MS int64 `json:"ms"`
}

// Report is the whole examination. Steps that could not be reached are not in it.
type Report struct {
	Host  string `json:"host"`
	Steps []Step `json:"steps"`
}

// Failed reports whether some step failed.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Status == Fail })
}

// Examine looks at a host: the configuration, the connection, and over it one question about everything, then its daemons, each
// asked who it is.
func Examine(ctx context.Context, host string, o Options) Report {
	e := &examination{Options: o, report: Report{Host: host, Steps: []Step{}}}
	e.run(ctx)
	return e.report
}

type examination struct {
	Options
	report Report
	visit  *fleet.Visit
	found  provision.Examination
}

func (e *examination) add(s Step) {
	e.report.Steps = append(e.report.Steps, s)
	if e.Told != nil {
		e.Told(s)
	}
}

// failed is a step that ended the examination.
func (e *examination) failed(name string, took time.Duration, err error) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		f = &fault.Error{Code: fault.Internal, Detail: err.Error()}
	}
	e.add(Step{Name: name, Status: Fail, Detail: f.Detail, Remedy: f.Remedy, Code: f.Code, MS: took.Milliseconds()})
}

func (e *examination) run(ctx context.Context) {
	start := time.Now()
	conf, err := ssh.Resolve(ctx, e.target(e.report.Host), e.ssh())
	if err != nil {
		e.failed("config", time.Since(start), err)
		return
	}
	e.add(Step{Name: "config", Status: OK, Detail: resolved(conf), MS: time.Since(start).Milliseconds()})

	start = time.Now()
	e.visit, err = fleet.Open(ctx, e.target(e.report.Host), e.fleet())
	if err != nil {
		e.failed("connect", time.Since(start), err)
		return
	}
	defer e.visit.Close()
	e.connected()

	sent := time.Now()
	pre, err := e.visit.Ask(ctx, e.visit.Catalog().Examine)
	back := time.Now()
	if err != nil {
		e.failed("shell", back.Sub(sent), err)
		return
	}
	e.found = provision.ParseExamination(pre.Facts)
	e.shell(fault.Printable(pre.Noise, 120), back.Sub(sent))
	asked := e.askFurther(ctx)
	e.system()
	e.places()
	second, t := <-asked.second, <-asked.trust
	if fault.Is(t.err, fault.LoginRefused) { // the other sessions were in its way
		t = e.askTrust(ctx)
	}
	e.store(t)
	e.build(ctx)
	e.runtime()
	for _, s := range <-asked.daemons {
		e.add(s)
	}
	e.sessions(second)
	e.clock(sent, back)
}

func resolved(c ssh.Resolved) string {
	s := fmt.Sprintf("%s@%s port %s", c.User, c.HostName, c.Port)
	switch {
	case c.Jump != "":
		s += " by way of " + c.Jump
	case c.Proxy != "":
		s += " by a ProxyCommand"
	}
	return fault.Printable(s, 200)
}

func (e *examination) connected() {
	r := e.visit.Report()
	s := Step{Name: "connect", Status: OK, Detail: "transport " + r.Transport, MS: e.visit.Took().Milliseconds()}
	if r.Shared {
		s.Detail += ", over a connection that was there"
	}
	if len(r.Warnings) > 0 {
		s.Status, s.Detail = Warn, s.Detail+": "+fault.Printable(strings.Join(r.Warnings, "; "), 300)
	}
	e.add(s)
}

func (e *examination) shell(noise string, took time.Duration) {
	s := Step{Name: "shell", Status: OK, Detail: cmp.Or(e.found.Login, "a shell") + " hands our line to /bin/sh", MS: took.Milliseconds()}
	if noise != "" {
		s.Status, s.Detail = Warn, s.Detail+", and prints on stdout of commands: "+noise
		s.Remedy = "make the shell's start-up files print only when it is interactive"
	}
	e.add(s)
}

// askFurther asks what needs more than the facts, side by side.
func (e *examination) askFurther(ctx context.Context) further {
	f := further{trust: make(chan trust, 1), daemons: make(chan []Step, 1), second: make(chan error, 1)}
	go func() { f.trust <- e.askTrust(ctx) }()
	go func() { f.daemons <- e.askDaemons(ctx) }()
	go func() { f.second <- e.askSecond(ctx) }()
	return f
}

type further struct {
	trust   chan trust
	daemons chan []Step
	second  chan error
}

// trust is what the store says of the user.
type trust struct {
	asked, yes, known bool
	err               error
	took              time.Duration
}

func (e *examination) askTrust(ctx context.Context) trust {
	if e.found.Nix.Dir == "" || !e.found.Nix.Daemon || e.found.Nix.Store.State == provision.StoreWritable {
		return trust{}
	}
	start := time.Now()
	yes, known, err := provision.AskTrust(ctx, e.visit, e.found.Facts)
	return trust{asked: true, yes: yes, known: known, err: err, took: time.Since(start)}
}

// askSecond holds one session open and opens another one beside it.
func (e *examination) askSecond(ctx context.Context) error {
	first, err := e.visit.Start(ctx, "exec /bin/sh -c 'read x'")
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := e.visit.Start(ctx, "exec /bin/sh -c :")
	if err != nil {
		return err
	}
	defer second.Close()
	return second.Wait()
}

func (e *examination) sessions(err error) {
	s := Step{Name: "sessions", Status: OK, Detail: "the server takes several sessions on one connection"}
	if err != nil {
		s.Status, s.Detail = Warn, "the server takes one session at a time on a connection"
		s.Remedy = "kolu works with that; MaxSessions in the host's sshd_config makes a first time quicker"
	}
	e.add(s)
}

func (e *examination) system() {
	system, err := e.found.System()
	if err != nil {
		e.failed("system", 0, err)
		return
	}
	s := Step{Name: "system", Status: OK, Detail: fmt.Sprintf("%s, user %s (%d), home %s", system, e.found.User, e.found.UID, cmp.Or(e.found.Home, "none"))}
	if e.found.LongBit == 32 {
		s.Detail += ", 32 bit userland"
	}
	e.add(s)
}

// places says where a build may stand, and with it whether an upload could go anywhere.
func (e *examination) places() {
	var said []string
	good, room := false, false
	for _, p := range e.found.Places {
		said = append(said, place(p))
		if p.State == provision.PlaceOK {
			good = true
			room = room || p.Free < 0 || p.Free > needed
		}
	}
	s := Step{Name: "places", Status: OK, Detail: strings.Join(said, "; ")}
	if home := e.found.Places; len(home) > 0 && home[0].State != provision.PlaceOK {
		s.Status, s.Remedy = Warn, "a build that stands elsewhere may go away with a reboot"
	}
	switch {
	case good && !room:
		s.Status, s.Remedy, s.Code = Warn, "make room; see with: df -h", fault.DiskFull
	case !good:
		s.Status, s.Code, s.Remedy = Fail, fault.NotWritable, "make ~/.local/share/kolu/builds on the host writable"
		if slices.ContainsFunc(e.found.Places, func(p provision.Place) bool { return p.State == provision.PlaceNoExec }) {
			s.Code, s.Remedy = fault.NoExec, "allow programs in one of these, or install Nix there"
		}
		if e.found.Nix.Dir != "" || e.found.Build != "" {
			s.Status = Warn
		}
	}
	e.add(s)
}

// needed is room for a build of the usual size and a copy.
const needed = 128 << 20

func place(p provision.Place) string {
	s := p.Dir + " " + string(p.State)
	if p.Free >= 0 {
		s += fmt.Sprintf(" (%.1f GiB free", float64(p.Free)/(1<<30))
		if p.Inodes >= 0 && p.Inodes < 10_000 {
			s += fmt.Sprintf(", %d inodes", p.Inodes)
		}
		s += ")"
	}
	return s
}

func (e *examination) store(t trust) {
	n := e.found.Nix
	s := Step{Name: "nix", Status: OK, MS: t.took.Milliseconds()}
	defer func() { e.add(s) }()
	if n.Dir == "" {
		s.Detail = "none; the build goes to the home as a file"
		return
	}
	s.Detail = fmt.Sprintf("%s at %s, store %s", cmp.Or(n.Version, "Nix"), n.Dir, cmp.Or(n.Store.Dir, "not made yet"))
	if n.Store.Dir != "" && n.Owner != "" {
		s.Detail += " of " + n.Owner
	}
	if n.Store.Dir != "" && n.Store.Free >= 0 {
		s.Detail += fmt.Sprintf(" (%.1f GiB free)", float64(n.Store.Free)/(1<<30))
	}
	e.trusted(&s, t)
}

// trusted says what the store takes from the user. Paths that are addressed by their content need no trust.
func (e *examination) trusted(s *Step, t trust) {
	n := e.found.Nix
	switch {
	case n.Store.State == provision.StoreWritable:
		s.Detail += "; we may write to it"
		return
	case !n.Daemon && n.Store.Dir == "" && e.found.StoreCanBeMade:
		s.Detail += "; we may make it"
		return
	case !n.Daemon:
		s.Status, s.Code = Warn, fault.NixRefused
		s.Detail, s.Remedy = s.Detail+"; it is not ours and there is no daemon", "the build goes to the home as a file; nix-daemon on the host would take it into the store"
		return
	case !e.found.AllowedHere():
		s.Status, s.Code = Warn, fault.NixRefused
		s.Detail, s.Remedy = s.Detail+"; "+e.found.User+" is not in allowed-users", "add the user there, in the host's nix.conf"
		return
	case t.err != nil:
		f, _ := errors.AsType[*fault.Error](t.err)
		s.Status, s.Code = Warn, fault.NixDaemonDown
		s.Detail, s.Remedy = s.Detail+"; its daemon does not answer", "start it on the host: systemctl start nix-daemon.socket"
		if f != nil {
			s.Code, s.Remedy = f.Code, cmp.Or(f.Remedy, s.Remedy)
			s.Detail += ": " + f.Detail
		}
		return
	}
	yes, known, by := t.yes, t.known, ""
	if !known {
		yes, known = e.found.TrustsUs()
		by = ", by nix.conf"
	}
	switch {
	case !known:
		s.Detail += "; its daemon answers"
	case yes:
		s.Detail += "; its daemon trusts us" + by
	default:
		s.Detail += "; its daemon does not trust us" + by + ": it takes our build, but no unsigned closure"
	}
}

func (e *examination) build(ctx context.Context) {
	s := Step{Name: "build", Status: OK}
	system, err := e.found.System()
	if err != nil {
		return // said already
	}
	b, err := e.visit.Catalog().Build(ctx, system)
	if err != nil {
		e.failed("build", 0, err)
		return
	}
	s.Detail = fmt.Sprintf("%.12s (%s, %.1f MB)", b.ID(), b.Version, float64(b.Size)/1e6)
	if e.found.Build != "" {
		s.Detail += " stands at " + e.found.Build
	} else {
		s.Detail += " is not there yet; the first verb brings it"
	}
	if old := len(e.found.Left); old > 2 {
		s.Detail += fmt.Sprintf("; %d builds and roots of ours in all", old)
	}
	e.add(s)
}

func (e *examination) runtime() {
	s := Step{Name: "runtime", Status: OK, Detail: "daemons live in " + e.runtimeDir()}
	f := e.found
	switch {
	case f.Lingers:
		s.Detail += "; what runs here outlives the login (lingering)"
	case f.Logind && f.Kills:
		s.Status, s.Detail = Warn, s.Detail+"; logind ends everything at logout (KillUserProcesses=yes)"
		s.Remedy = "on the host: loginctl enable-linger"
	default:
		s.Detail += "; what runs here outlives the login"
	}
	if f.Files != "" {
		s.Detail += "; open files: " + f.Files
	}
	e.add(s)
}

// runtimeDir is where a new daemon would have its home.
func (e *examination) runtimeDir() string {
	f := e.found
	if f.RuntimeDir != "" && (f.Lingers || path.Dir(f.RuntimeDir) != "/run/user") {
		return f.RuntimeDir
	}
	return "/tmp"
}

// farOff is how much clocks may differ before ages and times read wrong.
const farOff = 30 * time.Second

func (e *examination) clock(sent, back time.Time) {
	if e.found.Clock.IsZero() {
		e.add(Step{Name: "clock", Status: OK, Detail: "the host did not say"})
		return
	}
	var off time.Duration // it was read between sent and back
	switch {
	case e.found.Clock.Before(sent):
		off = e.found.Clock.Sub(sent)
	case e.found.Clock.After(back):
		off = e.found.Clock.Sub(back)
	}
	s := Step{Name: "clock", Status: OK, Detail: "the same as here"}
	if off.Abs() > time.Second {
		s.Detail = fmt.Sprintf("%s %s", off.Abs().Round(time.Second), map[bool]string{true: "ahead of ours", false: "behind ours"}[off > 0])
	}
	if off.Abs() > farOff {
		s.Status, s.Remedy = Warn, "times of this host are shown by its own clock; set it there"
	}
	e.add(s)
}
