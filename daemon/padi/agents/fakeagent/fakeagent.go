// Package fakeagent is a coding agent that does what a test tells it: a program with a composer, turns, dialogs and files, with each of the habits by which real ones lose
// a prompt or are misread. For tests alone. A test binary becomes one when [Asked]; its first argument is a [Script] as JSON. It draws the screen of Claude Code, and writes
// its files where the script says so.
//
// What it is told to do is in the prompts: "hold" works until Escape, "ask" asks for a permission, "die N" exits with N, "kill" ends by SIGKILL, "quit" exits,
// anything else is echoed.
package fakeagent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Script is how a fake agent behaves.
type Script struct {
	// Word makes it say what it does (OSC 7501).
	Word bool
	// Files is the .claude directory that it writes to, "" for none. Lies is the status that it writes there whatever it does.
	Files, Lies string
	// Paste asks for marked pastes; PasteAfter does so only after a while, in milliseconds.
	Paste      bool
	PasteAfter int
	// Burst makes Enter a line break for so many milliseconds after typed text.
	Burst int
	// Strict takes the marks of a paste only when a read begins with the one and ends with the other.
	Strict bool
	// Debounce draws only so many milliseconds after the last input; Lag handles each input so late.
	Debounce, Lag int
	// Fold shows long pastes as one word.
	Fold bool
	// Swallow ignores the first Enters.
	Swallow int
	// Deaf never submits.
	Deaf bool
	// Dialog is up at the start.
	Dialog bool
	// Hidden draws no composer for so many milliseconds.
	Hidden int
	// Clock draws the time below the composer ten times a second.
	Clock bool
	// Working begins with a turn.
	Working bool
	// Exit ends it at once with this code.
	Exit int
	// Prompts gets each prompt that was submitted, as one line of JSON; Asked is not among them.
	Prompts string
}

// Env marks a process that is to be a fake agent.
const Env = "KOLU_FAKE_AGENT"

// Asked reports whether this process is to be a fake agent.
func Asked() bool { return os.Getenv(Env) != "" }

// Main is the fake agent's program. It gives the exit code.
func Main() int {
	var s Script
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		fmt.Fprintln(os.Stderr, "fake agent:", err)
		return 99
	}
	if s.Exit != 0 {
		return s.Exit
	}
	state, err := term.MakeRaw(0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake agent:", err)
		return 99
	}
	defer term.Restore(0, state)
	a := &agent{script: s, started: time.Now(), session: sessionID}
	defer a.files("")
	defer fmt.Print("\x1b[?2004l\r\n")
	return a.run()
}

const sessionID = "11111111-2222-4333-8444-555555555555"

type agent struct {
	script   Script
	started  time.Time
	session  string
	draft    string
	folds    []string // what stands behind the folded pastes of the draft
	said     []string
	queue    []string
	dialog   string // "", "trust", "permission"
	working  bool
	pasting  bool
	pasted   string
	typedAt  time.Time
	hearings int // Enters
	answers  int // turns that ended by themselves
	code     int
	over     bool
}

func (a *agent) run() int {
	input := make(chan []byte, 64)
	go func() { // ends with the process
		for {
			buf := make([]byte, 4096)
			n, err := os.Stdin.Read(buf)
			if err != nil {
				close(input)
				return
			}
			input <- buf[:n]
		}
	}()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP, syscall.SIGTERM)
	a.working = a.script.Working
	if a.script.Dialog {
		a.dialog = "trust"
	}
	if a.script.Paste && a.script.PasteAfter == 0 {
		fmt.Print("\x1b[?2004h")
	}
	a.tell()
	a.draw()
	a.loop(input, hangup)
	return a.code
}

