package agentstub

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The script language. A prompt is a list of steps with ` ;; ` between them:
//
//	say: TEXT            answer with TEXT
//	lines: N             answer with N numbered lines
//	slow: N [TEXT]       stream text for N seconds, about five pieces a second
//	think: N             stream reasoning for N seconds
//	delay: N             send nothing at all for N seconds, then go on
//	hold: NAME           send nothing until Release(NAME)
//	hang                 send the opening event, then nothing for ever
//	bash: COMMAND        call the program's shell tool, asking for what makes
//	                     the program stop for the user's permission (Codex only
//	                     stops for a command that asks to leave its sandbox, and
//	                     refuses one when it was started so as never to ask)
//	run: COMMAND         the same without that request
//	bg: COMMAND          the same as run, in the background where the tool can
//	write: PATH [TEXT]   call the program's file-writing tool
//	ask: QUESTION        call the program's ask-the-user tool (choices Red, Blue)
//	plan: TEXT           call the program's leave-plan-mode tool
//	tool: NAME JSON      call any tool by name with these arguments
//	error: CODE [TEXT]   fail with this HTTP status
//	cut                  drop the connection in mid-stream
//
// A tool step ends one model response; the program runs the tool and asks
// again, and the next response carries on with the step after it. When the
// steps run out after a tool, the answer is `ran: ` and the start of what the
// tool gave back. A prompt that holds no step is answered with an echo.

type step struct {
	op  string
	arg string
}

var stepRE = regexp.MustCompile(`^\s*(say|lines|slow|think|delay|hold|bash|run|bg|write|ask|plan|tool|error)\s*:\s*(?s:(.*))$`)

func parseScript(prompt string) []step {
	var steps []step
	for _, part := range strings.Split(prompt, ";;") {
		part = strings.TrimSpace(part)
		if part == "hang" || part == "cut" {
			steps = append(steps, step{op: part})
			continue
		}
		m := stepRE.FindStringSubmatch(part)
		if m == nil {
			// Not a step: the rest of the last step's text, or no script at all.
			if len(steps) == 0 {
				return nil
			}
			steps[len(steps)-1].arg += " ;; " + part
			continue
		}
		steps = append(steps, step{op: m[1], arg: strings.TrimSpace(m[2])})
	}
	return steps
}

func (st step) isTool() bool {
	switch st.op {
	case "bash", "run", "bg", "write", "ask", "plan", "tool":
		return true
	}
	return false
}

// turn is what an adapter found in a request, whichever API it came by.
type turn struct {
	prompt     string   // newest text the user typed
	rounds     int      // tool rounds since that text
	lastResult string   // newest tool result, when the request carries one on
	tools      []string // names of the tools on offer
	aux        bool     // a side request (a title, a summary): no tools on offer
	wantJSON   bool     // the side request asks for JSON
	toolKinds  map[string]string
	neverAsk   bool // the program says that it must not ask for permission
}

// plan picks the steps that this response must play.
func (t turn) plan() []step {
	if t.aux {
		if t.wantJSON {
			return []step{{op: "say", arg: `{"title":"Stub title","isNewTopic":false}`}}
		}
		return []step{{op: "say", arg: "Stub title"}}
	}
	steps := parseScript(t.prompt)
	if steps == nil {
		return []step{{op: "say", arg: "You said: " + clip(t.prompt, 200)}}
	}
	for r := t.rounds; r > 0; r-- {
		i := 0
		for i < len(steps) && !steps[i].isTool() {
			i++
		}
		if i == len(steps) {
			steps = nil
			break
		}
		steps = steps[i+1:]
	}
	if len(steps) == 0 {
		return []step{{op: "say", arg: "ran: " + clip(t.lastResult, 200)}}
	}
	for i, st := range steps {
		if st.isTool() {
			return steps[:i+1]
		}
	}
	return steps
}

