package fleet

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kolu/internal/fault"
	"kolu/stdio"
)

const hang = 30 * time.Second

var ready = stdio.Banner{Verdict: stdio.Ready, Contract: "1.3", Build: "abc", Warnings: []string{"terminals end at logout"}}

func TestWarmHostCostsOneExec(t *testing.T) {
	h := newHost(t)
	h.place(ready, "")
	var mu sync.Mutex
	var stages []string
	o := h.options()
	o.Progress = func(s Step) { mu.Lock(); stages = append(stages, s.Stage); mu.Unlock() }
	for range 3 {
		l, err := Dial(t.Context(), "box", "padi", o)
		if err != nil {
			t.Fatalf("%v %+v", err, err)
		}
		for range 2 {
			c, err := l.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(hang))
			io.WriteString(c, "vanakkam")
			b := make([]byte, 8)
			if _, err := io.ReadFull(c, b); err != nil || string(b) != "vanakkam" {
				t.Errorf("echo %q, %v", b, err)
			}
			c.Close()
		}
		r := l.Report()
		if r.Execs != 1 || r.Rung != "valid" || r.BuildSent != 0 || r.Transport != "native" || r.Sent == 0 || r.Received == 0 || len(r.Took) != 2 {
			t.Errorf("report %+v", r)
		}
		if len(r.Warnings) != 1 || l.Banner().Build != "abc" {
			t.Errorf("warnings %q, banner %+v", r.Warnings, l.Banner())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-l.Done():
		case <-time.After(hang):
			t.Fatal("the link goes on after Close")
		}
		if _, err := l.Dial(t.Context()); !fault.Is(err, fault.Interrupted) {
			t.Errorf("dial on a closed link: %v", err)
		}
	}
	if n := h.execs.Load(); n != 3 {
		t.Errorf("%d execs for three links", n)
	}
	if got := strings.Join(stages[:2], " "); got != "connect probe" {
		t.Errorf("stages %q", got)
	}
}

func TestFrontsThatSayNo(t *testing.T) {
	for _, c := range []struct {
		name   string
		banner stdio.Banner
		script string
		shell  string // what the login shell does in place of the line
		code   fault.Code
		says   string
	}{
		{"refused", stdio.Banner{Verdict: stdio.Refused, Detail: "no home"}, "", "", fault.FrontRefused, "no home"},
		{"refused with a code", stdio.Banner{Verdict: stdio.Refused, Code: "no-daemon", Detail: "none"}, "", "", fault.NoDaemon, "none"},
		{"older contract", stdio.Banner{Verdict: stdio.Ready, Contract: "0.9", Build: "old"}, "", "", fault.Contract, "speaks contract 0.9, this client speaks 1.0"},
		{"newer contract", stdio.Banner{Verdict: stdio.Ready, Contract: "2.0", Build: "new"}, "", "", fault.Contract, "upgrade this client"},
		{"newer contract, named by the front", stdio.Banner{Verdict: stdio.Refused, Code: "contract", Contract: "2.0", Build: "new"}, "", "", fault.Contract, "upgrade this client"},
		{"dies", ready, "echo 'cannot map memory' >&2; exit 7", "", fault.FrontDied, "exit status 7"},
		{"dies without a word", ready, "exit 0", "", fault.FrontDied, "last step was exec"},
		{"terminal on the wire", ready, `printf '@kolu %s banner {}\r\n' "$3"`, "", fault.PTYOnWire, "RequestTTY"},
		{"no shell", ready, "", "exit 1", fault.NoShell, "exit status 1"},
		{"shell for nobody", ready, "", "echo 'This account is currently not available.'; exit 1", fault.LoginRefused, "currently not available"},
		{"endless noise", ready, "", "while :; do echo 'and on and on'; done", fault.Noise, "64 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			h.place(c.banner, c.script)
			if c.shell != "" {
				h.shell = func(string) *exec.Cmd { return exec.Command("/bin/sh", "-c", c.shell) }
			}
			_, err := Dial(t.Context(), "box", "padi", h.options())
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != c.code || f.Host != "box" || f.Stage == "" || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v (%+v), want %s with %q", err, f, c.code, c.says)
			}
			if c.name == "dies" && !strings.Contains(f.Evidence, "cannot map memory") {
				t.Errorf("evidence %q", f.Evidence)
			}
			if n := h.dials.Load(); n != 0 {
				t.Errorf("the daemon was dialled %d times", n)
			}
			if n := h.execs.Load(); n != 1 {
				t.Errorf("%d execs", n)
			}
		})
	}
}

