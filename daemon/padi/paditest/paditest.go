// Package paditest is the proof of padi's contract: [TestWorkspace] passes for any padi.Workspace, in process or at the far end of
// any line. It makes its own terminals, looks only at those, and ends them; whatever else the workspace holds stays as it is. The
// machine behind it needs a POSIX shell as the user's shell, or bash, zsh or fish.
package paditest

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// hang bounds what must come at all; nothing is measured with it.
const hang = 60 * time.Second

const hangMS = int64(hang / time.Millisecond)

// TestWorkspace proves a workspace. open gives one, which lives until the end of the test it is given.
func TestWorkspace(t *testing.T, open func(t *testing.T) padi.Workspace) {
	for _, part := range []struct {
		name string
		test func(*proof)
	}{
		{"create shows in the roster", createShows},
		{"placement is required", placement},
		{"bad requests are refused", refusals},
		{"commands arrive word by word", words},
		{"a long command arrives whole", longCommand},
		{"splits and their parents", splits},
		{"input, screen, size and history", screen},
		{"the environment of a terminal", environment},
		{"kill ends and forgets", kill},
		{"an exit removes", exit},
		{"waits for output", waitOutput},
		{"waits for an agent", waitAgent},
		{"the roster stream", stream},
		{"a context ends what it bounds", contexts},
		{"kaval is up", status},
		{"repositories and their worktrees", repositories},
	} {
		t.Run(part.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
			defer cancel()
			part.test(&proof{T: t, ctx: ctx, Workspace: open(t)})
		})
	}
}

// proof is one part's workspace, with what the parts share.
type proof struct {
	*testing.T
	padi.Workspace
	ctx context.Context
}

func (p *proof) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *proof) refuses(what string, err, want error) {
	p.Helper()
	if !errors.Is(err, want) {
		p.Errorf("%s gave %v, want %v", what, err, want)
	}
}

// create makes a terminal that ends with the part.
func (p *proof) create(req padi.CreateRequest) padi.Created {
	p.Helper()
	if req.Placement == (padi.Placement{}) {
		req.Placement.Toplevel = true
	}
	made, err := p.Create(p.ctx, req)
	p.must(err)
	p.Cleanup(func() {
		_, err := p.Workspace.Kill(context.WithoutCancel(p.ctx), made.ID)
		if err != nil && !errors.Is(err, kaval.ErrNoTerminal) {
			p.Errorf("clean up: %v", err)
		}
	})
	return made
}

func (p *proof) run(argv ...string) padi.Created {
	p.Helper()
	return p.create(padi.CreateRequest{Run: argv})
}

// says waits for output from the terminal's beginning on and gives what the groups matched. Each group is looked for in the screen, so
// the pattern must fit on one.
func (p *proof) says(id padi.TerminalID, pattern string) {
	p.Helper()
	from := int64(0)
	res, err := p.Wait(p.ctx, id, padi.WaitRequest{Match: pattern, After: &from, TimeoutMS: hangMS})
	p.must(err)
	if res.Result != kaval.Met {
		p.Fatalf("wait for %s: %+v, the screen shows\n%s", pattern, res, p.text(id))
	}
}

func (p *proof) text(id padi.TerminalID) string {
	p.Helper()
	shown, err := p.Screen(p.ctx, id, kaval.ScreenRequest{Extent: kaval.Full, Trim: true})
	if err != nil {
		return err.Error()
	}
	return shown.Text
}

// becomes waits for a record to be as it should.
func (p *proof) becomes(id padi.TerminalID, what string, ok func(padi.Record) bool) padi.Record {
	p.Helper()
	for ev, err := range p.Watch(p.ctx) {
		p.must(err)
		records := ev.Records
		if ev.Record != nil {
			records = []padi.Record{*ev.Record}
		}
		for _, rec := range records {
			if rec.ID == id && ok(rec) {
				return rec
			}
		}
	}
	p.Fatalf("terminal %s never was %s", id, what)
	return padi.Record{}
}

// removed waits until a record is gone.
func (p *proof) removed(id padi.TerminalID) {
	p.Helper()
	for ev, err := range p.Watch(p.ctx) {
		p.must(err)
		listed := slices.ContainsFunc(ev.Records, func(r padi.Record) bool { return r.ID == id })
		if ev.Kind == padi.EventSnapshot && !listed || ev.Kind == padi.EventRemoved && ev.ID == id {
			return
		}
	}
	p.Fatalf("terminal %s stays", id)
}

func (p *proof) enter(id padi.TerminalID, line string) {
	p.Helper()
	p.must(p.Write(p.ctx, id, kaval.Input{Data: []byte(line + "\r")}))
}

