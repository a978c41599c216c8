package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"strings"

	"kolu/cli/drive"
	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/internal/keys"
)

type createArgs struct {
	Placement *placementArgs   `json:"placement"`
	ParentID  *padi.TerminalID `json:"parentId"`
	CWD       *string          `json:"cwd"`
	Intent    *string          `json:"intent"`
	Repo      *string          `json:"repo"`
	Worktree  *string          `json:"worktree"`
	Run       []string         `json:"run"`
}

type placementArgs struct {
	Kind     string           `json:"kind"`
	ParentID *padi.TerminalID `json:"parentId"`
}

const bothPlacements = `use {"kind":"toplevel"} for a tile of its own or {"kind":"child-of","parentId":"…"} for a split`

func createTool() tool {
	return tool{
		name: "lifecycle_create",
		description: "Make a terminal with a shell: a tile of its own, or a split beside another terminal. Label it with intent so " +
			"that people see whose it is and you find it again. The agent in it is started by typing its command line.",
		input: object(nil, map[string]any{
			"placement": map[string]any{
				"description": "Where it belongs: " + bothPlacements + ". Left out: a tile of its own.",
				"oneOf": []any{
					object([]string{"kind"}, map[string]any{"kind": map[string]any{"const": "toplevel"}}),
					object([]string{"kind", "parentId"}, map[string]any{"kind": map[string]any{"const": "child-of"}, "parentId": str("the terminal it is a split of")}),
				},
			},
			"parentId": str("Older spelling of placement child-of."),
			"cwd":      str("Absolute directory on the host. Left out: the home directory."),
			"intent":   str("The label people see; its first line is the tag."),
			"repo":     str("Absolute path of a checkout on the host, together with worktree."),
			"worktree": str("Branch name for a fresh worktree of repo, cut from the checkout as it stands; the terminal starts there."),
			"run":      map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "Command and arguments, typed at the shell's first prompt."},
		}),
		prepare: prepareCreate,
	}
}

func prepareCreate(raw json.RawMessage) (action, error) {
	var args createArgs
	if err := decode(raw, &args); err != nil {
		return action{}, err
	}
	req, err := args.request()
	return action{bound: changeBound, changes: true, run: func(ctx context.Context, ws padi.Workspace) (any, error) {
		return ws.Create(ctx, req)
	}}, err
}

func (a createArgs) request() (padi.CreateRequest, error) {
	place, err := a.place()
	if err != nil {
		return padi.CreateRequest{}, err
	}
	for field, value := range a.texts() {
		if value != nil && strings.TrimSpace(*value) == "" {
			return padi.CreateRequest{}, refuse("blank-field", map[string]any{"field": field}, "%s is blank: leave it out or give a value", field)
		}
	}
	if err := a.checkDirs(); err != nil {
		return padi.CreateRequest{}, err
	}
	return padi.CreateRequest{
		Placement: place, CWD: deref(a.CWD), Intent: deref(a.Intent), Repo: deref(a.Repo), Worktree: deref(a.Worktree), Run: a.Run,
	}, nil
}

func (a createArgs) texts() map[string]*string {
	return map[string]*string{"cwd": a.CWD, "intent": a.Intent, "repo": a.Repo, "worktree": a.Worktree}
}

func (a createArgs) checkDirs() error {
	switch {
	case a.CWD != nil && a.Worktree != nil:
		return refuse("cwd-and-worktree", nil, "cwd and worktree exclude each other: the terminal starts in the worktree")
	case a.Repo != nil && a.Worktree == nil:
		return refuse("repo-without-worktree", nil, "repo is only for worktree: name a branch with worktree, or use cwd")
	case a.Worktree != nil && a.Repo == nil:
		return refuse("worktree-needs-repo", nil, "worktree needs repo: the absolute path of the checkout to cut it from")
	case a.Repo != nil && !path.IsAbs(*a.Repo):
		return refuse("relative-repo", map[string]any{"repo": *a.Repo}, "repo %q is relative: give an absolute path on the host", *a.Repo)
	case a.CWD != nil && !path.IsAbs(*a.CWD):
		return refuse("relative-cwd", map[string]any{"cwd": *a.CWD}, "cwd %q is relative: give an absolute path on the host", *a.CWD)
	}
	return nil
}

