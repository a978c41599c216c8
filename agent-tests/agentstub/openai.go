package agentstub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// failure reports the HTTP error that a script opens with, if it does.
func failure(steps []step) (code int, msg string, ok bool) {
	if len(steps) == 0 || steps[0].op != "error" {
		return 0, "", false
	}
	num, rest, _ := strings.Cut(steps[0].arg, " ")
	code, err := strconv.Atoi(num)
	if err != nil || code < 400 || code > 599 {
		code = http.StatusInternalServerError
	}
	if rest == "" {
		rest = "agentstub: scripted failure"
	}
	return code, rest, true
}

func openaiError(w http.ResponseWriter, code int, msg string) {
	kind := "server_error"
	switch code {
	case http.StatusBadRequest:
		kind = "invalid_request_error"
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case http.StatusTooManyRequests:
		kind = "rate_limit_error"
	}
	writeJSON(w, code, obj{"error": obj{"message": msg, "type": kind, "param": nil, "code": nil}})
}

// ---- Responses ----

type responsesItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
	CallID  string          `json:"call_id"`
}

type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

type responsesRequest struct {
	Model  string          `json:"model"`
	Stream bool            `json:"stream"`
	Input  json.RawMessage `json:"input"`
	Tools  []responsesTool `json:"tools"`
	Text   struct {
		Format struct {
			Type string `json:"type"`
		} `json:"format"`
	} `json:"text"`
}

// openaiText flattens a string, or a list of parts that carry text.
func openaiText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) == nil {
		var out []string
		for _, p := range parts {
			out = append(out, p.Text)
		}
		return strings.Join(out, "\n")
	}
	var one struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &one) == nil && len(one.Content) > 0 {
		return openaiText(one.Content)
	}
	return ""
}

func (r responsesRequest) turn() turn {
	t := turn{toolKinds: map[string]string{}}
	var add func(ts []responsesTool)
	add = func(ts []responsesTool) {
		for _, tool := range ts {
			name := tool.Name
			if name == "" {
				name = tool.Type
			}
			t.tools = append(t.tools, name)
			t.toolKinds[name] = tool.Type
			add(tool.Tools)
		}
	}
	add(r.Tools)
	t.aux = len(r.Tools) == 0
	t.wantJSON = strings.HasPrefix(r.Text.Format.Type, "json")
	t.neverAsk = strings.Contains(string(r.Input), "Approval policy is currently never")
	var items []responsesItem
	if json.Unmarshal(r.Input, &items) != nil {
		t.prompt = openaiText(r.Input)
		return t
	}
	for _, it := range items {
		switch {
		case it.Role == "user":
			text := strings.TrimSpace(openaiText(it.Content))
			// Programs put their own context in as user items, in tags.
			if text == "" || strings.HasPrefix(text, "<") || strings.HasPrefix(text, "# AGENTS.md") {
				continue
			}
			t.prompt, t.rounds, t.lastResult = text, 0, ""
		case strings.HasSuffix(it.Type, "_call_output"):
			t.rounds++
			t.lastResult = openaiText(it.Output)
		}
	}
	return t
}

func (s *Server) openaiResponses(w http.ResponseWriter, r *http.Request) {
	n := s.next()
	if r.Method != http.MethodPost {
		// A WebSocket attempt, for one: tell the program to use plain HTTP.
		s.note(n, "other", obj{"method": r.Method, "path": r.URL.Path, "upgrade": r.Header.Get("Upgrade")})
		openaiError(w, http.StatusUpgradeRequired, "agentstub: POST only")
		return
	}
	body, _ := io.ReadAll(r.Body)
	var req responsesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		openaiError(w, http.StatusBadRequest, err.Error())
		return
	}
	t := req.turn()
	steps := t.plan()
	s.noteRequest(n, t, obj{"api": "responses", "model": req.Model, "prompt": clip(t.prompt, 120), "bytes": len(t.prompt), "rounds": t.rounds, "aux": t.aux, "stream": req.Stream})
	if code, msg, ok := failure(steps); ok {
		s.note(n, "error", obj{"code": code})
		openaiError(w, code, msg)
		return
	}
	s.play(r.Context(), n, t, steps, &responsesSink{st: startStream(w, r), n: n, model: req.Model, kinds: t.toolKinds})
}