func createShows(p *proof) {
	first := p.create(padi.CreateRequest{CWD: "/", Intent: "one\ntwo"})
	second := p.create(padi.CreateRequest{CWD: "/"})
	recs, err := p.Terminals(p.ctx)
	p.must(err)
	at := func(id padi.TerminalID) int {
		return slices.IndexFunc(recs, func(r padi.Record) bool { return r.ID == id })
	}
	if at(first.ID) < 0 || at(second.ID) < at(first.ID) {
		p.Fatalf("%s and %s are not there in the order of their creation: %+v", first.ID, second.ID, recs)
	}
	rec, err := p.Terminal(p.ctx, first.ID)
	p.must(err)
	if rec.State != padi.Active || rec.Intent != "one\ntwo" || rec.CWD != "/" || rec.PID != first.PID || rec.PID <= 0 || rec.CreatedAt == 0 {
		p.Errorf("created %+v, record %+v", first, rec)
	}
	if first.ID == second.ID || first.Ran != "" || first.Worktree != nil {
		p.Errorf("created %+v and %+v", first, second)
	}
}

func placement(p *proof) {
	_, err := p.Create(p.ctx, padi.CreateRequest{})
	p.refuses("a create without placement", err, kaval.ErrInvalid)
	_, err = p.Create(p.ctx, padi.CreateRequest{Placement: padi.Placement{Toplevel: true, Parent: "x"}})
	p.refuses("a create with two placements", err, kaval.ErrInvalid)
	_, err = p.Create(p.ctx, padi.CreateRequest{Placement: padi.Placement{Parent: "nobody"}})
	p.refuses("a create below nobody", err, padi.ErrNoParent)
}

func refusals(p *proof) {
	const nobody padi.TerminalID = "00000000-0000-4000-8000-00000000dead"
	_, err := p.Terminal(p.ctx, nobody)
	p.refuses("a look at nobody", err, kaval.ErrNoTerminal)
	_, err = p.Terminal(p.ctx, "")
	p.refuses("a look at no id", err, kaval.ErrNoTerminal)
	_, err = p.Workspace.Kill(p.ctx, nobody)
	p.refuses("a kill of nobody", err, kaval.ErrNoTerminal)
	p.refuses("input to nobody", p.Write(p.ctx, nobody, kaval.Input{Data: []byte("x")}), kaval.ErrNoTerminal)
	p.refuses("a size for nobody", p.Resize(p.ctx, nobody, kaval.Size{Cols: 9, Rows: 9}), kaval.ErrNoTerminal)
	_, err = p.Screen(p.ctx, nobody, kaval.ScreenRequest{})
	p.refuses("a screen of nobody", err, kaval.ErrNoTerminal)
	_, err = p.History(p.ctx, nobody, kaval.HistoryRequest{Max: 1})
	p.refuses("a history of nobody", err, kaval.ErrNoTerminal)
	for what, req := range map[string]padi.WaitRequest{
		"until": {Until: []padi.Bucket{padi.BucketWaiting}}, "idle": {IdleMS: 1}, "match": {Match: "x"},
	} {
		_, err = p.Wait(p.ctx, nobody, req)
		p.refuses("a wait for nobody, "+what, err, kaval.ErrNoTerminal)
	}
	for what, req := range map[string]padi.CreateRequest{
		"a relative directory":    {CWD: "x"},
		"a directory and a tree":  {CWD: "/", Worktree: "b", Repo: "/"},
		"a tree of no repository": {Worktree: "b"},
		"a repository alone":      {Repo: "/"},
		"a size of minus one":     {Size: kaval.Size{Cols: -1, Rows: 5}},
	} {
		req.Placement.Toplevel = true
		_, err := p.Create(p.ctx, req)
		p.refuses(what, err, kaval.ErrInvalid)
	}
	_, err = p.Create(p.ctx, padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, CWD: "/no/such/directory"})
	p.refuses("a directory that is not there", err, kaval.ErrSpawn)
	_, err = p.Create(p.ctx, padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Worktree: "b", Repo: "/no/such/repo"})
	p.refuses("a repository that is not there", err, padi.ErrWorktree)
}

func words(p *proof) {
	made := p.run("printf", `<%s>\n`, "two words", "it's", `back\slash`, "$HOME", "*", "tab\there", "")
	p.says(made.ID, `<two words>\r?\n<it's>\r?\n<back\\slash>\r?\n<\$HOME>\r?\n<\*>\r?\n<tab\there>\r?\n<>\r?\n`)
	if made.Ran == "" || strings.Count(p.text(made.ID), "<two words>") != 1 {
		p.Errorf("ran %q, and the screen shows\n%s", made.Ran, p.text(made.ID))
	}
}

// A terminal's line discipline holds 4096 bytes of a line until the shell reads it.
func longCommand(p *proof) {
	made := p.run("sh", "-c", `printf 'count %s.\n' "${#1}"`, "x", strings.Repeat("a", 20_000))
	p.says(made.ID, `count 20000\.`)
}

