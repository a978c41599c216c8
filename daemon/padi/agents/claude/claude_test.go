package claude_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/claude"
)

const session = "11111111-2222-4333-8444-555555555555"

// fixture is a .claude directory with one process, which is this one.
type fixture struct {
	t   testing.TB
	dir string
	d   *claude.Detector
}

func newFixture(t testing.TB) fixture {
	home := t.TempDir()
	f := fixture{t: t, dir: filepath.Join(home, ".claude"), d: claude.New(home, func(string) string { return "" })}
	f.process(nil)
	return f
}

func (f fixture) write(path, content string) string {
	f.t.Helper()
	path = filepath.Join(f.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// process writes what the process says of itself, with these fields beside the usual ones.
func (f fixture) process(more map[string]any) {
	f.t.Helper()
	fields := map[string]any{"pid": os.Getpid(), "sessionId": session, "cwd": "/the/work.dir", "startedAt": 1000, "version": "2.1.332"}
	for k, v := range more {
		fields[k] = v
	}
	b, err := json.Marshal(fields)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write(fmt.Sprintf("sessions/%d.json", os.Getpid()), string(b))
}

// transcript writes the lines of the conversation, and lets it be quiet for a while.
func (f fixture) transcript(quiet time.Duration, lines ...string) {
	f.t.Helper()
	path := f.write("projects/-the-work-dir/"+session+".jsonl", strings.Join(lines, "\n")+"\n")
	at := time.Now().Add(-quiet)
	if err := os.Chtimes(path, at, at); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) subject() agents.Subject {
	return agents.Subject{ID: "t", PID: os.Getpid(), CWD: "/the/work.dir"}
}

func (f fixture) read() agents.Facts {
	f.t.Helper()
	sessions, err := f.d.Sessions(f.subject())
	if err != nil || len(sessions) != 1 || sessions[0].ID != session || !sessions[0].Certain {
		f.t.Fatalf("sessions %+v, %v", sessions, err)
	}
	facts, err := f.d.Read(f.subject(), sessions[0])
	if err != nil {
		f.t.Fatal(err)
	}
	return facts
}

func user(content string) string {
	return fmt.Sprintf(`{"type":"user","timestamp":"2026-12-01T04:00:00Z","message":{"role":"user","content":%s}}`, content)
}

func answer(stop, content string) string {
	return fmt.Sprintf(`{"type":"assistant","timestamp":"2026-12-01T04:00:00Z","message":{"role":"assistant","model":"opus","stop_reason":%q,"content":[%s],"usage":{"input_tokens":10,"cache_read_input_tokens":5}}}`, stop, content)
}

func call(names ...string) string {
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf(`{"type":"tool_use","name":%q}`, n))
	}
	return strings.Join(parts, ",")
}

// TestTranscript reads the state out of transcripts, where the process says none.
func TestTranscript(t *testing.T) {
	prompt, done := user(`"do it"`), answer("end_turn", `{"type":"text","text":"done"}`)
	for name, tc := range map[string]struct {
		lines []string
		want  padi.AgentState
	}{
		"nothing yet":                      {nil, ""},
		"a prompt":                         {[]string{prompt}, padi.Thinking},
		"an answer":                        {[]string{prompt, done}, padi.Waiting},
		"an answer under way":              {[]string{prompt, answer("", `{"type":"text","text":"so"}`)}, padi.Thinking},
		"a tool":                           {[]string{prompt, answer("tool_use", call("Bash"))}, padi.ToolUse},
		"a question":                       {[]string{prompt, answer("tool_use", call("AskUserQuestion"))}, padi.AwaitingUser},
		"a plan":                           {[]string{prompt, answer("tool_use", call("ExitPlanMode"))}, padi.AwaitingUser},
		"a question and a tool":            {[]string{prompt, answer("tool_use", call("AskUserQuestion", "Bash"))}, padi.ToolUse},
		"Escape in a text":                 {[]string{prompt, user(`[{"type":"text","text":"[Request interrupted by user]"}]`)}, padi.Waiting},
		"Escape at a tool":                 {[]string{prompt, answer("tool_use", call("Bash")), user(`[{"type":"text","text":"[Request interrupted by user for tool use]"}]`)}, padi.Waiting},
		"a tool that was refused":          {[]string{prompt, user(`[{"type":"tool_result","is_error":true,"content":"The user doesn't want to proceed with this tool use. …"}]`)}, padi.Waiting},
		"a tool that failed":               {[]string{prompt, user(`[{"type":"tool_result","is_error":true,"content":"exit 1"}]`)}, padi.Thinking},
		"a command of the program's":       {[]string{prompt, done, user(`"<command-name>/config</command-name>"`), user(`"<local-command-stdout>set</local-command-stdout>"`)}, padi.Waiting},
		"a summary after /compact":         {[]string{prompt, done, strings.Replace(user(`"This session continues"`), `"type"`, `"isCompactSummary":true,"type"`, 1)}, padi.Waiting},
		"a prompt after such a summary":    {[]string{strings.Replace(user(`"This session"`), `"type"`, `"isCompactSummary":true,"type"`, 1), prompt}, padi.Thinking},
		"a skill, which is meta":           {[]string{prompt, done, strings.Replace(user(`"a skill's text"`), `"type"`, `"isMeta":true,"type"`, 1)}, padi.Thinking},
		"a request that failed":            {[]string{prompt, strings.Replace(answer("stop_sequence", ""), `"type"`, `"isApiErrorMessage":true,"type"`, 1)}, padi.Waiting},
		"lines that are no JSON":           {[]string{prompt, done, "{half", `{"type":"mode"}`}, padi.Waiting},
		"a large entry after the last one": {[]string{prompt, done, `{"type":"attachment","x":"` + strings.Repeat("x", 60<<10) + `"}`}, padi.Waiting},
		"a large prompt":                   {[]string{done, user(`"` + strings.Repeat("y", 50<<10) + `"`)}, padi.Thinking},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if tc.lines != nil {
				f.transcript(0, tc.lines...)
			}
			facts := f.read()
			if facts.State != tc.want || facts.Own {
				t.Errorf("%q, own %v; evidence %+v", facts.State, facts.Own, facts.Evidence)
			}
		})
	}
}