type responsesSink struct {
	st    *stream
	n     int
	model string
	kinds map[string]string
	seq   int
	index int
	kind  string
	buf   strings.Builder
	items []obj
}

func (o *responsesSink) send(name string, v obj) {
	v["type"] = name
	v["sequence_number"] = o.seq
	o.seq++
	o.st.send(name, v)
}

func (o *responsesSink) response(status string) obj {
	resp := obj{"id": fmt.Sprintf("resp_stub%04d", o.n), "object": "response", "created_at": 0, "status": status,
		"model": o.model, "output": o.items, "parallel_tool_calls": false, "tools": []any{}, "error": nil, "incomplete_details": nil}
	if status == "completed" {
		resp["usage"] = obj{"input_tokens": 1000, "input_tokens_details": obj{"cached_tokens": 0},
			"output_tokens": 10, "output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": 1010}
	}
	return resp
}

func (o *responsesSink) open() {
	o.items = []obj{}
	o.send("response.created", obj{"response": o.response("in_progress")})
	o.send("response.in_progress", obj{"response": o.response("in_progress")})
}

func (o *responsesSink) id() string { return fmt.Sprintf("item_stub%04d%02d", o.n, o.index) }

func (o *responsesSink) done(item obj) {
	o.items = append(o.items, item)
	o.send("response.output_item.done", obj{"output_index": o.index, "item": item})
	o.index++
	o.kind = ""
	o.buf.Reset()
}

func (o *responsesSink) end() {
	switch o.kind {
	case "text":
		text := o.buf.String()
		part := obj{"type": "output_text", "text": text, "annotations": []any{}}
		o.send("response.output_text.done", obj{"item_id": o.id(), "output_index": o.index, "content_index": 0, "text": text})
		o.send("response.content_part.done", obj{"item_id": o.id(), "output_index": o.index, "content_index": 0, "part": part})
		o.done(obj{"id": o.id(), "type": "message", "status": "completed", "role": "assistant", "content": []obj{part}})
	case "think":
		text := o.buf.String()
		part := obj{"type": "summary_text", "text": text}
		o.send("response.reasoning_summary_text.done", obj{"item_id": o.id(), "output_index": o.index, "summary_index": 0, "text": text})
		o.send("response.reasoning_summary_part.done", obj{"item_id": o.id(), "output_index": o.index, "summary_index": 0, "part": part})
		o.done(obj{"id": o.id(), "type": "reasoning", "summary": []obj{part}})
	}
}

func (o *responsesSink) think(p string) {
	if o.kind != "think" {
		o.end()
		o.kind = "think"
		o.send("response.output_item.added", obj{"output_index": o.index, "item": obj{"id": o.id(), "type": "reasoning", "summary": []any{}}})
		o.send("response.reasoning_summary_part.added", obj{"item_id": o.id(), "output_index": o.index, "summary_index": 0, "part": obj{"type": "summary_text", "text": ""}})
	}
	o.buf.WriteString(p)
	o.send("response.reasoning_summary_text.delta", obj{"item_id": o.id(), "output_index": o.index, "summary_index": 0, "delta": p})
}

func (o *responsesSink) text(p string) {
	if o.kind != "text" {
		o.end()
		o.kind = "text"
		o.send("response.output_item.added", obj{"output_index": o.index, "item": obj{"id": o.id(), "type": "message", "status": "in_progress", "role": "assistant", "content": []any{}}})
		o.send("response.content_part.added", obj{"item_id": o.id(), "output_index": o.index, "content_index": 0, "part": obj{"type": "output_text", "text": "", "annotations": []any{}}})
	}
	o.buf.WriteString(p)
	o.send("response.output_text.delta", obj{"item_id": o.id(), "output_index": o.index, "content_index": 0, "delta": p})
}