func splits(p *proof) {
	parent := p.create(padi.CreateRequest{})
	child := p.create(padi.CreateRequest{Placement: padi.Placement{Parent: parent.ID}})
	grandchild := p.create(padi.CreateRequest{Placement: padi.Placement{Parent: child.ID}})
	p.becomes(grandchild.ID, "a split of a split", func(r padi.Record) bool { return r.ParentID == child.ID })
	_, err := p.Workspace.Kill(p.ctx, parent.ID)
	p.must(err)
	p.becomes(child.ID, "a tile of its own", func(r padi.Record) bool { return r.ParentID == "" })
	p.becomes(grandchild.ID, "still a split", func(r padi.Record) bool { return r.ParentID == child.ID })
	_, err = p.Create(p.ctx, padi.CreateRequest{Placement: padi.Placement{Parent: parent.ID}})
	p.refuses("a split of an ended terminal", err, padi.ErrNoParent)
}

func screen(p *proof) {
	made := p.create(padi.CreateRequest{Size: kaval.Size{Cols: 40, Rows: 6}})
	p.enter(made.ID, `printf 'li''ne %s\n' 1 2 3 4 5 6 7 8 9`)
	p.says(made.ID, `line 9`)
	shown, err := p.Screen(p.ctx, made.ID, kaval.ScreenRequest{Extent: kaval.Viewport})
	p.must(err)
	if shown.Cols != 40 || shown.Rows != 6 || !strings.Contains(shown.Text, "line 9") || strings.Contains(shown.Text, "line 1\n") {
		p.Errorf("screen %+v", shown)
	}
	page, err := p.History(p.ctx, made.ID, kaval.HistoryRequest{Max: 100})
	p.must(err)
	if !strings.Contains(page.Chunk, "line 1") || !page.Exhausted || page.Lines == 0 {
		p.Errorf("history %+v", page)
	}
	p.must(p.Resize(p.ctx, made.ID, kaval.Size{Cols: 50, Rows: 7}))
	shown, err = p.Screen(p.ctx, made.ID, kaval.ScreenRequest{Extent: kaval.Tail, Lines: 2, Trim: true, ANSI: true})
	p.must(err)
	if shown.Cols != 50 || shown.Rows != 7 {
		p.Errorf("after the resize %+v", shown)
	}
	_, err = p.Screen(p.ctx, made.ID, kaval.ScreenRequest{Extent: "everything"})
	p.refuses("an unknown extent", err, kaval.ErrInvalid)
}

func environment(p *proof) {
	made := p.run("sh", "-c", `printf '<%s|%s|%s>\n' "$TERM" "$TERM_PROGRAM" "$KAVAL_TERMINAL_ID"`)
	p.says(made.ID, regexp.QuoteMeta("<xterm-256color|kolu|"+string(made.ID)+">"))
}

func kill(p *proof) {
	made := p.run("sleep", "1000")
	rec, err := p.Workspace.Kill(p.ctx, made.ID)
	p.must(err)
	if rec.ID != made.ID || rec.PID != made.PID {
		p.Errorf("killed %+v", rec)
	}
	_, err = p.Terminal(p.ctx, made.ID)
	p.refuses("a look at the killed", err, kaval.ErrNoTerminal)
	p.refuses("input to the killed", p.Write(p.ctx, made.ID, kaval.Input{Data: []byte("x")}), kaval.ErrGone)
}

func exit(p *proof) {
	made := p.create(padi.CreateRequest{})
	p.enter(made.ID, "exit 7")
	res, err := p.Wait(p.ctx, made.ID, padi.WaitRequest{Until: []padi.Bucket{padi.BucketWaiting}, TimeoutMS: hangMS})
	p.must(err)
	if res.Result != kaval.Gone || res.ExitCode == nil || *res.ExitCode != 7 || res.ID != made.ID {
		p.Errorf("wait for an agent: %+v", res)
	}
	p.removed(made.ID)
}

func waitOutput(p *proof) {
	made := p.create(padi.CreateRequest{})
	res, err := p.Wait(p.ctx, made.ID, padi.WaitRequest{IdleMS: 100, TimeoutMS: hangMS})
	p.must(err)
	if res.Result != kaval.Met || res.Fired != "idle" {
		p.Errorf("idle: %+v", res)
	}
	after := res.Offset
	p.enter(made.ID, `printf 'the %s is here\n' end`)
	res, err = p.Wait(p.ctx, made.ID, padi.WaitRequest{Match: `the end \w+`, After: &after, TimeoutMS: hangMS})
	p.must(err)
	if res.Result != kaval.Met || res.Fired != "match" || res.MatchedLine != "the end is here" {
		p.Errorf("match: %+v", res)
	}
	res, err = p.Wait(p.ctx, made.ID, padi.WaitRequest{Match: `never`, TimeoutMS: 20})
	p.must(err)
	if res.Result != kaval.Timeout {
		p.Errorf("timeout: %+v", res)
	}
	for what, req := range map[string]padi.WaitRequest{
		"nothing": {}, "two": {IdleMS: 1, Match: "x"}, "a bad expression": {Match: "("}, "an empty match": {Match: "x*"},
		"too long": {IdleMS: kaval.MaxWaitMS + 1}, "a bad bucket": {Until: []padi.Bucket{"busy"}},
	} {
		_, err := p.Wait(p.ctx, made.ID, req)
		p.refuses("a wait for "+what, err, kaval.ErrInvalid)
	}
}

