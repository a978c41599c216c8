package agentstub

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestParseScript(t *testing.T) {
	got := parseScript("think: 2 ;; say: hi ;; there ;; bash: ls -l ;; hang")
	want := []step{{"think", "2"}, {"say", "hi ;; there"}, {"bash", "ls -l"}, {"hang", ""}}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("step %d: got %v, want %v", i, got[i], want[i])
		}
	}
	if parseScript("fix the tests; please") != nil {
		t.Error("plain prose must hold no step")
	}
}

func TestPlanGoesOnAfterTools(t *testing.T) {
	tr := turn{prompt: "bash: a ;; say: mid ;; bash: b", tools: []string{"Bash"}}
	for rounds, want := range []string{"bash a", "say mid,bash b", "say ran: out"} {
		tr.rounds, tr.lastResult = rounds, "out"
		var got []string
		for _, st := range tr.plan() {
			got = append(got, st.op+" "+st.arg)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("after %d rounds: got %q, want %q", rounds, got, want)
		}
	}
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

func newTest(t *testing.T) *httptest.Server {
	srv := httptest.NewServer(New())
	t.Cleanup(srv.Close)
	return srv
}

// dataTypes lists the `type` of each streamed event.
func dataTypes(stream string) []string {
	var out []string
	sc := bufio.NewScanner(strings.NewReader(stream))
	for sc.Scan() {
		if d, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			var v struct {
				Type string `json:"type"`
			}
			json.Unmarshal([]byte(d), &v)
			out = append(out, v.Type)
		}
	}
	return out
}

func TestAnthropicTool(t *testing.T) {
	srv := newTest(t)
	out := post(t, srv.URL+"/v1/messages", `{"stream":true,"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"bash: ls"}]}`)
	if !strings.Contains(out, `"stop_reason":"tool_use"`) || !strings.Contains(out, `\"command\":\"ls\"`) {
		t.Error(out)
	}
	types := dataTypes(out)
	if types[0] != "message_start" || types[len(types)-1] != "message_stop" {
		t.Error(types)
	}
}

func TestAnthropicInterruptStartsAnew(t *testing.T) {
	var r anthropicRequest
	body := `{"tools":[{"name":"Bash"}],"messages":[
		{"role":"user","content":"bash: ls"},
		{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"Bash","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"no"},{"type":"text","text":"[Request interrupted by user for tool use]"},{"type":"text","text":"say: next"}]}]}`
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if tr := r.turn(); tr.prompt != "say: next" || tr.rounds != 0 {
		t.Errorf("%+v", tr)
	}
}

func TestResponsesTool(t *testing.T) {
	srv := newTest(t)
	in := `{"stream":true,"tools":[{"type":"function","name":"exec_command"}],"input":[{"role":"user","content":[{"type":"input_text","text":"bash: ls"}]}%s]}`
	out := post(t, srv.URL+"/v1/responses", strings.Replace(in, "%s", "", 1))
	if !strings.Contains(out, "require_escalated") || !strings.HasSuffix(strings.TrimSpace(out), "}") {
		t.Error(out)
	}
	types := dataTypes(out)
	if types[len(types)-1] != "response.completed" {
		t.Error(types)
	}
	out = post(t, srv.URL+"/v1/responses", strings.Replace(in, "%s", `,{"role":"developer","content":"Approval policy is currently never."}`, 1))
	if strings.Contains(out, "require_escalated") {
		t.Error("asked for permission though the program never asks")
	}
}

func TestChatAnswer(t *testing.T) {
	srv := newTest(t)
	out := post(t, srv.URL+"/v1/chat/completions", `{"stream":true,"tools":[{"function":{"name":"bash"}}],"messages":[{"role":"user","content":"say: hi"}]}`)
	if !strings.Contains(out, `"content":"hi"`) || !strings.HasSuffix(out, "data: [DONE]\n\n") {
		t.Error(out)
	}
}

func TestFailure(t *testing.T) {
	srv := newTest(t)
	resp, err := http.Post(srv.URL+"/v1/messages", "application/json", strings.NewReader(`{"stream":true,"tools":[{"name":"x"}],"messages":[{"role":"user","content":"error: 529 busy"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 529 || !strings.Contains(string(b), "overloaded_error") {
		t.Error(resp.StatusCode, string(b))
	}
}

func TestHoldWaitsForRelease(t *testing.T) {
	stub := New()
	srv := httptest.NewServer(stub)
	t.Cleanup(srv.Close)
	done := make(chan string, 1)
	go func() {
		done <- post(t, srv.URL+"/v1/messages", `{"stream":true,"tools":[{"name":"x"}],"messages":[{"role":"user","content":"hold: gate ;; say: out"}]}`)
	}()
	for deadline := time.Now().Add(30 * time.Second); !stub.Release("gate"); {
		select {
		case <-done:
			t.Fatal("did not hold")
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing holds")
		}
	}
	select {
	case out := <-done:
		if !strings.Contains(out, `"text":"out"`) {
			t.Error(out)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("not released")
	}
}
