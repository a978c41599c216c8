package mcp

import (
	"context"
	"encoding/json"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

type screenArgs struct {
	ID   padi.TerminalID `json:"id"`
	Tail *int            `json:"tail"`
}

func screenTextTool() tool {
	return tool{
		name: "screen_text",
		description: "Read a terminal as plain text: its last lines of content with tail (blank rows at the end do not count), " +
			"else everything from the top of the scrollback. Read before you answer, and before you take an agent for ready.",
		input: object([]string{"id"}, map[string]any{
			"id":   str("Full id of the terminal."),
			"tail": integer(1, kaval.ScrollbackLines+kaval.MaxRows, "How many lines from the end."),
		}),
		readOnly: true,
		prepare:  prepareScreen,
	}
}

func prepareScreen(raw json.RawMessage) (action, error) {
	var args screenArgs
	if err := decode(raw, &args); err != nil {
		return action{}, err
	}
	if err := checkID("id", args.ID); err != nil {
		return action{}, err
	}
	tail, err := checkCount("tail", args.Tail, kaval.ScrollbackLines+kaval.MaxRows)
	return action{bound: callBound, run: func(ctx context.Context, ws padi.Workspace) (any, error) {
		got, err := readScreen(ctx, ws, args.ID, tail)
		return text(got), err
	}}, err
}

// readScreen gives the last lines of content, or everything where tail is 0.
func readScreen(ctx context.Context, ws padi.Workspace, id padi.TerminalID, tail int) (string, error) {
	req := kaval.ScreenRequest{Extent: kaval.Full}
	if tail > 0 {
		req = kaval.ScreenRequest{Extent: kaval.Tail, Lines: tail, Trim: true}
	}
	screen, err := ws.Screen(ctx, id, req)
	return screen.Text, err
}

type historyArgs struct {
	ID     padi.TerminalID `json:"id"`
	Before *int64          `json:"before"`
	Max    *int            `json:"max"`
	Epoch  *int64          `json:"epoch"`
}

// historyFrame is one page, or the word that pages before and after a reflow do not fit together.
type historyFrame struct {
	Kind      string `json:"kind"` // chunk, stale
	Chunk     string `json:"chunk"`
	Lines     int    `json:"lines"`
	TopLine   int64  `json:"topLine"`
	Epoch     int64  `json:"epoch"`
	Exhausted bool   `json:"exhausted"`
}

func screenHistoryTool() tool {
	return tool{
		name: "screen_history",
		description: "Read one page of the scrollback above the screen, newest page first, with colour codes. For the next older page " +
			"give its topLine as before, and its epoch. {kind:\"stale\"} means that the terminal was reflowed in between: start " +
			"again without before. Only exhausted says that there is no more; a page may be blank.",
		input: object([]string{"id", "max"}, map[string]any{
			"id":     str("Full id of the terminal."),
			"max":    integer(1, kaval.ScrollbackLines, "The most lines to give."),
			"before": integer(0, 1<<53, "topLine of the page before."),
			"epoch":  integer(0, 1<<53, "epoch of the page before."),
		}),
		readOnly: true,
		prepare:  prepareHistory,
	}
}

func prepareHistory(raw json.RawMessage) (action, error) {
	var args historyArgs
	if err := decode(raw, &args); err != nil {
		return action{}, err
	}
	if err := checkID("id", args.ID); err != nil {
		return action{}, err
	}
	if args.Max == nil {
		return action{}, missing("max")
	}
	most, err := checkCount("max", args.Max, kaval.ScrollbackLines)
	return action{bound: callBound, run: func(ctx context.Context, ws padi.Workspace) (any, error) {
		page, err := ws.History(ctx, args.ID, kaval.HistoryRequest{Before: args.Before, Max: most, Epoch: args.Epoch})
		if err != nil {
			return nil, err
		}
		if page.Stale {
			return map[string]any{"kind": "stale"}, nil
		}
		return historyFrame{Kind: "chunk", Chunk: page.Chunk, Lines: page.Lines, TopLine: page.TopLine, Epoch: page.Epoch, Exhausted: page.Exhausted}, nil
	}}, err
}
