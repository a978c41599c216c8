package workspace_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/ptyhost"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	claudecode "kolu/daemon/padi/agents/claude"
	"kolu/daemon/padi/agents/fakeagent"
	"kolu/daemon/padi/session"
	"kolu/daemon/padi/workspace"
)

func has(state padi.AgentState, source string) func(padi.Record) bool {
	return func(r padi.Record) bool { return r.Agent != nil && r.Agent.State == state && r.Agent.Source == source }
}

// TestStateFollowsTheFiles has an agent that never says anything on the terminal: its files tell each of its states.
func TestStateFollowsTheFiles(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true}, true)
	s.until("idle", has(padi.Waiting, "file"))
	s.prompt("hold")
	s.until("working", has(padi.Thinking, "file"))
	if err := s.w.Write(t.Context(), s.id, kaval.Input{Data: []byte("\x1b")}); err != nil {
		t.Fatal(err)
	}
	s.until("interrupted", has(padi.Waiting, "file"))
	s.prompt("ask")
	rec := s.until("asking", has(padi.AwaitingUser, "file"))
	if rec.Agent.Asks != "permission" || rec.Agent.SessionID == "" {
		t.Errorf("agent %+v", rec.Agent)
	}
	if r := s.prompt("typed into the dialog"); r.Result != padi.Blocked {
		t.Errorf("a prompt at a dialog: %s", r.Result)
	}
}

// TestWordBeatsFiles has files that lie: what the agent says itself is believed, and explain shows both.
func TestWordBeatsFiles(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true, Word: true, Lies: "idle"}, true)
	s.prompt("hold")
	s.until("working", has(padi.Thinking, "status"))
	s.until("the session", func(r padi.Record) bool {
		return r.Agent != nil && r.Agent.SessionID != "" && r.Agent.State == padi.Thinking
	})
	x, err := s.w.Explain(t.Context(), s.id)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]padi.AgentState{}
	for _, e := range x.Evidence {
		if e.Used || said[e.Source] == "" {
			said[e.Source] = e.State
		}
	}
	if said["status"] != padi.Thinking || said["file"] != padi.Waiting || x.Agent.State != padi.Thinking {
		t.Errorf("explained as %+v", x)
	}
}

// TestFilesAndScreenDisagree has a transcript that ends while the screen works: neither is believed, and never is it called idle.
func TestFilesAndScreenDisagree(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true, Lies: "silent"}, true)
	s.prompt("first")
	s.until("idle by the transcript", has(padi.Waiting, "file"))
	s.prompt("hold")
	s.until("working by both", has(padi.Thinking, "file"))
	forge(t, s, `{"type":"assistant","message":{"role":"assistant","content":[],"stop_reason":"end_turn"}}`)
	rec := s.until("no answer", has(padi.Unknown, ""))
	if !strings.Contains(rec.Agent.Reason, "screen") {
		t.Errorf("reason %q", rec.Agent.Reason)
	}
}

// forge appends to the transcript of the fake agent.
func forge(t *testing.T, s staged, line string) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(s.prompts), ".claude", "projects", "*", "*.jsonl"))
	if len(paths) != 1 {
		t.Fatalf("transcripts %v", paths)
	}
	f, err := os.OpenFile(paths[0], os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

// TestScreenTellsOfDialogs has an agent whose files say nothing of a permission that it asks: the screen does, and takes it back.
func TestScreenTellsOfDialogs(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true, Lies: "silent"}, true)
	s.prompt("ask")
	rec := s.until("asking", has(padi.AwaitingUser, "screen"))
	if rec.Agent.Asks != "permission" {
		t.Errorf("agent %+v", rec.Agent)
	}
	if err := s.w.Write(t.Context(), s.id, kaval.Input{Data: []byte("\r")}); err != nil {
		t.Fatal(err)
	}
	s.until("answered", func(r padi.Record) bool { return r.Agent != nil && r.Agent.State != padi.AwaitingUser })
}

// TestTrustPromptIsNotIdle: a dialog of the first start, of which nothing is written anywhere, is never taken for a turn that ended.
func TestTrustPromptIsNotIdle(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true, Dialog: true, Lies: "silent"}, true)
	rec := s.until("its session is known", func(r padi.Record) bool { return r.Agent != nil && r.Agent.SessionID != "" })
	if rec.Agent.State != padi.Unknown || rec.Agent.Reason == "" {
		t.Errorf("agent %+v", rec.Agent)
	}
}

