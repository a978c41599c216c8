package agentstub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// errCut drops the connection: net/http swallows this panic and closes it.
var errCut = http.ErrAbortHandler

type anthropicBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
}

type anthropicRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"tools"`
	OutputConfig struct {
		Format json.RawMessage `json:"format"`
	} `json:"output_config"`
	OutputFormat json.RawMessage `json:"output_format"`
}

func anthropicBlocks(raw json.RawMessage) []anthropicBlock {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []anthropicBlock{{Type: "text", Text: s}}
	}
	var bs []anthropicBlock
	json.Unmarshal(raw, &bs)
	return bs
}

var reminderRE = regexp.MustCompile(`(?s)<(system-reminder|local-command-[a-z]+|command-[a-z]+)>.*?</(system-reminder|local-command-[a-z]+|command-[a-z]+)>`)

var pastedRE = regexp.MustCompile(`</?pasted_content[^>]*>`)

// typed strips what a program wraps around the text its user typed.
func typed(s string) string {
	s = reminderRE.ReplaceAllString(s, "")
	return strings.TrimSpace(pastedRE.ReplaceAllString(s, ""))
}

func blockText(bs []anthropicBlock) string {
	var out []string
	for _, b := range bs {
		if b.Type == "text" {
			if t := typed(b.Text); t != "" {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return out[len(out)-1]
}

func (r anthropicRequest) turn() turn {
	var t turn
	for _, tool := range r.Tools {
		t.tools = append(t.tools, tool.Name)
	}
	t.aux = len(t.tools) == 0
	t.wantJSON = len(r.OutputConfig.Format) > 0 || len(r.OutputFormat) > 0
	for _, m := range r.Messages {
		if m.Role != "user" {
			continue
		}
		bs := anthropicBlocks(m.Content)
		result := false
		for _, b := range bs {
			if b.Type == "tool_result" {
				result = true
				t.lastResult = blockText(anthropicBlocks(b.Content))
			}
		}
		// After an interrupt the results and the user's next prompt come in one
		// message, with a note about the interrupt between them.
		switch text := blockText(bs); {
		case text != "" && !strings.HasPrefix(text, "[Request interrupted"):
			t.prompt, t.rounds, t.lastResult = text, 0, ""
		case result:
			t.rounds++
		}
	}
	return t
}

func (s *Server) anthropicCount(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	s.note(s.next(), "count", nil)
	writeJSON(w, http.StatusOK, obj{"input_tokens": 1000})
}

func (s *Server) anthropicMessages(w http.ResponseWriter, r *http.Request) {
	n := s.next()
	body, _ := io.ReadAll(r.Body)
	var req anthropicRequest
	if err := json.Unmarshal(body, &req); err != nil {
		writeJSON(w, http.StatusBadRequest, obj{"type": "error", "error": obj{"type": "invalid_request_error", "message": err.Error()}})
		return
	}
	t := req.turn()
	steps := t.plan()
	s.noteRequest(n, t, obj{"api": "messages", "model": req.Model, "prompt": clip(t.prompt, 120), "bytes": len(t.prompt), "rounds": t.rounds, "aux": t.aux, "stream": req.Stream})
	if code, msg, ok := failure(steps); ok {
		s.note(n, "error", obj{"code": code})
		kind := "api_error"
		switch code {
		case 429:
			kind = "rate_limit_error"
		case 529:
			kind = "overloaded_error"
		case 401:
			kind = "authentication_error"
		case 400:
			kind = "invalid_request_error"
		}
		writeJSON(w, code, obj{"type": "error", "error": obj{"type": kind, "message": msg}})
		return
	}
	if !req.Stream {
		text := ""
		for _, st := range steps {
			if st.op == "say" {
				text += st.arg
			}
		}
		writeJSON(w, http.StatusOK, obj{"id": fmt.Sprintf("msg_stub%04d", n), "type": "message", "role": "assistant", "model": req.Model,
			"content": []obj{{"type": "text", "text": text}}, "stop_reason": "end_turn", "stop_sequence": nil,
			"usage": obj{"input_tokens": 1000, "output_tokens": 5}})
		s.note(n, "end", obj{"tool": false})
		return
	}
	s.play(r.Context(), n, t, steps, &anthropicSink{st: startStream(w, r), n: n, model: req.Model})
}

type anthropicSink struct {
	st    *stream
	n     int
	model string
	index int    // of the open block
	kind  string // of the open block, "" when none is open
	words int
}

func (a *anthropicSink) open() {
	a.st.send("message_start", obj{"type": "message_start", "message": obj{
		"id": fmt.Sprintf("msg_stub%04d", a.n), "type": "message", "role": "assistant", "model": a.model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": obj{"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}}})
	a.st.send("ping", obj{"type": "ping"})
}

func (a *anthropicSink) begin(kind string, block obj) {
	if a.kind == kind && kind != "tool_use" {
		return
	}
	a.end()
	a.kind = kind
	a.st.send("content_block_start", obj{"type": "content_block_start", "index": a.index, "content_block": block})
}

func (a *anthropicSink) end() {
	if a.kind == "" {
		return
	}
	if a.kind == "thinking" {
		a.delta(obj{"type": "signature_delta", "signature": "c3R1Yg=="})
	}
	a.st.send("content_block_stop", obj{"type": "content_block_stop", "index": a.index})
	a.index++
	a.kind = ""
}

func (a *anthropicSink) delta(d obj) {
	a.st.send("content_block_delta", obj{"type": "content_block_delta", "index": a.index, "delta": d})
}

func (a *anthropicSink) think(p string) {
	a.begin("thinking", obj{"type": "thinking", "thinking": "", "signature": ""})
	a.delta(obj{"type": "thinking_delta", "thinking": p})
}

func (a *anthropicSink) text(p string) {
	a.begin("text", obj{"type": "text", "text": ""})
	a.delta(obj{"type": "text_delta", "text": p})
	a.words++
}

func (a *anthropicSink) tool(c call) {
	a.begin("tool_use", obj{"type": "tool_use", "id": fmt.Sprintf("toolu_stub%04d%02d", a.n, a.index), "name": c.name, "input": obj{}})
	a.delta(obj{"type": "input_json_delta", "partial_json": c.json()})
	a.end()
}

func (a *anthropicSink) finish(toolUsed bool) {
	a.end()
	reason := "end_turn"
	if toolUsed {
		reason = "tool_use"
	}
	a.st.send("message_delta", obj{"type": "message_delta", "delta": obj{"stop_reason": reason, "stop_sequence": nil},
		"usage": obj{"output_tokens": a.words + 1}})
	a.st.send("message_stop", obj{"type": "message_stop"})
}
