package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress tells a user how far something that takes a while got: on a terminal with a bar that is drawn over itself, elsewhere with
// a line for each stage and at most one a second in between. Done counts what the other side has taken, as far as the caller knows
// it. The zero Progress is of no use; make one with [NewProgress]. It may be used concurrently.
type Progress struct {
	w     io.Writer
	name  string
	width int // of the terminal; 0 elsewhere
	now   func() time.Time

	mu      sync.Mutex
	stage   string
	begun   time.Time // of the stage
	last    time.Time // that something was printed
	drawn   bool      // a bar stands on the line
	waiting *time.Timer
	ended   bool
}

const (
	drawEvery = 100 * time.Millisecond
	lineEvery = time.Second
	// waitShown is when a terminal hears that something is under way that has not yet said anything.
	waitShown = 80 * time.Millisecond
	barWidth  = 24
)

// NewProgress makes the progress of what name stands for, a host for example, on the stderr of an Env.
func NewProgress(env *Env, name string) *Progress {
	p := &Progress{w: env.Stderr, name: Clean(name), now: time.Now}
	if IsTTY(env.Stderr) {
		p.width = terminalWidth(env.Stderr)
	}
	return p
}

func terminalWidth(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 80
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		return 80
	}
	return width
}

// Wait says on a terminal, after a moment, that something is under way; the first step or Clear takes its place. Elsewhere it
// says nothing: what is quick should not fill logs.
func (p *Progress) Wait(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width == 0 || p.ended || p.stage != "" {
		return
	}
	p.stopWaiting()
	p.waiting = time.AfterFunc(waitShown, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waiting != nil && !p.ended && p.stage == "" {
			p.draw("— " + p.name + ": " + Clean(what) + " …")
		}
	})
}

func (p *Progress) stopWaiting() {
	if p.waiting != nil {
		p.waiting.Stop()
		p.waiting = nil
	}
}

// Step tells where a stage is. total is 0 where it is not known.
func (p *Progress) Step(stage string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopWaiting()
	now := p.now()
	fresh := stage != p.stage
	if fresh {
		p.stage, p.begun = stage, now
	}
	every := lineEvery
	if p.bar() {
		every = drawEvery
	}
	if !fresh && now.Sub(p.last) < every {
		return
	}
	p.last = now
	switch {
	case p.bar():
		p.draw(p.barLine(done, total, now))
	case fresh && total > 0:
		fmt.Fprintf(p.w, "— %s: %s (%s)\n", p.name, Clean(stage), megabytes(total))
	case fresh:
		fmt.Fprintf(p.w, "— %s: %s\n", p.name, Clean(stage))
	case total > 0:
		fmt.Fprintf(p.w, "— %s: %s %s of %s%s\n", p.name, Clean(stage), megabytes(done), megabytes(total), p.pace(done, total, now))
	}
}

// Notice passes on a line that another program has for the user: an address to open, a key to touch.
func (p *Progress) Notice(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopWaiting()
	p.erase()
	fmt.Fprintf(p.w, "— %s: %s\n", p.name, Clean(line))
}

func (p *Progress) erase() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.drawn = false
}

func (p *Progress) bar() bool { return p.width > 0 && !p.ended }

// barLine is one look of the bar.
func (p *Progress) barLine(done, total int64, now time.Time) string {
	line := "— " + p.name + ": " + Clean(p.stage)
	if total <= 0 {
		return line + " …"
	}
	full := int(min(max(done, 0), total) * barWidth / total)
	return fmt.Sprintf("%s [%s%s] %3d%% %s of %s%s", line, strings.Repeat("#", full), strings.Repeat(" ", barWidth-full),
		min(max(done, 0), total)*100/total, megabytes(done), megabytes(total), p.pace(done, total, now))
}

// pace is how quick it goes and how long it will take, once that can be said.
func (p *Progress) pace(done, total int64, now time.Time) string {
	took := now.Sub(p.begun)
	if took < 200*time.Millisecond || done <= 0 {
		return ""
	}
	rate := float64(done) / took.Seconds()
	left := time.Duration(float64(max(total-done, 0)) / rate * float64(time.Second))
	return fmt.Sprintf(", %s/s, %s left", megabytes(int64(rate)), left.Round(time.Second))
}

// draw puts a line where the last one stood.
func (p *Progress) draw(line string) {
	if r := []rune(line); len(r) > p.width-1 {
		line = string(r[:p.width-1])
	}
	p.drawn = true
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
}

// Clear takes the bar away. From here on there are lines only, so that nothing is drawn over what the command prints itself.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopWaiting()
	p.erase()
	p.ended = true
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