func clip(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// seconds reads the number at the start of a step's text.
func seconds(arg string) (time.Duration, string) {
	num, rest, _ := strings.Cut(strings.TrimSpace(arg), " ")
	f, err := strconv.ParseFloat(num, 64)
	if err != nil {
		return 0, arg
	}
	return time.Duration(f * float64(time.Second)), rest
}

// call is a tool call in the shape that one program's tool expects.
type call struct {
	name string
	args any
}

func (t turn) has(name string) bool {
	for _, n := range t.tools {
		if n == name {
			return true
		}
	}
	return false
}

type obj = map[string]any

// toolCall turns a tool step into a call of a tool that the request offers. It
// reports false when none fits.
func (t turn) toolCall(st step) (call, bool) {
	switch st.op {
	case "bash", "run", "bg":
		bg := st.op == "bg"
		switch {
		case t.has("Bash"):
			a := obj{"command": st.arg, "description": "Run a stub command"}
			if bg {
				a["run_in_background"] = true
			}
			return call{"Bash", a}, true
		case t.has("bash"):
			return call{"bash", obj{"command": st.arg, "description": "Run a stub command"}}, true
		case t.has("exec_command"):
			a := obj{"cmd": st.arg}
			if st.op == "bash" && !t.neverAsk {
				a["sandbox_permissions"] = "require_escalated"
				a["justification"] = "Do you want to run the stub command?"
			}
			return call{"exec_command", a}, true
		case t.has("shell_command"):
			return call{"shell_command", obj{"command": st.arg}}, true
		case t.has("shell"):
			return call{"shell", obj{"command": []string{"bash", "-lc", st.arg}}}, true
		}
	case "write":
		path, text, _ := strings.Cut(st.arg, " ")
		if text == "" {
			text = "stub\n"
		}
		switch {
		case t.has("Write"):
			return call{"Write", obj{"file_path": path, "content": text}}, true
		case t.has("write"):
			return call{"write", obj{"filePath": path, "content": text}}, true
		case t.has("apply_patch"):
			return call{"apply_patch", "*** Begin Patch\n*** Add File: " + path + "\n+" + text + "\n*** End Patch\n"}, true
		}
	case "ask":
		opts := []obj{
			{"label": "Red", "description": "The colour red"},
			{"label": "Blue", "description": "The colour blue"},
		}
		switch {
		case t.has("AskUserQuestion"):
			return call{"AskUserQuestion", obj{"questions": []obj{{"question": st.arg, "header": "Colour", "multiSelect": false, "options": opts}}}}, true
		case t.has("question"):
			return call{"question", obj{"questions": []obj{{"question": st.arg, "header": "Colour", "options": opts}}}}, true
		case t.has("request_user_input"):
			return call{"request_user_input", obj{"questions": []obj{{"id": "colour", "header": "Colour", "question": st.arg, "options": opts}}}}, true
		}
	case "plan":
		switch {
		case t.has("ExitPlanMode"):
			return call{"ExitPlanMode", obj{"plan": st.arg}}, true
		case t.has("plan_exit"):
			return call{"plan_exit", obj{}}, true
		}
	case "tool":
		name, raw, _ := strings.Cut(st.arg, " ")
		var args any = obj{}
		if raw != "" {
			if err := json.Unmarshal([]byte(raw), &args); err != nil {
				args = raw
			}
		}
		return call{name, args}, t.has(name)
	}
	return call{}, false
}

func (c call) json() string {
	if s, ok := c.args.(string); ok {
		return s
	}
	b, _ := json.Marshal(c.args)
	return string(b)
}

// sink is one API's way to put pieces of an answer on the wire.
type sink interface {
	open()                // the answer begins
	think(piece string)   // a piece of reasoning
	text(piece string)    // a piece of the reply
	tool(c call)          // a whole tool call
	finish(toolUsed bool) // the answer ends
}

// play runs the steps against one API. It returns early, without finish, when
// the client goes away.
func (s *Server) play(ctx context.Context, n int, t turn, steps []step, out sink) {
	out.open()
	s.note(n, "open", nil)
	piece := func(text string) {
		out.text(text)
	}
	wait := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	gone := func() { s.note(n, "cancelled", nil) }
	used := false
	for _, st := range steps {
		switch st.op {
		case "say":
			for _, w := range strings.SplitAfter(st.arg, " ") {
				piece(w)
			}
		case "lines":
			k, _ := strconv.Atoi(strings.Fields(st.arg + " 1")[0])
			for i := 1; i <= k; i++ {
				piece(fmt.Sprintf("line %d of %d\n", i, k))
			}
		case "slow", "think":
			d, rest := seconds(st.arg)
			end := time.Now().Add(d)
			for i := 1; time.Now().Before(end); i++ {
				w := fmt.Sprintf("word%d ", i)
				if st.op == "think" {
					out.think(w)
				} else {
					piece(w)
				}
				if !wait(min(200*time.Millisecond, max(time.Until(end), 0))) {
					gone()
					return
				}
			}
			if st.op == "slow" && rest != "" {
				piece(rest)
			}
		case "delay":
			d, _ := seconds(st.arg)
			if !wait(d) {
				gone()
				return
			}
		case "hold":
			select {
			case <-s.hold(st.arg):
			case <-ctx.Done():
				gone()
				return
			}
		case "hang":
			<-ctx.Done()
			gone()
			return
		case "cut":
			s.note(n, "cut", nil)
			panic(errCut)
		default:
			c, ok := t.toolCall(st)
			if !ok {
				piece(fmt.Sprintf("agentstub: no tool on offer for %q (offered: %s)", st.op, strings.Join(t.tools, ", ")))
				continue
			}
			out.tool(c)
			used = true
			s.note(n, "tool", obj{"name": c.name})
		}
	}
	out.finish(used)
	s.note(n, "end", obj{"tool": used})
}