func (o *responsesSink) tool(c call) {
	o.end()
	id := fmt.Sprintf("call_stub%04d%02d", o.n, o.index)
	if o.kinds[c.name] == "custom" {
		item := obj{"id": o.id(), "type": "custom_tool_call", "status": "completed", "call_id": id, "name": c.name, "input": c.json()}
		o.send("response.output_item.added", obj{"output_index": o.index, "item": item})
		o.done(item)
		return
	}
	item := obj{"id": o.id(), "type": "function_call", "status": "completed", "call_id": id, "name": c.name, "arguments": c.json()}
	o.send("response.output_item.added", obj{"output_index": o.index, "item": item})
	o.send("response.function_call_arguments.done", obj{"item_id": o.id(), "output_index": o.index, "arguments": c.json()})
	o.done(item)
}

func (o *responsesSink) finish(bool) {
	o.end()
	o.send("response.completed", obj{"response": o.response("completed")})
}

// ---- Chat Completions ----

type chatRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	ResponseFormat struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

func (r chatRequest) turn() turn {
	var t turn
	for _, tool := range r.Tools {
		t.tools = append(t.tools, tool.Function.Name)
	}
	t.aux = len(t.tools) == 0
	t.wantJSON = strings.HasPrefix(r.ResponseFormat.Type, "json")
	inTools := false
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			if text := typed(openaiText(m.Content)); text != "" {
				t.prompt, t.rounds, t.lastResult = text, 0, ""
			}
			inTools = false
		case "tool":
			if !inTools { // several results in a row answer one response
				t.rounds++
			}
			inTools = true
			t.lastResult = openaiText(m.Content)
		default:
			inTools = false
		}
	}
	return t
}

func (s *Server) openaiChat(w http.ResponseWriter, r *http.Request) {
	n := s.next()
	body, _ := io.ReadAll(r.Body)
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		openaiError(w, http.StatusBadRequest, err.Error())
		return
	}
	t := req.turn()
	steps := t.plan()
	s.noteRequest(n, t, obj{"api": "chat", "model": req.Model, "prompt": clip(t.prompt, 120), "bytes": len(t.prompt), "rounds": t.rounds, "aux": t.aux, "stream": req.Stream})
	if code, msg, ok := failure(steps); ok {
		s.note(n, "error", obj{"code": code})
		openaiError(w, code, msg)
		return
	}
	s.play(r.Context(), n, t, steps, &chatSink{st: startStream(w, r), n: n, model: req.Model})
}

type chatSink struct {
	st    *stream
	n     int
	model string
	calls int
}

func (c *chatSink) chunk(delta obj, finish any) obj {
	return obj{"id": fmt.Sprintf("chatcmpl-stub%04d", c.n), "object": "chat.completion.chunk", "created": 0, "model": c.model,
		"choices": []obj{{"index": 0, "delta": delta, "finish_reason": finish}}}
}

func (c *chatSink) open() {
	c.st.send("", c.chunk(obj{"role": "assistant", "content": ""}, nil))
}
func (c *chatSink) think(p string) { c.st.send("", c.chunk(obj{"reasoning_content": p}, nil)) }
func (c *chatSink) text(p string)  { c.st.send("", c.chunk(obj{"content": p}, nil)) }

func (c *chatSink) tool(k call) {
	c.st.send("", c.chunk(obj{"tool_calls": []obj{{"index": c.calls, "id": fmt.Sprintf("call_stub%04d%02d", c.n, c.calls), "type": "function",
		"function": obj{"name": k.name, "arguments": k.json()}}}}, nil))
	c.calls++
}

func (c *chatSink) finish(toolUsed bool) {
	reason := "stop"
	if toolUsed {
		reason = "tool_calls"
	}
	last := c.chunk(obj{}, reason)
	last["usage"] = obj{"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
	c.st.send("", last)
	c.st.raw("data: [DONE]\n\n")
}