// TestProcessBeatsTranscript: what the process says of itself is believed, and made as exact as the transcript is.
func TestProcessBeatsTranscript(t *testing.T) {
	f := newFixture(t)
	f.transcript(0, user(`"x"`), answer("tool_use", call("Bash")))
	for status, want := range map[string]padi.AgentState{
		"idle": padi.Waiting, "busy": padi.ToolUse, "shell": padi.RunningBackground, "waiting": padi.AwaitingUser,
	} {
		f.process(map[string]any{"status": status, "waitingFor": "permission prompt"})
		if facts := f.read(); facts.State != want || !facts.Own || facts.Drift != "" {
			t.Errorf("%s: %+v", status, facts)
		}
	}
	f.process(map[string]any{"status": "dreaming"})
	if facts := f.read(); facts.State != padi.ToolUse || facts.Own || !strings.Contains(facts.Drift, "dreaming") {
		t.Errorf("a status of the future: %+v", facts)
	}
}

// TestContext is null until something says it, and stays over a newer prompt.
func TestContext(t *testing.T) {
	f := newFixture(t)
	empty := strings.Replace(answer("end_turn", ""), `"input_tokens":10,"cache_read_input_tokens":5`, `"output_tokens":7`, 1)
	f.transcript(0, user(`"x"`), answer("end_turn", ""), empty, user(`"y"`))
	if facts := f.read(); facts.ContextTokens != 15 || facts.Model != "opus" || facts.StartedAt == 0 {
		t.Errorf("%+v", facts)
	}
	f.transcript(0, empty)
	if facts := f.read(); facts.ContextTokens != 0 {
		t.Errorf("%+v", facts)
	}
}

// TestDecay: a prompt of before this process is not being worked at, however many children the process has; a live one never decays, and neither does a tool with
// a child.
func TestDecay(t *testing.T) {
	f := newFixture(t)
	old := user(`"x"`)
	f.process(map[string]any{"startedAt": time.Now().UnixMilli()})
	f.transcript(3*time.Minute, old)
	if facts := f.read(); facts.State != padi.Waiting {
		t.Errorf("resumed and idle: %+v", facts)
	}
	f.transcript(time.Minute, old)
	if facts := f.read(); facts.State != padi.Thinking || facts.Again == 0 {
		t.Errorf("quiet for a minute: %+v", facts)
	}
	f.process(map[string]any{"startedAt": 1000})
	f.transcript(3*time.Minute, old)
	if facts := f.read(); facts.State != padi.Thinking {
		t.Errorf("live thinking: %+v", facts)
	}
	f.transcript(3*time.Minute, old, answer("tool_use", call("Bash")))
	if facts := f.read(); facts.State != padi.Waiting {
		t.Errorf("a tool without a child: %+v", facts)
	}
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { child.Process.Kill(); child.Wait() }()
	if facts := f.read(); facts.State != padi.ToolUse || facts.Again == 0 {
		t.Errorf("a tool with a child: %+v", facts)
	}
	f.process(map[string]any{"startedAt": time.Now().UnixMilli()})
	f.transcript(3*time.Minute, old)
	if facts := f.read(); facts.State != padi.Waiting {
		t.Errorf("resumed and idle, with a child of its own: %+v", facts)
	}
}

