package codex

import (
	"regexp"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

var (
	permission = regexp.MustCompile(`Press enter to confirm or esc to cancel`)
	question   = regexp.MustCompile(`enter to submit (?:answer|all)|tab to add notes|esc to interrupt.*question`)
	anyDialog  = regexp.MustCompile(`(?i)press enter to (?:continue|confirm|select)|esc to (?:go back|close|cancel|dismiss)`)
	busy       = regexp.MustCompile(`esc to interrupt`)
	prompt     = regexp.MustCompile(`^\s?[›»]\s`)
	fold       = regexp.MustCompile(`\[Pasted Content \d+ chars\]`)
	option     = regexp.MustCompile(`^\s?›\s*\d+\.\s`)
)

// NeedsScreen: Codex says everything itself; one that says nothing is too old for that.
func (d *Detector) NeedsScreen(agents.Facts) bool { return true }

// View reads a screen of Codex.
func (d *Detector) View(s kaval.Screen) agents.View {
	lines := strings.Split(strings.TrimRight(s.Text, "\n "), "\n")
	tail := lines[max(len(lines)-12, 0):]
	flat := strings.Join(strings.Fields(strings.Join(tail, " ")), " ")
	var v agents.View
	switch {
	case permission.MatchString(flat):
		v.State, v.Asks, v.Dialog = padi.AwaitingUser, "permission", permission.FindString(flat)
	case question.MatchString(flat):
		v.State, v.Asks, v.Dialog = padi.AwaitingUser, "question", question.FindString(flat)
	case busy.MatchString(flat):
		v.State = padi.Thinking
	}
	if v.Dialog == "" {
		readComposer(&v, lines, s)
	}
	if !v.Composer && v.Dialog == "" {
		v.Dialog = anyDialog.FindString(flat)
	}
	return v
}

// readComposer finds the last line that begins with the prompt's glyph. What is below it up to a blank line belongs to it; below that is the footer.
func readComposer(v *agents.View, lines []string, s kaval.Screen) {
	for i := len(lines) - 1; i >= 0; i-- {
		if !prompt.MatchString(lines[i] + " ") {
			continue
		}
		if option.MatchString(lines[i]) {
			return
		}
		end := i + 1
		for end < len(lines) && (end <= s.CursorY || strings.HasPrefix(lines[end], "  ") && strings.TrimSpace(lines[end]) != "") {
			end++
		}
		box := strings.Join(lines[i:min(end, len(lines))], "\n")
		v.Composer = s.CursorY >= i
		v.Draft = agents.Bare(strings.TrimLeft(box, " ›»"))
		v.Folds = len(fold.FindAllString(box, -1))
		v.Empty = s.CursorY == i && s.CursorX <= 2
		return
	}
}