// inShell stages a fake agent that a shell started, with files.
func inShell(t *testing.T, script fakeagent.Script) staged {
	t.Helper()
	home, root := t.TempDir(), t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	store, err := session.Open(root, log)
	if err != nil {
		t.Fatal(err)
	}
	host := ptyhost.New(ptyhost.Options{Log: log, RunDir: t.TempDir()})
	t.Cleanup(host.Close)
	w, stop := run(t, workspace.Options{
		Kaval: host, Store: store, Environ: []string{"HOME=" + home, "SHELL=/bin/bash", "PATH=" + os.Getenv("PATH")},
		Detectors: []agents.Detector{claudecode.New(home, func(string) string { return "" })},
	})
	t.Cleanup(stop)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(home, "claude")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	script.Files, script.Prompts = filepath.Join(home, ".claude"), filepath.Join(home, "prompts")
	line, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	req := top()
	req.Run = []string{"env", fakeagent.Env + "=1", link, string(line), "--model", "opus"}
	made := create(t, w, req)
	return staged{t: t, w: w, id: made.ID, prompts: script.Prompts}
}

// TestExitBeatsState kills an agent in the middle of a turn: its files and its last word still say that it works, and the terminal's shell has the terminal.
func TestExitBeatsState(t *testing.T) {
	s := inShell(t, fakeagent.Script{Paste: true, Word: true})
	rec := s.until("idle", has(padi.Waiting, "status"))
	rec = s.until("a way to go on", func(r padi.Record) bool { return r.Resume != nil })
	want := filepath.Join(filepath.Dir(s.prompts), "claude") + " --resume 11111111-2222-4333-8444-555555555555 --model opus"
	if rec.Resume.Command != want {
		t.Errorf("resumes with %q, want %q", rec.Resume.Command, want)
	}
	s.prompt("kill")
	rec = s.until("no agent", func(r padi.Record) bool { return r.Agent == nil })
	if rec.Resume != nil || rec.State != padi.Active {
		t.Errorf("after its end: %+v", rec)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(s.prompts), ".claude", "sessions", "*.json"))
	if len(left) != 1 {
		t.Errorf("files left behind: %v", left)
	}
	r := s.prompt("typed into a shell")
	if r.Result != padi.AgentGone || r.Bytes != 0 || !strings.Contains(r.Reason, "bash") {
		t.Errorf("%s: %s, %d bytes typed", r.Result, r.Reason, r.Bytes)
	}
}

// TestNoAgentIsPrompted: a shell is no agent, whatever is typed at it.
func TestNoAgentIsPrompted(t *testing.T) {
	w := open(t, "SHELL=/bin/bash", "HOME="+t.TempDir())
	made := create(t, w, top())
	r, err := w.Prompt(t.Context(), made.ID, padi.PromptRequest{Data: []byte("rm -rf x")})
	if err != nil || r.Result != padi.AgentGone || r.Bytes != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWaitSettles has an agent whose turn has ended while something still prints: the wait goes on until that is over, and gives the screen.
func TestWaitSettles(t *testing.T) {
	s := inShell(t, fakeagent.Script{Paste: true, Word: true, Clock: true})
	s.until("idle", has(padi.Waiting, "status"))
	req := padi.WaitRequest{Until: []padi.Bucket{padi.BucketWaiting}, SettledMS: 2000, TimeoutMS: 3000}
	if res, err := s.w.Wait(t.Context(), s.id, req); err != nil || res.Result != kaval.Timeout || res.Settled {
		t.Errorf("while a clock runs: %+v, %v", res, err)
	}
	quiet := stage(t, fakeagent.Script{Paste: true, Word: true}, false)
	quiet.prompt("hello")
	req = padi.WaitRequest{Until: []padi.Bucket{padi.BucketWaiting}, SettledMS: 300, TimeoutMS: 60_000, Tail: 4}
	res, err := quiet.w.Wait(t.Context(), quiet.id, req)
	if err != nil || res.Result != kaval.Met || !res.Settled || res.ElapsedMS < 300 || res.Agent == nil {
		t.Fatalf("%+v, %v", res, err)
	}
	if res.Screen == nil || !strings.Contains(*res.Screen, "? for shortcuts") || strings.Contains(*res.Screen, "heard") {
		t.Errorf("the last four lines: %v", res.Screen)
	}
}

// TestWaitSettlesInItsState leaves the state while the terminal is silent: silence alone is not enough.
func TestWaitSettlesInItsState(t *testing.T) {
	s := stage(t, fakeagent.Script{Paste: true, Word: true}, false)
	s.prompt("hold")
	s.until("working", has(padi.Thinking, "status"))
	req := padi.WaitRequest{Until: []padi.Bucket{padi.BucketWaiting}, SettledMS: 100, TimeoutMS: 1000}
	if res, err := s.w.Wait(t.Context(), s.id, req); err != nil || res.Result != kaval.Timeout {
		t.Errorf("%+v, %v", res, err)
	}
	for _, bad := range []padi.WaitRequest{{IdleMS: 5, SettledMS: 5}, {Until: req.Until, SettledMS: -1}, {Until: req.Until, Tail: -1}} {
		if _, err := s.w.Wait(t.Context(), s.id, bad); kaval.Code(err) != "invalid" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
