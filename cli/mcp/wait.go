package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

// frame is the one answer of a wait; what belongs to met is nested, so that it is never read without the result.
type frame struct {
	ID        padi.TerminalID `json:"id"`
	Result    kaval.Outcome   `json:"result"`
	Met       *metFrame       `json:"met,omitempty"`
	ElapsedMS *int64          `json:"elapsedMs,omitempty"`
	ExitCode  *int            `json:"exitCode,omitempty"`
	Error     string          `json:"error,omitempty"`
}

type metFrame struct {
	Fired     string      `json:"fired,omitempty"`
	Agent     *padi.Agent `json:"agent,omitempty"`
	ElapsedMS int64       `json:"elapsedMs"`
	Screen    *string     `json:"screen,omitempty"`
}

type waitArgs struct {
	ID         padi.TerminalID `json:"id"`
	IdleMS     *int64          `json:"idleMs"`
	Until      []padi.Bucket   `json:"until"`
	SettledMS  *int64          `json:"settledMs"`
	ScreenTail *int            `json:"screenTail"`
	TimeoutMS  *int64          `json:"timeoutMs"`
}

func millis(description string) map[string]any { return integer(1, kaval.MaxWaitMS, description) }

func waitProperties(own map[string]any) map[string]any {
	own["id"] = str("Full id of the terminal.")
	own["timeoutMs"] = millis(fmt.Sprintf("Ends the wait with {result:\"timeout\"}; left out: %d. Keep it under what your client allows a tool "+
		"call, and wait again after a timeout.", defaultWaitMS))
	own["screenTail"] = integer(1, kaval.ScrollbackLines, "Also give the last so many lines of content, read when the wait is met.")
	return own
}

func outputSettledTool() tool {
	return tool{
		name: "wait_outputSettled",
		description: "Wait until a terminal printed nothing for idleMs. It works with every program, and cannot tell \"finished\" from " +
			"\"is asking you\": read the screen after it. 300 after typing and before Enter, 800 for the end of a turn.",
		input: object([]string{"id", "idleMs"}, waitProperties(map[string]any{
			"idleMs": millis("How long nothing may be printed, counted from this call."),
		})),
		readOnly: true,
		prepare:  prepareSettled,
	}
}

func prepareSettled(raw json.RawMessage) (action, error) {
	var args waitArgs
	if err := decode(raw, &args); err != nil {
		return action{}, err
	}
	idle, err := checkMS("idleMs", args.IdleMS)
	if err != nil {
		return action{}, err
	}
	return args.action(padi.WaitRequest{IdleMS: idle})
}

func agentStateTool() tool {
	return tool{
		name: "wait_agentState",
		description: "Wait until the agent in a terminal is in one of the states: working (busy), awaiting (asking you), waiting (its turn " +
			"has ended). It answers at once when that is so already, so after a submit wait for working first, then for awaiting and " +
			"waiting. A terminal without an agent is never in one.",
		input: object([]string{"id", "until"}, waitProperties(map[string]any{
			"until": map[string]any{
				"type": "array", "minItems": 1, "items": map[string]any{"type": "string", "enum": drive.AllBuckets()},
				"description": "The states, any of them.",
			},
			"settledMs": millis("Also want the terminal to print nothing for so long while in that state."),
		})),
		readOnly: true,
		prepare:  prepareAgentState,
	}
}

func prepareAgentState(raw json.RawMessage) (action, error) {
	var args waitArgs
	if err := decode(raw, &args); err != nil {
		return action{}, err
	}
	if len(args.Until) == 0 {
		return action{}, errors.New("until: want at least one of working, awaiting, waiting")
	}
	for _, b := range args.Until {
		if !slices.Contains(drive.AllBuckets(), b) {
			return action{}, fmt.Errorf("until: want working, awaiting or waiting, got %q", b)
		}
	}
	settled, err := checkOptionalMS("settledMs", args.SettledMS, 0)
	if err != nil {
		return action{}, err
	}
	return args.action(padi.WaitRequest{Until: args.Until, SettledMS: settled})
}

// action checks what both waits share. req says what is waited for.
func (a waitArgs) action(req padi.WaitRequest) (action, error) {
	if err := checkID("id", a.ID); err != nil {
		return action{}, err
	}
	timeout, err := checkOptionalMS("timeoutMs", a.TimeoutMS, defaultWaitMS)
	if err != nil {
		return action{}, err
	}
	tail, err := checkCount("screenTail", a.ScreenTail, kaval.ScrollbackLines)
	if err != nil {
		return action{}, err
	}
	req.TimeoutMS, req.Tail = timeout, tail
	return action{
		bound: time.Duration(timeout)*time.Millisecond + waitGrace,
		run: func(ctx context.Context, ws padi.Workspace) (any, error) {
			return wait(ctx, ws, a.ID, req)
		},
	}, nil
}

func wait(ctx context.Context, ws padi.Workspace, id padi.TerminalID, req padi.WaitRequest) (any, error) {
	res, err := drive.Wait(ctx, ws, id, req)
	if errors.Is(err, kaval.ErrGone) || res.Result == kaval.Met && errors.Is(err, kaval.ErrNoTerminal) {
		return frame{ID: id, Result: kaval.Gone}, nil
	}
	if err != nil {
		return nil, err
	}
	f := frame{ID: id, Result: res.Result}
	switch res.Result {
	case kaval.Met:
		f.Met = &metFrame{Fired: res.Fired, Agent: res.Agent, ElapsedMS: res.ElapsedMS, Screen: res.Screen}
	case kaval.Closed:
		f.Error = "padi is going away under a live terminal; wait again"
	default:
		f.ElapsedMS, f.ExitCode = &res.ElapsedMS, res.ExitCode
	}
	return f, nil
}
