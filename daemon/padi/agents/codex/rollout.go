package codex

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"

	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

// rollout is what the end of a thread's file says.
type rollout struct {
	size, modified int64
	state          padi.AgentState
	asks           string
	why            string
	model          string
	tokens         int64
	version        string
}

func (r rollout) quiet() int64 {
	if r.modified == 0 {
		return 0
	}
	return max(time.Now().UnixMilli()-r.modified, 0)
}

// entry is one line.
type entry struct {
	Type    string `json:"type"`
	Payload struct {
		Type   string `json:"type"`
		Name   string `json:"name"`
		CallID string `json:"call_id"`
		Reason string `json:"reason"`
		Model  string `json:"model"`
		CLI    string `json:"cli_version"`
		Info   *struct {
			Last struct {
				Input int64 `json:"input_tokens"` // with what came from the cache
			} `json:"last_token_usage"`
		} `json:"info"`
	} `json:"payload"`
}

// rollout reads a thread's file, unless it is as it was.
func (d *Detector) rollout(path string) (rollout, error) {
	written := modified(path) // from before it is read: what is read may be newer than that, never older
	lines, size, err := agents.Tail(path)
	if errors.Is(err, fs.ErrNotExist) {
		return rollout{why: "no rollout yet"}, nil
	}
	if err != nil {
		return rollout{}, err
	}
	if r, ok := d.rollouts[path]; ok && r.size == size {
		return r, nil
	}
	r := readRollout(lines)
	r.size, r.modified = size, written
	if len(d.rollouts) > 256 {
		clear(d.rollouts)
	}
	d.rollouts[path] = r
	return r, nil
}

// asking are the calls that wait for the user by what they are. A command that waits to be allowed looks like one that runs.
var asking = []string{"request_user_input", "request_permissions", "request_plugin_install"}

// readRollout reads lines in their order. Turns are not told apart by their ids, since the tail may hold only the end of one.
func readRollout(lines [][]byte) rollout {
	var r rollout
	turn := "" // started or ended
	open := map[string]string{}
	for _, raw := range lines {
		var e entry
		if json.Unmarshal(raw, &e) != nil {
			continue
		}
		p := e.Payload
		switch e.Type + "/" + p.Type {
		case "event_msg/task_started":
			turn = "started"
			clear(open) // what an aborted turn left
		case "event_msg/task_complete":
			turn, r.why = "ended", "the last turn ended"
		case "event_msg/turn_aborted":
			turn, r.why = "ended", "the last turn was "+p.Reason
		case "response_item/function_call", "response_item/custom_tool_call":
			open[p.CallID] = p.Name
		case "response_item/function_call_output", "response_item/custom_tool_call_output":
			delete(open, p.CallID)
		case "event_msg/token_count":
			if p.Info != nil && p.Info.Last.Input != 0 {
				r.tokens = p.Info.Last.Input
			}
		}
		if e.Type == "turn_context" && p.Model != "" {
			r.model = p.Model
		}
		if e.Type == "session_meta" && p.CLI != "" {
			r.version = p.CLI
		}
	}
	r.conclude(turn, open)
	return r
}

func (r *rollout) conclude(turn string, open map[string]string) {
	switch {
	case turn == "ended":
		r.state = padi.Waiting
	case turn == "":
		r.why = "no turn in the end of the rollout"
	case len(open) == 0:
		r.state, r.why = padi.Thinking, "a turn is under way"
	default:
		r.state, r.why = padi.ToolUse, "a call is open"
		for _, name := range open {
			if !slices.Contains(asking, name) {
				return
			}
		}
		r.state, r.asks = padi.AwaitingUser, "question"
	}
}