// TestUnseenChildren: where nobody can tell whether a tool's process runs, it is not said to have ended.
func TestUnseenChildren(t *testing.T) {
	f := newFixture(t)
	gone := exec.CommandContext(t.Context(), "true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	pid := gone.Process.Pid
	f.write(fmt.Sprintf("sessions/%d.json", pid), fmt.Sprintf(`{"pid":%d,"sessionId":%q,"cwd":"/the/work.dir","startedAt":1000}`, pid, session))
	f.transcript(3*time.Minute, user(`"x"`), answer("tool_use", call("Bash")))
	facts, err := f.d.Read(f.subject(), agents.Session{ID: session, CWD: "/the/work.dir", Run: fmt.Sprintf("%d:1000", pid)})
	if err != nil || facts.State != padi.ToolUse {
		t.Errorf("%+v, %v", facts, err)
	}
}

// TestBackground: only a workflow or a fork that is seen to live counts.
func TestBackground(t *testing.T) {
	done := answer("end_turn", "")
	shell := user(`[{"type":"tool_result","content":"Command running in background with ID: b1"}]`)
	flow := user(`[{"type":"tool_result","content":"launched in background. Task ID: w1 … Run ID: run1"}]`)
	end := `{"type":"queue-operation","operation":"enqueue","content":"<task-id>w1</task-id><status>completed</status>"}`
	f := newFixture(t)
	f.transcript(0, shell, done)
	if facts := f.read(); facts.State != padi.Waiting {
		t.Errorf("a shell alone: %+v", facts)
	}
	f.transcript(0, flow, done)
	if facts := f.read(); facts.State != padi.Waiting {
		t.Errorf("a workflow that is nowhere: %+v", facts)
	}
	sub := "projects/-the-work-dir/" + session
	f.write(sub+"/subagents/workflows/run1/agent-a.jsonl", "{}")
	if facts := f.read(); facts.State != padi.RunningBackground || facts.Again == 0 {
		t.Errorf("a workflow that writes: %+v", facts)
	}
	f.transcript(0, flow, done, end)
	if facts := f.read(); facts.State != padi.Waiting {
		t.Errorf("a workflow whose end was told: %+v", facts)
	}
	f.transcript(0, flow, done)
	f.write(sub+"/workflows/run1.json", `{"status":"completed"}`)
	if facts := f.read(); facts.State != padi.Waiting {
		t.Errorf("a workflow with a snapshot of its end: %+v", facts)
	}
	f.write(sub+"/subagents/agent-f.meta.json", `{"agentType":"fork"}`)
	f.write(sub+"/subagents/agent-f.jsonl", user(`"x"`)+"\n")
	if facts := f.read(); facts.State != padi.RunningBackground {
		t.Errorf("a fork: %+v", facts)
	}
	f.write(sub+"/subagents/agent-f.jsonl", user(`"x"`)+"\n"+done+"\n")
	if facts := f.read(); facts.State != padi.Waiting {
		t.Errorf("a fork that ended: %+v", facts)
	}
}

// TestProcessFile tells what cannot be read from what is not there.
func TestProcessFile(t *testing.T) {
	f := newFixture(t)
	path := fmt.Sprintf("sessions/%d.json", os.Getpid())
	f.write(path, `{"pid": 1, "sess`)
	if _, err := f.d.Sessions(f.subject()); err == nil {
		t.Error("half a file is no error, so what was known is lost")
	}
	f.write(path, `{"pid": 1, "other": "shape"}`)
	if got, err := f.d.Sessions(f.subject()); err != nil || len(got) != 0 {
		t.Errorf("another shape: %+v, %v", got, err)
	}
	f.process(map[string]any{"procStart": "1"})
	if got, err := f.d.Sessions(f.subject()); err != nil || len(got) != 0 {
		t.Errorf("left behind by another process of that number: %+v, %v", got, err)
	}
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	if got, err := f.d.Sessions(f.subject()); err != nil || len(got) != 0 {
		t.Errorf("no directory: %+v, %v", got, err)
	}
}

// TestResumeIsAnotherRun: the same conversation in another process is told apart.
func TestResumeIsAnotherRun(t *testing.T) {
	f := newFixture(t)
	first, _ := f.d.Sessions(f.subject())
	f.process(map[string]any{"startedAt": 2000})
	second, _ := f.d.Sessions(f.subject())
	if first[0].ID != second[0].ID || first[0].Run == second[0].Run {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// TestTasks counts what was done of a list that is spread over the transcript.
func TestTasks(t *testing.T) {
	f := newFixture(t)
	made := func(id string) string {
		return fmt.Sprintf(`{"type":"user","timestamp":"2026-12-01T04:00:00Z","toolUseResult":{"task":{"id":%q}},"message":{"role":"user","content":[]}}`, id)
	}
	update := func(id, status string) string {
		return answer("tool_use", fmt.Sprintf(`{"type":"tool_use","name":"TaskUpdate","input":{"taskId":%q,"status":%q}}`, id, status))
	}
	f.transcript(0, made("1"), made("2"), made("3"), update("1", "completed"), update("3", "deleted"))
	if facts := f.read(); facts.Tasks == nil || *facts.Tasks != (padi.Progress{Total: 2, Completed: 1}) {
		t.Errorf("%+v", facts.Tasks)
	}
}
