package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"kolu/daemon"
	"kolu/fleet"
	"kolu/fleet/ssh"
	"kolu/internal/fault"
	"kolu/internal/shellquote"
	"kolu/provision"
)

// Forgotten is what was taken away from a host and what remains.
type Forgotten struct {
	Host    string   `json:"host"`
	Ended   []string `json:"ended"`   // daemons without terminals that were ended
	Removed []string `json:"removed"` // paths on the host
	Masters []string `json:"masters"` // ssh masters of ours on this machine
	Kept    []Kept   `json:"kept"`
}

// Kept is something that remains and what finishes it.
type Kept struct {
	What   string `json:"what"`
	Why    string `json:"why"`
	Remedy string `json:"remedy,omitempty"`
}

// BusyError says that daemons of the host hold terminals, so that nothing was touched.
type BusyError struct {
	Host string
	Held []Holding
}

// Holding is one daemon and the terminals that it keeps alive. Unknown is set where it could not be asked.
type Holding struct {
	Kind, Socket string
	PID          int
	Terminals    []string
	Unknown      error
}

func (e *BusyError) Error() string {
	var b strings.Builder
	live, end := "terminals live there", fmt.Sprintf("end them with `kolu kill --host %s ID`, then run this again", e.Host)
	if !slices.ContainsFunc(e.Held, func(h Holding) bool { return len(h.Terminals) > 0 }) {
		live, end = "terminals may live there", fmt.Sprintf("look with `kolu ls --host %s`, which also brings the build that can ask", e.Host)
	}
	fmt.Fprintf(&b, "%s: nothing was removed, since %s — %s", e.Host, live, end)
	for _, h := range e.Held {
		what := strings.Join(h.Terminals, ", ")
		if h.Unknown != nil {
			what = "could not be asked, so it may hold terminals: " + fault.Printable(h.Unknown.Error(), 160)
		}
		fmt.Fprintf(&b, "\n  %s (pid %d, %s): %s", h.Kind, h.PID, h.Socket, what)
	}
	return b.String()
}

// Forget removes what kolu left on a host: builds, the roots that keep them in a store, what broken attempts left, and on this
// machine our ssh masters to it. A host with terminals is left as it is, and the error is a *[BusyError] that names them. Daemons
// without terminals, and the builds they run, stay unless all is set; with it they end, and so does what other machines may share
// through a common home. Doing it twice is no error. Other errors are *fault.Error.
func Forget(ctx context.Context, host string, all bool, o Options) (Forgotten, error) {
	f := &forgetting{examination: examination{Options: o, report: Report{Host: host}}, all: all, done: Forgotten{
		Host: host, Ended: []string{}, Removed: []string{}, Masters: []string{}, Kept: []Kept{},
	}}
	if err := f.there(ctx); err != nil {
		return f.done, err
	}
	masters, err := ssh.StopMasters(ctx, o.target(host), o.ssh())
	f.done.Masters = append(f.done.Masters, masters...)
	if err != nil {
		f.keep("an ssh master of ours", err.Error(), "")
	}
	return f.done, nil
}

type forgetting struct {
	examination
	all  bool
	done Forgotten
}

func (f *forgetting) keep(what, why, remedy string) {
	f.done.Kept = append(f.done.Kept, Kept{What: what, Why: why, Remedy: remedy})
}

// there does what is done on the host.
func (f *forgetting) there(ctx context.Context) error {
	visit, err := fleet.Open(ctx, f.target(f.done.Host), f.fleet())
	if err != nil {
		return err
	}
	defer visit.Close()
	f.visit = visit
	pre, err := visit.Ask(ctx, visit.Catalog().Examine)
	if err != nil {
		return err
	}
	f.found = provision.ParseExamination(pre.Facts)
	daemons := f.greet(ctx)
	if held := holding(daemons); len(held) > 0 {
		return &BusyError{Host: f.done.Host, Held: held}
	}
	if f.all {
		if err := f.end(ctx, daemons); err != nil {
			return err
		}
	}
	pre, err = visit.Ask(ctx, func(nonce string) string { return provision.Forget(nonce, f.all) })
	if err != nil {
		return err
	}
	f.removed(provision.ParseForgotten(pre.Facts))
	f.remains(daemons)
	return nil
}