// An agent is played by a program that speaks the program status protocol.
func waitAgent(p *proof) {
	const play = `say() { printf '\033]7501;state=%s:app=codex\033\\' "$1"; }
		say working; read x; say blocked; read x; say done; read x`
	made := p.run("sh", "-c", play)
	wait := func(until ...padi.Bucket) padi.WaitResult {
		p.Helper()
		res, err := p.Wait(p.ctx, made.ID, padi.WaitRequest{Until: until, TimeoutMS: hangMS})
		p.must(err)
		return res
	}
	check := func(res padi.WaitResult, state padi.AgentState) {
		p.Helper()
		if res.Result != kaval.Met || res.Agent == nil || res.Agent.State != state || res.Agent.Kind != "codex" || res.Agent.Source != "status" {
			p.Errorf("want %s: %+v, agent %+v", state, res, res.Agent)
		}
	}
	check(wait(padi.BucketWorking), padi.Thinking)
	check(wait(padi.BucketWorking), padi.Thinking) // it holds already
	res, err := p.Wait(p.ctx, made.ID, padi.WaitRequest{Until: []padi.Bucket{padi.BucketWaiting}, TimeoutMS: 50})
	p.must(err)
	if res.Result != kaval.Timeout || res.Agent != nil {
		p.Errorf("a state that does not come: %+v", res)
	}
	p.enter(made.ID, "")
	check(wait(padi.BucketAwaiting, padi.BucketWaiting), padi.AwaitingUser)
	p.enter(made.ID, "")
	check(wait(padi.BucketWaiting), padi.Waiting)
	_, err = p.Workspace.Kill(p.ctx, made.ID)
	p.must(err)
	if res := wait(padi.BucketWorking); res.Result != kaval.Gone {
		p.Errorf("after the kill: %+v", res)
	}
}

func stream(p *proof) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	var made padi.Created
	var seen []string
	last := int64(-1)
	for ev, err := range p.Watch(ctx) {
		p.must(err)
		if ev.Seq < last || (ev.Seq == last && ev.Kind != padi.EventActivity) {
			p.Errorf("seq %d after %d", ev.Seq, last)
		}
		last = ev.Seq
		if ev.Kind == padi.EventSnapshot {
			if made.ID == "" {
				made = p.create(padi.CreateRequest{})
			}
			continue
		}
		if ev.ID != made.ID {
			continue
		}
		word := string(ev.Kind)
		if ev.Kind == padi.EventActivity {
			word = map[bool]string{true: "busy", false: "quiet"}[ev.Live]
		}
		if !slices.Contains(seen, word) {
			seen = append(seen, word)
		}
		switch {
		case word == "quiet":
			if _, err := p.Workspace.Kill(p.ctx, made.ID); err != nil {
				p.Fatal(err)
			}
		case word == "removed":
			cancel()
		}
	}
	for _, want := range []string{"changed", "busy", "quiet", "removed"} {
		if !slices.Contains(seen, want) {
			p.Errorf("no %s among %v", want, seen)
		}
	}
	if seen[0] != "changed" {
		p.Errorf("a terminal is told of as %v", seen)
	}
}

func contexts(p *proof) {
	made := p.create(padi.CreateRequest{})
	for what, req := range map[string]padi.WaitRequest{
		"an agent": {Until: []padi.Bucket{padi.BucketWorking}}, "output": {Match: "never"},
	} {
		ctx, cancel := context.WithTimeout(p.ctx, 20*time.Millisecond)
		_, err := p.Wait(ctx, made.ID, req)
		cancel()
		p.refuses("a wait for "+what+" without end", err, context.DeadlineExceeded)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	for ev, err := range p.Watch(ctx) {
		if err != nil {
			p.Errorf("the end of the context is no error: %v", err)
		}
		if ev.Kind == padi.EventSnapshot {
			cancel()
		}
	}
	cancel()
}

func status(p *proof) {
	_, err := p.Terminals(p.ctx) // which waits for kaval
	p.must(err)
	s, err := p.Kaval(p.ctx)
	p.must(err)
	if s.State != "connected" {
		p.Errorf("kaval is %+v", s)
	}
}
