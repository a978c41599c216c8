package kavaltest

import (
	"fmt"
	"strings"
	"testing"

	"kolu/daemon/kaval"
)

func testInfo(t *testing.T, s *suite) {
	info, err := s.Info(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if info.Shell == "" || info.Home == "" || info.Path == "" || info.OS == "" || info.Arch == "" {
		t.Errorf("a spawner cannot do with %+v", info)
	}
}

func testLife(t *testing.T, s *suite) {
	ctx := within(t)
	term, err := s.Spawn(ctx, kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", "echo up; cat"}, CWD: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if term.ID == "" || term.PID <= 0 || term.CWD != "/" || term.Cols != kaval.DefaultCols || term.Rows != kaval.DefaultRows {
		t.Errorf("spawned %+v", term)
	}
	other := s.spawn(t, "cat")
	s.await(t, term.ID, "up")
	if got, ok := s.find(t, term.ID); !ok || got.PID != term.PID || got.LastActivity < got.StartedAt || got.Output < 2 {
		t.Errorf("listed %+v, %v; spawned %+v", got, ok, term)
	}
	var order []kaval.TerminalID
	list, err := s.List(ctx)
	for _, l := range list {
		if l.ID == term.ID || l.ID == other {
			order = append(order, l.ID)
		}
	}
	if err != nil || len(order) != 2 || order[0] != term.ID {
		t.Errorf("listed %v, %v; want %v before %v", order, err, term.ID, other)
	}
	for range 2 {
		if err := s.Kill(ctx, term.ID); err != nil {
			t.Errorf("kill: %v", err)
		}
		if _, ok := s.find(t, term.ID); ok {
			t.Error("a killed terminal is listed")
		}
	}
	if _, ok := s.find(t, other); !ok {
		t.Error("another terminal is gone")
	}
}

func testSpawnRefused(t *testing.T, s *suite) {
	live := s.spawn(t, "cat")
	before, err := s.List(within(t))
	if err != nil {
		t.Fatal(err)
	}
	sh := []string{"/bin/sh"}
	for _, c := range []struct {
		name string
		req  kaval.SpawnRequest
		want error
	}{
		{"live id", kaval.SpawnRequest{ID: live, Argv: sh}, kaval.ErrExists},
		{"id with a slash", kaval.SpawnRequest{ID: "a/b", Argv: sh}, kaval.ErrInvalid},
		{"id with a newline", kaval.SpawnRequest{ID: "a\nb", Argv: sh}, kaval.ErrInvalid},
		{"id of dots", kaval.SpawnRequest{ID: "..", Argv: sh}, kaval.ErrInvalid},
		{"no such program", kaval.SpawnRequest{Argv: []string{"/nonexistent/program"}}, kaval.ErrSpawn},
		{"no such name", kaval.SpawnRequest{Argv: []string{"no-such-program-anywhere"}}, kaval.ErrSpawn},
		{"directory as program", kaval.SpawnRequest{Argv: []string{"/"}}, kaval.ErrSpawn},
		{"no such directory", kaval.SpawnRequest{Argv: sh, CWD: "/nonexistent/dir"}, kaval.ErrSpawn},
		{"relative directory", kaval.SpawnRequest{Argv: sh, CWD: "tmp"}, kaval.ErrInvalid},
		{"empty program", kaval.SpawnRequest{Argv: []string{""}}, kaval.ErrInvalid},
		{"NUL", kaval.SpawnRequest{Argv: []string{"/bin/sh", "a\x00b"}}, kaval.ErrInvalid},
		{"variable with =", kaval.SpawnRequest{Argv: sh, Env: map[string]string{"A=B": "c"}}, kaval.ErrInvalid},
		{"negative size", kaval.SpawnRequest{Argv: sh, Size: kaval.Size{Cols: -1, Rows: 24}}, kaval.ErrInvalid},
		{"huge size", kaval.SpawnRequest{Argv: sh, Size: kaval.Size{Cols: 1 << 20, Rows: 24}}, kaval.ErrInvalid},
		{"init file outside", kaval.SpawnRequest{Argv: sh, InitFiles: []kaval.InitFile{{Name: "../x"}}}, kaval.ErrInvalid},
		{"init file absolute", kaval.SpawnRequest{Argv: sh, InitFiles: []kaval.InitFile{{Name: "/tmp/x"}}}, kaval.ErrInvalid},
		{"init file twice", kaval.SpawnRequest{Argv: sh, InitFiles: []kaval.InitFile{{Name: "x"}, {Name: "x"}}}, kaval.ErrSpawn},
	} {
		got, err := s.Spawn(within(t), c.req)
		wantErr(t, c.name, err, c.want)
		if err == nil {
			s.Kill(within(t), got.ID)
		}
	}
	after, err := s.List(within(t))
	if err != nil || len(after) != len(before) {
		t.Errorf("refused spawns changed the inventory: %d before, %d after, %v", len(before), len(after), err)
	}
}

func testUnknown(t *testing.T, s *suite) {
	for _, id := range []kaval.TerminalID{"no-such-terminal", "", ".", "..", "a/b", "ä ?#%2f", kaval.TerminalID(strings.Repeat("x", 500))} {
		errs := s.calls(t, id)
		errs["kill"] = s.Kill(within(t), id)
		_, errs["wait"] = s.Wait(within(t), id, kaval.WaitRequest{IdleMS: 1})
		for name, err := range errs {
			wantErr(t, fmt.Sprintf("%s %.20q", name, id), err, kaval.ErrNoTerminal)
		}
	}
	_, err := s.History(within(t), "no-such-terminal", kaval.HistoryRequest{})
	wantErr(t, "history of no lines", err, kaval.ErrInvalid) // told before the id is looked at
}

func testGone(t *testing.T, s *suite) {
	id := s.spawn(t, "exit 3")
	if code := s.end(t, id); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if _, ok := s.find(t, id); ok {
		t.Error("an ended terminal is listed")
	}
	for name, err := range s.calls(t, id) {
		wantErr(t, name, err, kaval.ErrGone)
		if err != nil && !strings.Contains(err.Error(), "3") {
			t.Errorf("%s: %q does not tell the exit code", name, err)
		}
	}
	if err := s.Kill(within(t), id); err != nil {
		t.Errorf("kill of an ended terminal: %v", err)
	}
	if code := s.end(t, id); code != 3 { // a late question is answered too
		t.Errorf("exit code asked late: %d", code)
	}
	again := s.start(t, kaval.SpawnRequest{ID: id, Argv: []string{"/bin/sh", "-c", "echo anew; cat"}})
	s.await(t, again, "anew")
}

func testExitCodes(t *testing.T, s *suite) {
	for script, want := range map[string]int{
		"exit 0": 0, "exit 1": 1, "exit 255": 255, "kill -TERM $$": 143, "kill -KILL $$": 137,
	} {
		id := s.spawn(t, "printf last; "+script)
		r := s.attachOrEnd(t, id)
		if r != want {
			t.Errorf("%s: exit code %d, want %d", script, r, want)
		}
	}
}

// attachOrEnd reads a terminal to its end; one that ended before the attach tells by the wait.
func (s *suite) attachOrEnd(t *testing.T, id kaval.TerminalID) int {
	t.Helper()
	a, err := s.Attach(within(t), id, kaval.AttachRequest{})
	if err != nil {
		wantErr(t, "attach", err, kaval.ErrGone)
		return s.end(t, id)
	}
	defer a.Close()
	return drain(t, &reader{Attachment: a}).ExitCode
}

func testEnvironment(t *testing.T, s *suite) {
	info, err := s.Info(within(t))
	if err != nil {
		t.Fatal(err)
	}
	print := `echo "[$KAVAL_TERMINAL_ID][$KAVAL_SOCKET][$TERM][$CLAUDECODE][$ODD]"; echo "PATH=$PATH="; pwd; echo ok; cat`
	for name, env := range map[string]map[string]string{
		"of the host": nil,
		"given": {
			"PATH": "/usr/bin::/bin", "KAVAL_TERMINAL_ID": "outer", "KAVAL_SOCKET": "/outer", "HOME": info.Home, "ODD": "", "__proto__": "x",
		},
	} {
		id := s.start(t, kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", print}, Env: env, Size: kaval.Size{Cols: 1000, Rows: 24}})
		s.await(t, id, "ok\r")
		got := s.text(t, id)
		want := fmt.Sprintf("[%s][%s][xterm-256color][][]", id, info.Socket)
		if !strings.Contains(got, want) {
			t.Errorf("environment %s: want %s in\n%s", name, want, got)
		}
		if info.ToolsDir != "" && !strings.Contains(got, "PATH="+info.ToolsDir+":") {
			t.Errorf("environment %s: PATH does not begin with %s:\n%s", name, info.ToolsDir, got)
		}
		if strings.Contains(got, "::") {
			t.Errorf("environment %s: PATH has an empty entry:\n%s", name, got)
		}
		if !strings.Contains(got, "\n"+info.Home+"\n") {
			t.Errorf("environment %s: does not start in %s:\n%s", name, info.Home, got)
		}
	}
}

func testInitFiles(t *testing.T, s *suite) {
	id := s.start(t, kaval.SpawnRequest{
		Argv: []string{"/bin/sh", "{dir}/sub/run", "{dir}"},
		Env:  map[string]string{"PATH": kaval.BasePath, "WHERE": "{dir}/sub"},
		InitFiles: []kaval.InitFile{
			{Name: "sub/run", Content: `ls -l "$WHERE/run" | cut -c1-10; cat "$1/word"; echo "dir=$1="; read x`},
			{Name: "word", Content: "from the file\n"},
		},
		Size: kaval.Size{Cols: 500, Rows: 24},
	})
	dir := strings.Split(s.await(t, id, "dir=.*=").MatchedLine, "=")[1]
	if got := s.text(t, id); !strings.Contains(got, "-rw-------") || !strings.Contains(got, "from the file") {
		t.Errorf("the program saw\n%s", got)
	}
	s.write(t, id, "\n")
	s.end(t, id)
	look := s.start(t, kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", `if [ -e "$1" ]; then echo left; else echo removed; fi; cat`, "sh", dir}})
	s.await(t, look, "removed|left")
	if got := s.text(t, look); !strings.Contains(got, "removed") {
		t.Errorf("%s was left behind", dir)
	}
}

func testSayings(t *testing.T, s *suite) {
	id := s.spawn(t, `printf '\033]2;the title\007\033]7;file://host/a%%20b\007\033]633;E;make all\007'
printf '\033]7501;state=blocked:app=tester:kind=question\033\\said'; read x
printf '\033]133;A\007prompt'; cat`)
	s.await(t, id, "said")
	s.eventually(t, id, "what it said", func(r kaval.Terminal) bool {
		return r.Title == "the title" && r.CWD == "/a b" && r.LastCommand == "make all" &&
			r.Status != nil && r.Status.State == "blocked" && r.Status.App == "tester" && r.Status.Kind == "question"
	})
	s.write(t, id, "\n")
	s.eventually(t, id, "the status cleared at the prompt", func(r kaval.Terminal) bool { return r.Status == nil })
	rooted := s.start(t, kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", "exec sleep 1000"}, CommandRooted: true})
	s.eventually(t, rooted, "its command and the program in front", func(r kaval.Terminal) bool {
		return r.CommandRooted && r.LastCommand == "/bin/sh -c 'exec sleep 1000'" && r.Title == "" && r.ForegroundPID == r.PID
	})
}

// eventually watches until the record of a terminal is as it should be.
func (s *suite) eventually(t *testing.T, id kaval.TerminalID, what string, ok func(kaval.Terminal) bool) {
	t.Helper()
	var last kaval.Terminal
	for event, err := range s.Watch(within(t)) {
		if err != nil {
			t.Fatalf("watch for %s: %v", what, err)
		}
		for _, r := range recordsOf(event) {
			if r.ID == id {
				if last = r; ok(r) {
					return
				}
			}
		}
	}
	t.Fatalf("%s never came; the last record was %+v (status %+v)", what, last, last.Status)
}

func recordsOf(e kaval.Event) []kaval.Terminal {
	if e.Terminal != nil {
		return []kaval.Terminal{*e.Terminal}
	}
	return e.Terminals
}

func testWatch(t *testing.T, s *suite) {
	old := s.spawn(t, "cat")
	ctx := within(t)
	var id kaval.TerminalID
	first, created, changed := true, 0, false
	for event, err := range s.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if first {
			if event.Kind != kaval.EventSnapshot || len(event.Terminals) == 0 {
				t.Fatalf("the first event is %+v", event)
			}
			first = false
			id = s.spawn(t, "read x; printf '\\033]2;called\\007'; read x; exit 9")
			s.write(t, id, "\n")
			continue
		}
		if event.ID != id {
			continue
		}
		switch event.Kind {
		case kaval.EventCreated:
			created++
			if event.Terminal == nil || event.Terminal.ID != id {
				t.Errorf("created %+v", event)
			}
		case kaval.EventChanged:
			if event.Terminal.Title == "called" && !changed {
				changed = true
				s.write(t, id, "\n")
			}
		case kaval.EventExited:
			if created != 1 || !changed || event.ExitCode == nil || *event.ExitCode != 9 {
				t.Errorf("created %d times, changed %v, exited %+v", created, changed, event)
			}
			if _, ok := s.find(t, id); ok {
				t.Error("exited, and still listed")
			}
			if _, ok := s.find(t, old); !ok {
				t.Error("another terminal is gone")
			}
			return
		}
	}
	t.Error("the watch ended before the terminal did")
}
