package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

type promptArgs struct {
	ID        padi.TerminalID `json:"id"`
	Text      string          `json:"text"`
	TimeoutMS *int64          `json:"timeoutMs"`
}

func promptTool() tool {
	return tool{
		name: "lifecycle_prompt",
		description: "Hand a text to the coding agent in a terminal as one prompt, of any number of lines, and say what became of it: taken (the agent " +
			"has it), busy (queued behind a turn that is under way), staged (typed, and still standing there; the same call again only presses Enter), blocked " +
			"(nothing was typed: a dialog is up, or there is no place to type at), gone (no agent is there). It types, waits until the text is seen, and presses Enter.",
		input: object([]string{"id", "text"}, map[string]any{
			"id":        str("Full id of the terminal."),
			"text":      str("The prompt."),
			"timeoutMs": millis(fmt.Sprintf("How long each step may take; left out: %d.", defaultPromptMS)),
		}),
		prepare: preparePrompt,
	}
}

// defaultPromptMS leaves an agent time to start, and keeps both steps of a prompt under what most clients allow a tool call.
const defaultPromptMS = 25_000

func preparePrompt(raw json.RawMessage) (action, error) {
	var args promptArgs
	if err := decode(raw, &args); err != nil {
		return action{}, err
	}
	if err := checkID("id", args.ID); err != nil {
		return action{}, err
	}
	timeout, err := checkOptionalMS("timeoutMs", args.TimeoutMS, defaultPromptMS)
	if err != nil {
		return action{}, err
	}
	req := padi.PromptRequest{Data: []byte(args.Text), TimeoutMS: timeout}
	if err := req.Check(); err != nil {
		return action{}, err
	}
	bound := 2*time.Duration(timeout)*time.Millisecond + waitGrace
	return action{bound: max(bound, changeBound), changes: true, run: func(ctx context.Context, ws padi.Workspace) (any, error) {
		k, ok := ws.(padi.AgentKeeper)
		if !ok {
			return nil, fmt.Errorf("%w: this padi does not look after agents", kaval.ErrRefused)
		}
		return k.Prompt(ctx, args.ID, req)
	}}, nil
}