func (a createArgs) place() (padi.Placement, error) {
	if a.ParentID != nil {
		if err := checkParent("parentId", *a.ParentID); err != nil {
			return padi.Placement{}, err
		}
	}
	if a.Placement == nil {
		if a.ParentID != nil {
			return padi.Placement{Parent: *a.ParentID}, nil
		}
		return padi.Placement{Toplevel: true}, nil
	}
	place, err := a.Placement.place()
	if err == nil && a.ParentID != nil && *a.ParentID != place.Parent {
		return padi.Placement{}, refuse("placement-and-parent", nil, "placement and parentId say different things: keep placement")
	}
	return place, err
}

func (p placementArgs) place() (padi.Placement, error) {
	switch p.Kind {
	case "toplevel":
		if p.ParentID != nil {
			return padi.Placement{}, errors.New(`placement: a toplevel has no parentId; ` + bothPlacements)
		}
		return padi.Placement{Toplevel: true}, nil
	case "child-of":
		if p.ParentID == nil {
			return padi.Placement{}, missing("placement.parentId")
		}
		return padi.Placement{Parent: *p.ParentID}, checkParent("placement.parentId", *p.ParentID)
	}
	return padi.Placement{}, errors.New("placement: " + bothPlacements)
}

func checkParent(field string, id padi.TerminalID) error {
	if strings.TrimSpace(string(id)) == "" {
		return refuse("blank-field", map[string]any{"field": field}, "%s is blank: leave it out or give a value", field)
	}
	return checkID(field, id)
}

type sendArgs struct {
	ID   padi.TerminalID `json:"id"`
	Text *string         `json:"text"`
	Key  *string         `json:"key"`
}

func sendInputTool() tool {
	return tool{
		name: "lifecycle_sendInput",
		description: "Write text, or press one key, in a terminal: never both in one call. Text is written as it is, without an Enter; " +
			"several lines go as one paste. To submit: text, then wait_outputSettled, then {key:\"Enter\"} as its own call.",
		input: object([]string{"id"}, map[string]any{
			"id":   str("Full id of the terminal."),
			"text": str("What to type. No Enter is added."),
			"key":  str("One key: " + keys.Help() + "."),
		}),
		prepare: prepareSend,
	}
}

func prepareSend(raw json.RawMessage) (action, error) {
	var args sendArgs
	if err := decode(raw, &args); err != nil {
		return action{}, err
	}
	if err := checkID("id", args.ID); err != nil {
		return action{}, err
	}
	data, sent, err := args.payload()
	return action{bound: changeBound, changes: true, run: func(ctx context.Context, ws padi.Workspace) (any, error) {
		if err := ws.Write(ctx, args.ID, kaval.Input{Data: data}); err != nil {
			return nil, err
		}
		return map[string]any{"sent": sent}, nil
	}}, err
}

func (a sendArgs) payload() (data []byte, sent map[string]any, err error) {
	switch {
	case a.Text != nil && a.Key != nil:
		return nil, nil, refuse("text-and-key", nil, "text and key cannot go in one call: a key in the same breath as text is lost in the "+
			"program's paste handling. Send the text, wait_outputSettled {idleMs: 300}, then send {key: %q} as its own call", *a.Key)
	case a.Key != nil:
		seq, err := keys.Encode(*a.Key)
		if err != nil {
			return nil, nil, &refusal{kind: "key-refused", facts: map[string]any{"key": *a.Key}, detail: err.Error(), err: err}
		}
		return []byte(seq), map[string]any{"key": *a.Key}, nil
	case a.Text == nil:
		return nil, nil, refuse("no-input", nil, "nothing to send: give text, or one key")
	case *a.Text == "":
		return nil, nil, refuse("text-refused", nil, "text is empty: nothing would be typed")
	}
	data = []byte(*a.Text)
	if strings.Contains(*a.Text, "\n") {
		data = drive.Paste(data)
	}
	return data, map[string]any{"textBytes": len(*a.Text)}, nil
}

func killTool() tool {
	return tool{
		name: "lifecycle_kill",
		description: "End a terminal and everything that runs in it. Kill exactly those that you made, when you are done with " +
			"them.",
		input:       object([]string{"id"}, map[string]any{"id": str("Full id of the terminal.")}),
		destructive: true,
		prepare:     prepareKill,
	}
}

func prepareKill(raw json.RawMessage) (action, error) {
	var args struct {
		ID padi.TerminalID `json:"id"`
	}
	if err := decode(raw, &args); err != nil {
		return action{}, err
	}
	return action{bound: changeBound, changes: true, run: func(ctx context.Context, ws padi.Workspace) (any, error) {
		rec, err := ws.Kill(ctx, args.ID)
		if err != nil {
			return nil, err
		}
		return map[string]any{"id": rec.ID, "pid": rec.PID}, nil
	}}, checkID("id", args.ID)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
