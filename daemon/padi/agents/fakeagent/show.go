package fakeagent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"
)

// draw draws the whole screen.
func (a *agent) draw() {
	cols, rows, err := term.GetSize(0)
	if err != nil {
		cols, rows = 80, 24
	}
	var above []string
	for _, s := range a.said {
		above = append(above, strings.Split(s, "\n")...)
	}
	box := a.box(cols)
	above = above[max(len(above)-(rows-len(box)-1), 0):]
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[H\x1b[2J")
	for _, l := range append(above, box...) {
		b.WriteString(clip(l, cols) + "\r\n")
	}
	a.cursor(&b, len(above), cols)
	b.WriteString("\x1b[?2026l")
	os.Stdout.WriteString(b.String())
}

func clip(s string, cols int) string {
	if r := []rune(s); len(r) > cols {
		return string(r[:cols])
	}
	return s
}

// box is what is below the conversation.
func (a *agent) box(cols int) []string {
	rule := strings.Repeat("─", cols)
	switch {
	case time.Since(a.started) < ms(a.script.Hidden):
		return nil
	case a.dialog == "trust":
		return []string{rule, " Accessing workspace", " ❯ 1. No, exit", "   2. Yes, I trust this folder", "", " Enter to confirm · Esc to cancel"}
	case a.dialog == "permission":
		return []string{rule, " Bash command", " Do you want to proceed?", " ❯ 1. Yes", "   2. No", "", " Esc to cancel · Tab to amend"}
	}
	foot := "  ? for shortcuts"
	if a.working {
		foot = "  esc to interrupt"
	}
	if a.script.Clock {
		foot += time.Now().Format(" · 15:04:05.000")
	}
	return append(append([]string{rule}, a.lines(cols)...), rule, foot)
}

// lines are the draft as it is wrapped.
func (a *agent) lines(cols int) []string {
	var out []string
	for _, l := range strings.Split(a.draft, "\n") {
		r := []rune(l)
		for len(r) > cols-4 {
			out, r = append(out, "  "+string(r[:cols-4])), r[cols-4:]
		}
		out = append(out, "  "+string(r))
	}
	const most = 8
	out = out[max(len(out)-most, 0):]
	out[0] = "❯ " + strings.TrimPrefix(out[0], "  ")
	return out
}

func (a *agent) cursor(b *strings.Builder, above, cols int) {
	if a.dialog != "" || time.Since(a.started) < ms(a.script.Hidden) {
		return
	}
	lines := a.lines(cols)
	last := len([]rune(lines[len(lines)-1]))
	fmt.Fprintf(b, "\x1b[%d;%dH", above+1+len(lines), last+1)
}

// tell says and writes what it does.
func (a *agent) tell() {
	state, kind := "idle", ""
	switch {
	case a.dialog != "":
		state, kind = "blocked", ":kind=permission"
	case a.working:
		state = "working"
	}
	if state == "idle" && a.answers > 0 {
		state = "done"
	}
	if a.script.Word && a.dialog != "trust" {
		fmt.Printf("\x1b]7501;state=%s:app=claude-code%s\x1b\\", state, kind)
	}
	a.files(map[string]string{"idle": "idle", "done": "idle", "working": "busy", "blocked": "waiting"}[state])
}

// files writes the file of this process, or removes it.
func (a *agent) files(status string) {
	if a.script.Files == "" {
		return
	}
	dir := filepath.Join(a.script.Files, "sessions")
	path := filepath.Join(dir, fmt.Sprintf("%d.json", os.Getpid()))
	if status == "" {
		os.Remove(path)
		return
	}
	if a.script.Lies != "" {
		status = a.script.Lies
	}
	wd, _ := os.Getwd()
	fields := map[string]any{"pid": os.Getpid(), "sessionId": a.session, "cwd": wd, "startedAt": a.started.UnixMilli(),
		"version": "0.0.1", "statusUpdatedAt": time.Now().UnixMilli()}
	if status != "silent" {
		fields["status"] = status
	}
	if status == "waiting" {
		fields["waitingFor"] = "permission prompt"
	}
	b, _ := json.Marshal(fields)
	os.MkdirAll(dir, 0o700)
	os.WriteFile(path, b, 0o600)
}

// entry appends to the transcript.
func (a *agent) entry(kind, content, stop string) {
	if a.script.Files == "" {
		return
	}
	wd, _ := os.Getwd()
	dir := filepath.Join(a.script.Files, "projects", strings.NewReplacer("/", "-", ".", "-").Replace(wd))
	os.MkdirAll(dir, 0o700)
	f, err := os.OpenFile(filepath.Join(dir, a.session+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, `{"type":%q,"timestamp":%q,"message":{"role":%q,"content":%s,"stop_reason":%q,"model":"fake"}}`+"\n",
		kind, time.Now().UTC().Format(time.RFC3339Nano), kind, content, stop)
}
