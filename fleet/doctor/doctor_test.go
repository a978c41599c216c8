package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kolu/daemon"
	"kolu/internal/fault"
	"kolu/provision"
)

func nix(store provision.Place, daemon bool) provision.Facts {
	return provision.Facts{UID: 1000, User: "ada", Nix: provision.NixFacts{Dir: "/usr/bin", Version: "nix-store (Nix) 2.26.3", Daemon: daemon, Store: store, Owner: "root"}}
}

func TestStore(t *testing.T) {
	ours := provision.Place{Dir: "/nix/store", State: provision.StoreWritable, Free: 5 << 30}
	roots := provision.Place{Dir: "/nix/store", State: provision.PlaceReadOnly, Free: 5 << 30}
	down := &fault.Error{Code: fault.NixDaemonDown, Detail: "nix-daemon does not answer", Remedy: "start it"}
	for name, tt := range map[string]struct {
		found  provision.Examination
		trust  trust
		status Status
		says   string
		code   fault.Code
	}{
		"none":           {provision.Examination{}, trust{}, OK, "none", ""},
		"our own":        {provision.Examination{Facts: nix(ours, false)}, trust{}, OK, "we may write", ""},
		"somebody's":     {provision.Examination{Facts: nix(roots, false)}, trust{}, Warn, "no daemon", fault.NixRefused},
		"to be made":     {provision.Examination{Facts: nix(provision.Place{}, false), StoreCanBeMade: true}, trust{}, OK, "may make it", ""},
		"allowed-users":  {provision.Examination{Facts: nix(roots, true), Allowed: []string{"eve"}}, trust{}, Warn, "allowed-users", fault.NixRefused},
		"daemon down":    {provision.Examination{Facts: nix(roots, true)}, trust{asked: true, err: down}, Warn, "does not answer", fault.NixDaemonDown},
		"trusted":        {provision.Examination{Facts: nix(roots, true)}, trust{asked: true, yes: true, known: true}, OK, "trusts us", ""},
		"untrusted":      {provision.Examination{Facts: nix(roots, true)}, trust{asked: true, known: true}, OK, "no unsigned closure", ""},
		"by nix.conf":    {provision.Examination{Facts: nix(roots, true), Trusted: []string{"ada"}}, trust{asked: true}, OK, "trusts us, by nix.conf", ""},
		"nobody says it": {provision.Examination{Facts: nix(roots, true)}, trust{asked: true}, OK, "answers", ""},
	} {
		e := &examination{found: tt.found}
		e.store(tt.trust)
		s := e.report.Steps[0]
		if s.Status != tt.status || !strings.Contains(s.Detail, tt.says) || s.Code != tt.code || (s.Status == OK) != (s.Remedy == "") {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

func TestPlaces(t *testing.T) {
	place := func(state provision.PlaceState, free int64) provision.Place {
		return provision.Place{Dir: "/h/builds", State: state, Free: free, Inodes: -1}
	}
	for name, tt := range map[string]struct {
		places []provision.Place
		nix    string
		status Status
		code   fault.Code
	}{
		"good":                {[]provision.Place{place(provision.PlaceOK, 1<<30)}, "", OK, ""},
		"not known":           {[]provision.Place{place(provision.PlaceOK, -1)}, "", OK, ""},
		"elsewhere":           {[]provision.Place{place(provision.PlaceNoExec, 1<<30), place(provision.PlaceOK, 1<<30)}, "", Warn, ""},
		"no room":             {[]provision.Place{place(provision.PlaceOK, 1<<20)}, "", Warn, fault.DiskFull},
		"noexec":              {[]provision.Place{place(provision.PlaceNoExec, 1<<30), place(provision.PlaceReadOnly, -1)}, "", Fail, fault.NoExec},
		"read-only":           {[]provision.Place{place(provision.PlaceReadOnly, 1<<30)}, "", Fail, fault.NotWritable},
		"noexec and with Nix": {[]provision.Place{place(provision.PlaceNoExec, 1<<30)}, "/usr/bin", Warn, fault.NoExec},
	} {
		e := &examination{found: provision.Examination{Facts: provision.Facts{Places: tt.places, Nix: provision.NixFacts{Dir: tt.nix}}}}
		e.places()
		if s := e.report.Steps[0]; s.Status != tt.status || s.Code != tt.code || (s.Status == OK) != (s.Remedy == "") {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

func TestRuntime(t *testing.T) {
	for name, tt := range map[string]struct {
		found  provision.Examination
		status Status
		says   string
	}{
		"lingers":      {provision.Examination{RuntimeDir: "/run/user/7", Logind: true, Kills: true, Lingers: true}, OK, "live in /run/user/7"},
		"kills":        {provision.Examination{RuntimeDir: "/run/user/7", Logind: true, Kills: true}, Warn, "KillUserProcesses"},
		"does not":     {provision.Examination{RuntimeDir: "/run/user/7", Logind: true}, OK, "live in /tmp"},
		"its own":      {provision.Examination{RuntimeDir: "/srv/run"}, OK, "live in /srv/run"},
		"without any":  {provision.Examination{}, OK, "live in /tmp"},
		"open files":   {provision.Examination{Files: "256"}, OK, "open files: 256"},
		"kills nobody": {provision.Examination{Kills: true}, OK, "outlives"},
	} {
		e := &examination{found: tt.found}
		e.runtime()
		if s := e.report.Steps[0]; s.Status != tt.status || !strings.Contains(s.Detail, tt.says) {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

func TestClock(t *testing.T) {
	sent := time.Unix(1_700_000_000, 0)
	back := sent.Add(300 * time.Millisecond)
	for name, tt := range map[string]struct {
		clock  time.Time
		status Status
		says   string
	}{
		"in between": {sent.Add(100 * time.Millisecond), OK, "the same"}, "half a second": {sent.Add(-500 * time.Millisecond), OK, "the same"},
		"ahead": {back.Add(10 * time.Second), OK, "10s ahead"}, "far behind": {sent.Add(-time.Hour), Warn, "1h0m0s behind"}, "not said": {time.Time{}, OK, "did not say"},
	} {
		e := &examination{found: provision.Examination{Clock: tt.clock}}
		e.clock(sent, back)
		if s := e.report.Steps[0]; s.Status != tt.status || !strings.Contains(s.Detail, tt.says) {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

func TestDaemonStep(t *testing.T) {
	live := provision.Daemon{Kind: "padi", PID: 7, Live: true, Socket: "/tmp/padi-1/padi.sock"}
	dead := live
	dead.Live = false
	owned := live
	owned.Owner = "systemd unit padi.service"
	for name, tt := range map[string]struct {
		known  known
		status Status
		says   string
		code   fault.Code
	}{
		"answers":          {known{Daemon: live, hello: daemon.Hello{PID: 7, Contract: "1.0", Build: "abc"}, count: 1}, OK, "1 terminal,", ""},
		"has an owner":     {known{Daemon: owned, hello: daemon.Hello{PID: 7, Contract: "1.0", Build: "abc"}}, OK, ", kept by systemd unit padi.service", ""},
		"another contract": {known{Daemon: live, hello: daemon.Hello{PID: 7, Contract: "9.0"}}, Fail, "speaks contract", fault.Contract},
		"silent":           {known{Daemon: live, err: errors.New("no answer")}, Warn, "no answer", ""},
		"gone":             {known{Daemon: dead}, OK, "left at", ""},
	} {
		if s := tt.known.step(); s.Status != tt.status || !strings.Contains(s.Detail, tt.says) || s.Code != tt.code || (s.Status == OK) != (s.Remedy == "") {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

func TestHolding(t *testing.T) {
	d := provision.Daemon{Kind: "padi", PID: 7, Live: true, Socket: "/tmp/padi-1/padi.sock"}
	dead := d
	dead.Live = false
	if held := holding([]known{{Daemon: d}, {Daemon: dead, count: 3}}); len(held) > 0 {
		t.Errorf("daemons without terminals hold %+v", held)
	}
	held := holding([]known{{Daemon: d, count: 2, terminals: []string{"aaaa", "bbbb (a build)"}}})
	err := (&BusyError{Host: "h", Held: held}).Error()
	for _, want := range []string{"h: nothing was removed", "terminals live there", "kolu kill --host h", "padi (pid 7, /tmp/padi-1/padi.sock): aaaa, bbbb (a build)"} {
		if !strings.Contains(err, want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	unknown := (&BusyError{Host: "h", Held: holding([]known{{Daemon: d, err: errors.New("silent")}})}).Error()
	if !strings.Contains(unknown, "may live there") || !strings.Contains(unknown, "silent") {
		t.Errorf("got %q", unknown)
	}
}

// TestExamineEndsWhereItFails has hosts that are none: there is a report with the steps so far, and it is a JSON object.
func TestExamineEndsWhereItFails(t *testing.T) {
	agents := t.TempDir()
	sum := strings.Repeat("0123456789abcdef", 4)
	var builds []string
	for _, system := range provision.Systems {
		builds = append(builds, fmt.Sprintf(`{"system":%q,"file":"f","size":1,"sha256":%q,"narHash":%q,"narSize":500}`, system, sum, sum))
	}
	if err := os.WriteFile(filepath.Join(agents, provision.ManifestName), []byte(`{"version":"0.1.0","builds":[`+strings.Join(builds, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=/nonexistent", provision.AgentsVar + "=" + agents}
	for host, step := range map[string]string{"-oProxyCommand=x": "config", "no-such-host.invalid": "connect"} {
		var told []Step
		r := Examine(t.Context(), host, Options{Env: env, Transport: "native", Told: func(s Step) { told = append(told, s) }})
		last := r.Steps[len(r.Steps)-1]
		if last.Name != step || last.Status != Fail || last.Code == "" || last.Remedy == "" || !r.Failed() || len(told) != len(r.Steps) {
			t.Errorf("%s: got %+v", host, r)
		}
		text, err := json.Marshal(r)
		if err != nil || !strings.HasPrefix(string(text), `{"host":`) || !strings.Contains(string(text), `"status":"fail"`) {
			t.Errorf("got %s, %v", text, err)
		}
	}
	if _, err := Forget(t.Context(), "no-such-host.invalid", true, Options{Env: env, Transport: "native"}); err == nil {
		t.Error("forgetting no host: no error")
	}
}
