package opencode

import (
	"regexp"
	"strings"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/agents"
)

var (
	permission = regexp.MustCompile(`△ Permission required`)
	question   = regexp.MustCompile(`enter (?:submit|confirm|toggle)\s+esc dismiss`)
	anyDialog  = regexp.MustCompile(`esc (?:dismiss|close|cancel)`)
	busy       = regexp.MustCompile(`esc (?:again to )?interrupt`)
	box        = regexp.MustCompile(`^\s*┃`)
	popup      = regexp.MustCompile(`┃.*┃\s*$`) // what may be completed, above the composer
	fold       = regexp.MustCompile(`\[Pasted ~\d+ lines?\]`)
	mini       = regexp.MustCompile(`^\s*(?:BUILD|PLAN)\b.*ctrl\+p`)
	info       = regexp.MustCompile(`^\s*(?:Build|Plan|[A-Z][\w-]*)\s+·\s+\S`)
)

// NeedsScreen: a permission that is asked looks in the database like a tool that runs.
func (d *Detector) NeedsScreen(f agents.Facts) bool { return f.State != padi.Waiting }

// View reads a screen of opencode.
func (d *Detector) View(s kaval.Screen) agents.View {
	lines := strings.Split(strings.TrimRight(s.Text, "\n "), "\n")
	tail := lines[max(len(lines)-24, 0):]
	foot := strings.Join(tail[max(len(tail)-8, 0):], "\n")
	var v agents.View
	switch {
	case permission.MatchString(strings.Join(tail, "\n")):
		v.State, v.Asks, v.Dialog = padi.AwaitingUser, "permission", "Permission required"
		return v
	case question.MatchString(foot):
		v.State, v.Asks, v.Dialog = padi.AwaitingUser, "question", question.FindString(foot)
		return v
	case busy.MatchString(foot):
		v.State = padi.Thinking
	}
	readComposer(&v, lines, s)
	if !v.Composer {
		v.Dialog = anyDialog.FindString(strings.Join(lines, "\n"))
	}
	return v
}

// readComposer finds the last block with a bar on its left; its last line of content names the mode and the model.
func readComposer(v *agents.View, lines []string, s kaval.Screen) {
	end := len(lines) - 1
	for end >= 0 && !box.MatchString(lines[end]) {
		end--
	}
	start := end
	for start > 0 && box.MatchString(lines[start-1]) && !popup.MatchString(lines[start-1]) {
		start--
	}
	if end < 0 || s.CursorY < start || s.CursorY > end {
		readMini(v, lines, s)
		return
	}
	var draft []string
	for i := start; i <= end; i++ {
		text := strings.TrimSpace(box.ReplaceAllString(lines[i], ""))
		if i > s.CursorY && info.MatchString(text) {
			v.Composer = true
			break
		}
		draft = append(draft, text)
	}
	all := strings.Join(draft, "\n")
	v.Draft, v.Folds = agents.Bare(all), len(fold.FindAllString(all, -1))
	indent := len([]rune(lines[s.CursorY])) - len([]rune(box.ReplaceAllString(lines[s.CursorY], "")))
	v.Empty = s.CursorX <= indent+2 && (v.Draft == "" || strings.HasPrefix(v.Draft, "Askanything"))
}

// readMini finds the composer of --mini: what is around the cursor, above the line that names the mode.
func readMini(v *agents.View, lines []string, s kaval.Screen) {
	start, end := s.CursorY, s.CursorY
	for end < len(lines) && !mini.MatchString(lines[end]) {
		end++
	}
	if end >= len(lines) || end-s.CursorY > 20 {
		return
	}
	for start > 0 && strings.TrimSpace(lines[start-1]) != "" {
		start--
	}
	box := strings.Join(lines[start:end], "\n")
	v.Composer, v.Draft, v.Folds = true, agents.Bare(box), len(fold.FindAllString(box, -1))
	v.Empty = s.CursorX == 0 && s.CursorY == start
}