func TestNoiseIsSkippedAndTold(t *testing.T) {
	h := newHost(t)
	h.place(ready, "")
	h.shell = func(line string) *exec.Cmd {
		return exec.Command("/bin/sh", "-c", "echo '*** authorised use only ***'; printf 'no newline: '; "+line)
	}
	l, err := Dial(t.Context(), "box", "padi", h.options())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if w := strings.Join(l.Report().Warnings, "|"); !strings.Contains(w, "authorised use only") {
		t.Errorf("warnings %q", w)
	}
}

func TestDroppedLoginsAreTriedAgain(t *testing.T) {
	h := newHost(t)
	h.place(ready, "")
	h.drop.Store(2)
	l, err := Dial(t.Context(), "box", "padi", h.options())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if n := h.conns.Load(); n != 3 {
		t.Errorf("%d connections", n)
	}
	h.drop.Store(1000)
	if _, err := Dial(t.Context(), "box", "padi", h.options()); !fault.Is(err, fault.Unreachable) {
		t.Errorf("error %v", err)
	}
	if n := h.conns.Load() - 3; n != loginTries {
		t.Errorf("%d tries", n)
	}
}

// Over a master, whose connection others use too, a session may end for what goes on in theirs.
func TestSessionThatIsClosedBeforeItRunsAnythingIsOpenedAgain(t *testing.T) {
	h := newHost(t)
	h.place(ready, "")
	o := h.options()
	o.Transport = "master"
	t.Cleanup(func() { h.endMasters() })
	h.shut.Store(frontTries - 1)
	l, err := Dial(t.Context(), "box", "padi", o)
	if err != nil {
		t.Fatal(err)
	}
	if r := l.Report(); r.Execs == 0 || h.execs.Load() != 1 {
		t.Errorf("%+v, and %d lines were run", r, h.execs.Load())
	}
	l.Close()
	if marks, _ := filepath.Glob(filepath.Join(h.dir, "kolu-ssh", "*.few")); len(marks) != 1 {
		t.Errorf("marks %q: its connections must not be shared at once any more", marks)
	}
	h.shut.Store(1000)
	opened := h.opens.Load()
	if _, err := Dial(t.Context(), "box", "padi", o); !fault.Is(err, fault.Interrupted) {
		t.Errorf("error %v", err)
	}
	if n := h.opens.Load() - opened; n != frontTries {
		t.Errorf("%d sessions", n)
	}
}

func TestRefusedLoginIsNotTriedAgain(t *testing.T) {
	h := newHost(t)
	h.noKey = true
	if _, err := Dial(t.Context(), "box", "padi", h.options()); !fault.Is(err, fault.Auth) {
		t.Errorf("error %v", err)
	}
	if n := h.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestBadHostReachesNothing(t *testing.T) {
	h := newHost(t)
	if _, err := Dial(t.Context(), "-oProxyCommand=x", "padi", h.options()); !fault.Is(err, fault.BadHost) {
		t.Errorf("error %v", err)
	}
	if n := h.conns.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	h := newHost(t)
	started := make(chan struct{})
	h.shell = func(string) *exec.Cmd {
		close(started)
		return exec.Command("/bin/sh", "-c", "exec sleep 1000")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := Dial(ctx, "box", "padi", h.options()); !fault.Is(err, fault.Interrupted) {
		t.Errorf("error %v", err)
	}
}

func TestLinkThatBreaks(t *testing.T) {
	h := newHost(t)
	h.place(ready, "")
	fronts := make(chan *exec.Cmd, 1)
	h.shell = func(line string) *exec.Cmd {
		front := exec.Command("/bin/sh", "-c", line)
		fronts <- front
		return front
	}
	l, err := Dial(t.Context(), "box", "padi", h.options())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "x")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	(<-fronts).Process.Kill()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, stdio.ErrLink) {
		t.Errorf("read: %v, want ErrLink", err)
	}
	select {
	case <-l.Done():
	case <-time.After(hang):
		t.Fatal("the link goes on without its front")
	}
}
