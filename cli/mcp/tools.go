package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/daemon/padi"
)

// The bounds of calls. A wait is bounded by its own timeout and some grace for the line.
const (
	callBound = 30 * time.Second
	// changeBound is longer than a line to a host that comes and goes is away between two tries (fleet): who changed something and
	// is told that nobody knows whether it happened cannot just ask again. A worktree of a large repository takes its time too.
	changeBound = 2 * time.Minute
	// defaultWaitMS is under what most clients allow a tool call.
	defaultWaitMS = 60_000
	waitGrace     = 20 * time.Second
)

// action is a call whose arguments were found good.
type action struct {
	bound   time.Duration
	changes bool // something over there, so that nobody knows what became of a call without an answer
	run     func(ctx context.Context, ws padi.Workspace) (any, error)
}

type tool struct {
	name        string
	description string
	input       map[string]any
	readOnly    bool
	destructive bool
	// prepare checks the arguments; it needs no connection.
	prepare func(raw json.RawMessage) (action, error)
}

func tools() []tool {
	return append([]tool{
		createTool(), sendInputTool(), promptTool(), killTool(), screenTextTool(), screenHistoryTool(), outputSettledTool(), agentStateTool(),
	}, codeTools()...)
}

func (t *tool) describe() *sdk.Tool {
	no := false
	return &sdk.Tool{
		Name: t.name, Description: t.description, InputSchema: t.input,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: t.readOnly, DestructiveHint: &t.destructive, OpenWorldHint: &no},
	}
}

func (s *server) handler(t *tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		act, err := t.prepare(req.Params.Arguments)
		if err != nil {
			return failure(err), nil
		}
		v, err := s.perform(ctx, act)
		if err != nil {
			return failure(err), nil
		}
		return success(v)
	}
}

// perform runs an action within its bound; only its own bound gives the bound's error.
func (s *server) perform(ctx context.Context, act action) (any, error) {
	bounded, cancel := context.WithTimeout(ctx, act.bound)
	defer cancel()
	var v any
	err := s.link.use(bounded, func(ctx context.Context, conn Conn) (err error) {
		v, err = act.run(ctx, conn)
		return err
	})
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		unknown := ""
		if act.changes {
			unknown = ", so whether it took effect is not known"
		}
		return nil, fmt.Errorf("no answer from padi within %s%s: %w", act.bound, unknown, err)
	}
	return v, err
}

// unknownToolIsAResult answers a call of a tool that there is not as every other bad call, with a result that the model reads.
func unknownToolIsAResult(all []tool) sdk.Middleware {
	known := map[string]bool{}
	for _, t := range all {
		known[t.name] = true
	}
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if params, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok && method == "tools/call" && !known[params.Name] {
				return failure(fmt.Errorf("unknown tool %q", params.Name)), nil
			}
			return next(ctx, method, req)
		}
	}
}

// object makes the schema of an input.
func object(required []string, properties map[string]any) map[string]any {
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func str(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

func integer(minimum, maximum int64, description string) map[string]any {
	return map[string]any{"type": "integer", "minimum": minimum, "maximum": maximum, "description": description}
}

var errMissing = errors.New("is missing")

func missing(field string) error { return fmt.Errorf("%s: %w", field, errMissing) }