// holding are the daemons that hold terminals or may hold some.
func holding(daemons []known) []Holding {
	var held []Holding
	for _, k := range daemons {
		if k.Live && (k.count > 0 || k.err != nil) {
			held = append(held, Holding{Kind: k.Kind, Socket: k.Socket, PID: k.PID, Terminals: k.terminals, Unknown: k.err})
		}
	}
	return held
}

// endWithin bounds how long a daemon without terminals may take to end.
const endWithin = 10 * time.Second

// end ends the daemons, padis first since they are what makes terminals; a kaval is asked once more before it gets its signal.
func (f *forgetting) end(ctx context.Context, daemons []known) error {
	padisFirst := slices.Clone(daemons)
	slices.SortStableFunc(padisFirst, func(a, b known) int { return -cmp.Compare(a.Kind, b.Kind) })
	owned := map[string]bool{} // state roots of padis that somebody else keeps, and that keep a kaval themselves
	for _, k := range padisFirst {
		if !k.Live || owned[k.StateRoot] {
			continue
		}
		if k.Owner != "" {
			owned[k.StateRoot] = k.StateRoot != ""
			f.keep(fmt.Sprintf("%s pid %d at %s", k.Kind, k.PID, k.Socket), "it is kept by "+k.Owner, "stop that first")
			continue
		}
		if err := f.endOne(ctx, k); err != nil {
			return err
		}
		f.done.Ended = append(f.done.Ended, fmt.Sprintf("%s pid %d at %s", k.Kind, k.PID, k.Socket))
	}
	return nil
}

func (f *forgetting) endOne(ctx context.Context, k known) error {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	signal := k.Kind != daemon.Padi.Name
	if !signal {
		if err := f.drain(ctx, k); err != nil {
			return f.stays(k, err)
		}
	} else if held := holding([]known{f.greetOne(ctx, k.Daemon)}); len(held) > 0 {
		return &BusyError{Host: f.done.Host, Held: held}
	}
	pre, err := f.visit.Ask(ctx, func(nonce string) string { return provision.End(nonce, k.Daemon, signal) })
	if err != nil {
		return err
	}
	if pre.Facts["ended"] == "" {
		return f.stays(k, errors.New("it did not end"))
	}
	return nil
}

func (f *forgetting) stays(k known, err error) error {
	return &fault.Error{Code: fault.FrontRefused, Stage: "start", Who: fault.Host, Host: f.done.Host, Err: err,
		Detail: fmt.Sprintf("the %s with pid %d stays: %s", k.Kind, k.PID, fault.Printable(err.Error(), 200)), Remedy: "leave out --all"}
}

// drain asks a padi to save what it knows and to end.
func (f *forgetting) drain(ctx context.Context, k known) error {
	at, err := f.bridge(ctx, k.Daemon)
	if err != nil {
		return err
	}
	defer at.Close()
	client := daemon.HTTPClient(at)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://daemon/v1/drain", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return daemon.Unwrapped(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, detail := daemon.ReadProblem(resp)
		return errors.New(detail)
	}
	return nil
}

func (f *forgetting) removed(got provision.Forgotten) {
	f.done.Removed = append(f.done.Removed, got.Removed...)
	for _, p := range got.Used {
		f.keep(p, "a process runs from it", "kolu host forget "+f.done.Host+" --all")
	}
	for _, p := range got.Shared {
		f.keep(p, "other machines may share this home and run it", "kolu host forget "+f.done.Host+" --all")
	}
	for _, p := range got.Kept {
		f.keep(p, "it could not be removed", f.remove(p))
	}
	for _, p := range got.Store {
		f.keep(p, "nothing of ours keeps it in the store any more", "the host's next nix-store --gc takes it")
	}
}

// remains names what is the user's own: what padis remember, and the homes of daemons that are no more.
func (f *forgetting) remains(daemons []known) {
	var roots []string
	for _, k := range daemons {
		if k.StateRoot != "" && !slices.Contains(roots, k.StateRoot) {
			roots = append(roots, k.StateRoot)
			f.keep(k.StateRoot, "what padi remembers of its terminals, and its log", f.remove(k.StateRoot))
		}
		if !k.Live && !slices.Contains(f.done.Removed, path.Dir(k.Socket)) {
			f.keep(path.Dir(k.Socket), "the home of a daemon that is no more; the next one there clears it", f.remove(path.Dir(k.Socket)))
		}
	}
}

// remove is the command that takes a path away.
func (f *forgetting) remove(p string) string {
	return "ssh " + shellquote.Join([]string{f.target(f.done.Host), "rm -rf " + shellquote.Join([]string{p})})
}
