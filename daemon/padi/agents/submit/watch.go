package submit

import (
	"context"
	"strings"
	"time"

	"kolu/daemon/padi"
)

// quietScreen tells when something has not changed for a while.
type quietScreen struct {
	text  string
	since time.Time
}

// steady reports whether text has been the same for long enough.
func (q *quietScreen) steady(text string) bool {
	if q.since.IsZero() || q.text != text {
		q.text, q.since = text, time.Now()
	}
	return time.Since(q.since) >= steady
}

// shown is what must stay the same: the draft, or the whole screen where no composer is known.
func (p *prompt) shown() string {
	if v := p.last.View; v.Composer {
		return v.Draft
	}
	return p.last.Screen.Text
}

// settle waits until the composer shows the text and stays as it is.
func (p *prompt) settle(ctx context.Context) error {
	began := time.Now()
	var q quietScreen
	for {
		if err := p.look(ctx); err != nil {
			return err
		}
		if why, asking := p.last.asking(); asking && !p.last.View.Composer {
			return p.end(padi.Staged, "%s came up before Enter; the text was typed", why)
		}
		still := q.steady(p.shown())
		if still && p.holdsMore() {
			return p.end(padi.Staged, "the composer holds more than the text: %s", short(p.last.View.Draft))
		}
		if still && (p.holds() || !known(p.last.Kind)) {
			p.saw("the text was in the composer after %d ms", time.Since(began).Milliseconds())
			return nil
		}
		if time.Since(began) >= min(p.limit, settleLimit) {
			return p.unseen()
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// unseen is for a text that was never seen in the composer. A marked paste is taken as one, so Enter after it is safe.
func (p *prompt) unseen() error {
	if p.receipt.Bracketed {
		p.saw("the text was not seen in the composer")
		return nil
	}
	return p.end(padi.Staged, "the text was typed and did not show in the composer")
}

// tail is how much of the end of a text must be seen, in characters without blanks.
const tail = 24

// holds reports whether the composer shows the text: its end, or one more folded paste than before.
func (p *prompt) holds() bool {
	v := p.last.View
	if !v.Composer {
		return false
	}
	end := []rune(p.bare)
	end = end[max(len(end)-tail, 0):]
	return v.Folds > p.before.View.Folds || !v.Empty && strings.Contains(v.Draft, string(end))
}

// holdsMore reports whether the composer shows another text in front of this one.
func (p *prompt) holdsMore() bool {
	v := p.last.View
	return v.Composer && v.Folds == 0 && v.Draft != p.bare && strings.HasSuffix(v.Draft, p.bare)
}

// submit presses Enter, and once more where the text stays, until the composer is seen without it.
func (p *prompt) submit(ctx context.Context) error {
	began, pressed := time.Now(), time.Now() // before the write: the answer may be faster than its return
	busy, err := p.press(ctx)
	if err != nil {
		return err
	}
	wordAt := p.last.WordAt
	seen := p.holds()
	for {
		if err := pause(ctx); err != nil {
			return err
		}
		if err := p.look(ctx); err != nil {
			return err
		}
		holds := p.holds()
		moved := p.moved(wordAt, busy)
		switch {
		case p.last.View.Composer && !holds && seen, moved && !holds:
			return p.took(busy, moved, began)
		case time.Since(began) >= min(p.limit, DefaultTimeout) && holds:
			return p.end(padi.Staged, "the text is still in the composer after %d Enter", p.receipt.Enters)
		case time.Since(began) >= min(p.limit, settleLimit) && !holds:
			return p.end(padi.Staged, "the text was typed, and nothing shows that it was taken")
		}
		if holds && !p.begun(busy) && time.Since(pressed) >= again<<(p.receipt.Enters-1) {
			pressed = time.Now()
			if busy, err = p.press(ctx); err != nil {
				return err
			}
		}
	}
}

// press presses Enter, by itself; or, in a Codex that works, Tab, since Enter would cut the answer short. It reports whether a turn was under way.
func (p *prompt) press(ctx context.Context) (busy bool, err error) {
	key := "\r"
	if busy = p.last.working(); busy {
		p.saw("a turn was under way, by its %s", p.last.witness())
	}
	if busy && p.last.Kind == "codex" {
		key = "\t"
	}
	p.receipt.Enters++
	return busy, p.t.Write(ctx, []byte(key))
}

// moved reports whether the agent began to work after Enter, by its state or by its own word since then.
func (p *prompt) moved(wordAt int64, busy bool) bool {
	if busy {
		return false
	}
	return p.begun(busy) || p.last.WordAt > wordAt
}

// begun reports whether a turn is under way that was not when Enter was pressed, or a dialog is up: Enter is for neither of them. The screen may show the
// text for a while yet.
func (p *prompt) begun(busy bool) bool {
	_, asking := p.last.asking()
	return asking || !busy && p.last.working()
}

// took writes the receipt of a prompt that left the composer. What the agent says after the first Enter is its answer.
func (p *prompt) took(busy, moved bool, began time.Time) error {
	after := time.Since(began)
	if moved {
		p.saw("the agent began to work %d ms after Enter", after.Milliseconds())
	}
	if p.last.View.Composer {
		p.saw("the composer was empty %d ms after Enter", after.Milliseconds())
	}
	if busy {
		return p.end(padi.Busy, "a turn is under way; the text is queued behind it")
	}
	p.t.Taken(began)
	p.receipt.Result = padi.Taken
	return errStop
}
