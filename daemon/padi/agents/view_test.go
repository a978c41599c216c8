package agents_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/vt"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
	"kolu/daemon/padi/agents/claude"
	"kolu/daemon/padi/agents/codex"
	"kolu/daemon/padi/agents/opencode"
)

// recording is what a real program wrote, with the places at which its state was known.
type recording struct {
	Agent      string
	Cols, Rows int
	Marks      []struct {
		Offset int
		Label  string
		Resize []int
	}
	raw []byte
}

func recordings(t *testing.T) map[string]recording {
	t.Helper()
	files, err := filepath.Glob("../../kaval/vt/testdata/recordings/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	all := map[string]recording{}
	for _, f := range files {
		var r recording
		b, err := os.ReadFile(f)
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err == nil {
			r.raw, err = os.ReadFile(strings.TrimSuffix(f, ".json") + ".raw")
		}
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".json")] = r
	}
	return all
}

// TestViews reads the screens of real programs at each place where somebody noted their state.
func TestViews(t *testing.T) {
	none := func(string) string { return "" }
	detectors := map[string]agents.Detector{"claude": claude.New("/x", none), "codex": codex.New("/x", none), "opencode": opencode.New("/x", none)}
	for name, r := range recordings(t) {
		if name == "opencode-turn" { // it has no output after its start
			continue
		}
		t.Run(name, func(t *testing.T) {
			agent, _, _ := strings.Cut(name, "-")
			term := vt.New(vt.Options{Cols: r.Cols, Rows: r.Rows})
			at := 0
			for _, m := range r.Marks {
				term.Write(r.raw[at:m.Offset])
				at = m.Offset
				if m.Resize != nil {
					term.Resize(m.Resize[0], m.Resize[1])
					continue
				}
				s := term.Snapshot()
				v := detectors[agent].View(kaval.Screen{Text: term.Text(vt.Extent{Kind: vt.ExtentViewport}), CursorX: s.CursorX, CursorY: s.CursorY})
				checkView(t, m.Label, v)
			}
		})
	}
}

func checkView(t *testing.T, label string, v agents.View) {
	t.Helper()
	typed, isTyped := strings.CutPrefix(label, "typed: ")
	var ok bool
	switch {
	case isTyped:
		want := agents.Bare(typed)
		ok = v.Composer && !v.Empty && v.State == "" && (v.Folds == 1 || strings.HasPrefix(v.Draft, want[:min(len(want), 20)]))
	case strings.Contains(label, "permission"):
		ok = v.State == padi.AwaitingUser && v.Asks == "permission" && !v.Composer && v.Dialog != ""
	case strings.Contains(label, "awaiting answer"):
		ok = v.State == padi.AwaitingUser && v.Asks == "question" && !v.Composer && v.Dialog != ""
	case strings.HasSuffix(label, "dialog"), label == "sign-in screen": // of the program's own, which are nobody's question
		ok = v.State == "" && !v.Composer && v.Dialog != ""
	case label == "folded paste":
		ok = v.Composer && v.Folds == 1
	case label == "exited":
		ok = v.State == "" && v.Dialog == ""
	case label == "working", label == "escape once":
		ok = v.Composer && v.Empty && v.State != padi.AwaitingUser
	default:
		ok = v.Composer && v.Empty && v.Dialog == "" && v.State == ""
	}
	if !ok {
		t.Errorf("%s: %+v", label, v)
	}
}

// TestLookAlikes has text that looks like a dialog where none is.
func TestLookAlikes(t *testing.T) {
	d := claude.New("/x", func(string) string { return "" })
	rule := strings.Repeat("─", 60)
	box := "\n" + rule + "\n❯ \n" + rule + "\n  ? for shortcuts"
	for name, text := range map[string]string{
		"prose":                  "press Esc to cancel · Tab to amend, as it says" + strings.Repeat("\n.", 8) + box,
		"a diff":                 `+ to navigate · Esc to cancel` + strings.Repeat("\n.", 8) + box,
		"an option in a list":    "1. Yes, and don't ask again for this" + strings.Repeat("\n.", 8) + box,
		"scrolled above the end": "Esc to cancel · Tab to amend" + strings.Repeat("\n", 12) + box,
		"the model picker":       rule + "\n Select model\n ❯ 1. Default\n   2. Other\n\n Enter to confirm · Esc to exit",
		"the list of forks":      rule + "\n ↑/↓ to select\n one\n Enter to select · Esc to close",
	} {
		y := strings.Count(text, "\n") - 2
		if v := d.View(kaval.Screen{Text: text, CursorX: 2, CursorY: y}); v.State != "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	real := rule + "\n Bash command\n 1. Yes\n 2. Yes, and don't ask again for: touch\n\n Esc to cancel · Tab to amend"
	if v := d.View(kaval.Screen{Text: real}); v.Asks != "permission" {
		t.Errorf("a real one: %+v", v)
	}
}
