package submit

import (
	"context"
	"errors"
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
		v := p.last.View
		what := v.Draft
		if !v.Composer {
			what = p.last.Screen.Text
		}
		if q.steady(what) && (p.holds() || !known(p.last.Kind)) {
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

// submit presses Enter, and once more where the text stays, until the composer is seen without it.
func (p *prompt) submit(ctx context.Context) error {
	busy, err := p.press(ctx)
	if err != nil {
		return err
	}
	began, pressed := time.Now(), time.Now()
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
			return p.took(busy, moved, time.Since(pressed))
		case time.Since(began) >= p.limit && holds, p.receipt.Enters == enters && time.Since(pressed) >= 2*again && holds:
			return p.end(padi.Staged, "the text is still in the composer after %d Enter", p.receipt.Enters)
		case time.Since(began) >= min(p.limit, settleLimit) && !holds:
			return p.end(padi.Staged, "the text was typed, and nothing shows that it was taken")
		}
		if _, asking := p.last.asking(); holds && !asking && time.Since(pressed) >= again && p.receipt.Enters < enters {
			if busy, err = p.press(ctx); err != nil {
				return err
			}
			pressed = time.Now()
		}
	}
}

// press presses Enter, by itself; or, in a Codex that works, Tab, since Enter would cut the answer short. It reports whether a turn was under way.
func (p *prompt) press(ctx context.Context) (busy bool, err error) {
	key := "\r"
	if busy = p.last.working(); busy && p.last.Kind == "codex" {
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
	asking := p.last.Agent != nil && p.last.Agent.State == padi.AwaitingUser
	return p.last.working() || asking || p.last.WordAt > wordAt
}

func (p *prompt) took(busy, moved bool, after time.Duration) error {
	if moved {
		p.saw("the agent began to work %d ms after Enter", after.Milliseconds())
	}
	if p.last.View.Composer {
		p.saw("the composer was empty %d ms after Enter", after.Milliseconds())
	}
	if busy {
		return p.end(padi.Busy, "a turn is under way; the text is queued behind it")
	}
	p.receipt.Result = padi.Taken
	return errors.Join(errStop)
}
