package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/daemon/padi"
)

// refusal is a "no" that a program may act on: its kind and facts go into the structured content.
type refusal struct {
	kind   string
	facts  map[string]any
	detail string
	err    error
}

func (r *refusal) Error() string { return r.detail }
func (r *refusal) Unwrap() error { return r.err }

func refuse(kind string, facts map[string]any, format string, args ...any) error {
	return &refusal{kind: kind, facts: facts, detail: fmt.Sprintf(format, args...)}
}

// failure makes the tool result of an error.
func failure(err error) *sdk.CallToolResult {
	res := &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: err.Error()}}}
	if facts := factsOf(err); facts != nil {
		res.StructuredContent = facts
	}
	return res
}

func factsOf(err error) map[string]any {
	if partial, ok := errors.AsType[*padi.PartialError](err); ok {
		return map[string]any{"kind": "stopped-partway", "landed": partial.Landed}
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		facts := map[string]any{"kind": r.kind}
		maps.Copy(facts, r.facts)
		return facts
	}
	if code := padi.Code(err); code != "internal" {
		return map[string]any{"kind": code}
	}
	return nil
}

// text is a result whose text is better read as it is than as JSON.
type text string

// success makes the tool result of a value.
func success(v any) (*sdk.CallToolResult, error) {
	if t, ok := v.(text); ok {
		return &sdk.CallToolResult{
			Content:           []sdk.Content{&sdk.TextContent{Text: string(t)}},
			StructuredContent: map[string]any{"value": string(t)},
		}, nil
	}
	s, err := encode(v)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}, StructuredContent: v}, nil
}

// encode makes the JSON that a model reads: indented, and with <, > and & as the terminal shows them.
func encode(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
