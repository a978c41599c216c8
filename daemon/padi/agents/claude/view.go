package claude

import (
	"regexp"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

// The lines by which a screen is known. They stand in its last lines, whatever text is above them.
var (
	question   = regexp.MustCompile(`to navigate ·.*Esc to cancel`)
	permission = regexp.MustCompile(`Esc to cancel ·? ?Tab to amend`)
	dontAsk    = regexp.MustCompile(`(?m)^[ ❯│]*\d+\. Yes, and don.t ask again`)
	anyDialog  = regexp.MustCompile(`Enter to (?:confirm|select|continue)|Esc to (?:cancel|exit|go back|close|reject)`)
	busy       = regexp.MustCompile(`esc to interrupt`)
	rule       = regexp.MustCompile(`^\s*[─━╌]{10,}`)
	fold       = regexp.MustCompile(`\[Pasted text #\d+`)
)

// NeedsScreen: an older Claude, and one that has not said anything yet, shows dialogs on its screen alone.
func (d *Detector) NeedsScreen(f agents.Facts) bool { return !f.Own }

// View reads a screen of Claude.
func (d *Detector) View(s kaval.Screen) agents.View {
	lines := strings.Split(strings.TrimRight(s.Text, "\n "), "\n")
	tail := lines[max(len(lines)-40, 0):]
	var v agents.View
	foot := strings.Join(tail[max(len(tail)-6, 0):], "\n")
	flat := strings.Join(strings.Fields(foot), " ")
	switch {
	case question.MatchString(flat):
		v.State, v.Asks, v.Dialog = padi.AwaitingUser, "question", question.FindString(flat)
	case permission.MatchString(flat):
		v.State, v.Asks, v.Dialog = padi.AwaitingUser, "permission", permission.FindString(flat)
	case dontAsk.MatchString(foot):
		v.State, v.Asks, v.Dialog = padi.AwaitingUser, "permission", strings.TrimSpace(dontAsk.FindString(foot))
	}
	readComposer(&v, lines, s)
	if !v.Composer && v.Dialog == "" {
		v.Dialog = anyDialog.FindString(flat)
	}
	if v.State == "" && busy.MatchString(flat) {
		v.State = padi.Thinking
	}
	return v
}

// readComposer finds the box between the last two rules, which begins with the prompt's glyph.
func readComposer(v *agents.View, lines []string, s kaval.Screen) {
	bottom := -1
	for i := len(lines) - 1; i >= 0; i-- {
		if !rule.MatchString(lines[i]) {
			continue
		}
		if bottom < 0 {
			bottom = i
			continue
		}
		first := strings.TrimLeft(lines[i+1], " \u00a0")
		if bottom > i+1 && strings.HasPrefix(first, "❯") && s.CursorY > i && s.CursorY < bottom {
			box := strings.Join(lines[i+1:bottom], "\n")
			v.Composer, v.Draft = true, agents.Bare(strings.Replace(box, "❯", "", 1))
			v.Folds = len(fold.FindAllString(box, -1))
			v.Empty = s.CursorY == i+1 && s.CursorX <= 2
		}
		return
	}
}