func (a *agent) loop(input <-chan []byte, hangup <-chan os.Signal) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	redraw := time.NewTimer(time.Hour)
	late := after(a.script.PasteAfter)
	shown := after(a.script.Hidden)
	for !a.over {
		select {
		case b, ok := <-input:
			if !ok {
				return
			}
			time.Sleep(ms(a.script.Lag))
			a.read(b)
			redraw.Reset(ms(a.script.Debounce))
		case <-redraw.C:
			a.draw()
		case <-late:
			fmt.Print("\x1b[?2004h")
		case <-shown:
			a.draw()
		case <-tick.C:
			if a.script.Clock {
				a.draw()
			}
		case <-hangup:
			return
		}
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func after(n int) <-chan time.Time {
	if n == 0 {
		return nil
	}
	return time.After(ms(n))
}

// read takes what came in one read.
func (a *agent) read(b []byte) {
	s := string(b)
	if a.script.Strict && strings.HasPrefix(s, "\x1b[200~") {
		body, rest, whole := strings.Cut(strings.TrimPrefix(s, "\x1b[200~"), "\x1b[201~")
		if whole && rest == "" {
			a.paste(body)
		}
		return // else the composer is wedged: nothing of it is ever seen
	}
	for s != "" && !a.over {
		s = a.take(s)
	}
}

// take handles the first key of what is left.
func (a *agent) take(s string) string {
	if rest, ok := strings.CutPrefix(s, "\x1b[200~"); ok {
		a.pasting = true
		return rest
	}
	if a.pasting {
		body, rest, ended := strings.Cut(s, "\x1b[201~")
		a.pasted += body
		if ended {
			a.paste(a.pasted)
			a.pasting, a.pasted = false, ""
		}
		return rest
	}
	switch s[0] {
	case '\r':
		a.enter()
	case 0x1b:
		a.escape()
	case 0x15:
		a.draft, a.folds = "", nil
	default:
		if a.dialog == "" {
			a.draft += s[:1]
			a.typedAt = time.Now()
		}
	}
	return s[1:]
}

func (a *agent) paste(body string) {
	if a.dialog != "" {
		return
	}
	if lines := strings.Count(body, "\n"); a.script.Fold && (lines >= 3 || len(body) > 800) {
		a.folds = append(a.folds, body)
		body = fmt.Sprintf("[Pasted text #%d +%d lines]", len(a.folds), lines)
	}
	a.draft += body
}

func (a *agent) enter() {
	a.hearings++
	switch {
	case a.dialog != "":
		a.answer()
	case a.hearings <= a.script.Swallow, a.script.Deaf, a.draft == "":
	case a.script.Burst > 0 && time.Since(a.typedAt) < ms(a.script.Burst):
		a.draft += "\n"
	default:
		text := a.draft
		for i, body := range a.folds {
			lines := strings.Count(body, "\n")
			text = strings.Replace(text, fmt.Sprintf("[Pasted text #%d +%d lines]", i+1, lines), body, 1)
		}
		a.draft, a.folds = "", nil
		if a.working {
			a.queue = append(a.queue, text)
			return
		}
		a.submit(text)
	}
}

func (a *agent) answer() {
	a.said = append(a.said, "answered "+a.dialog)
	a.dialog = ""
	a.working = false
	a.tell()
}

func (a *agent) escape() {
	if a.dialog != "" {
		a.answer()
		return
	}
	a.working = false
	a.entry("user", `[{"type":"text","text":"[Request interrupted by user]"}]`, "")
	a.tell()
	if len(a.queue) > 0 {
		next := a.queue[0]
		a.queue = a.queue[1:]
		a.submit(next)
	}
}

// submit is a prompt that was taken.
func (a *agent) submit(text string) {
	a.log(text)
	a.said = append(a.said, "❯ "+text)
	a.working = true
	quoted, _ := json.Marshal(text)
	a.entry("user", string(quoted), "")
	a.tell()
	var n int
	switch {
	case text == "hold":
		return
	case text == "ask":
		a.dialog = "permission"
	case text == "kill":
		a.draw()
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case text == "quit":
		a.over = true
	case scan(text, "die %d", &n):
		a.code, a.over = n, true
	default:
		a.said = append(a.said, "● heard "+text)
		a.working = false
		a.answers++
		a.entry("assistant", `[{"type":"text","text":"heard"}]`, "end_turn")
	}
	a.tell()
}

func scan(text, format string, n *int) bool {
	k, err := fmt.Sscanf(text, format, n)
	return k == 1 && err == nil
}

func (a *agent) log(text string) {
	if a.script.Prompts == "" {
		return
	}
	line, _ := json.Marshal(text)
	f, err := os.OpenFile(a.script.Prompts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	f.Write(append(line, '\n'))
}
