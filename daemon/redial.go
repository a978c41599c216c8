package daemon

import (
	"context"
	"time"
)

// Redialer is a Dialer that makes a lost line again by itself: its Dial waits for the line, and its errors are final.
type Redialer interface {
	Dialer
	// Up waits until there is a line and gives its number, which grows with every new one.
	Up(ctx context.Context) (line int, err error)
}

const (
	// onOneLine is how often a request may stay without an answer on one line before that is given as its error: then it is no fault
	// of the line.
	onOneLine = 3
	// longAsk is after what time the end of a question, of a stream say, is no sign that the next one ends too.
	longAsk = 5 * time.Second
	// betweenTries is the pause before a request goes out on the same line again.
	betweenTries = 100 * time.Millisecond
)

// Retry calls ask until it was answered, and gives its error. ask reports whether an answer came, which may be an error. Over a
// Redialer the question is put again on every new line until ctx ends; over another Dialer it is put at most plain times, and never
// again to a socket on which nobody listens.
func Retry(ctx context.Context, d Dialer, plain int, ask func(ctx context.Context) (answered bool, err error)) error {
	r, ok := d.(Redialer)
	if !ok {
		return retryPlain(ctx, plain, ask)
	}
	var last error
	for line, failures := 0, 0; ; {
		n, err := r.Up(ctx)
		if err != nil {
			return err
		}
		switch {
		case n != line:
			line, failures = n, 0
		case failures >= onOneLine:
			return last
		default:
			select {
			case <-time.After(betweenTries):
			case <-ctx.Done():
				return last
			}
		}
		asked := time.Now()
		answered, err := ask(ctx)
		if answered || err == nil || ctx.Err() != nil {
			return err
		}
		last = err
		if failures++; time.Since(asked) > longAsk {
			failures = 1
		}
	}
}

func retryPlain(ctx context.Context, most int, ask func(ctx context.Context) (bool, error)) error {
	for try := 1; ; try++ {
		answered, err := ask(ctx)
		if answered || err == nil || ctx.Err() != nil || Absent(err) || try >= most {
			return err
		}
	}
}

// Limit bounds ctx by a timeout in milliseconds and what the answer may come late; a timeout of 0 is none.
func Limit(ctx context.Context, timeoutMS int64, late time.Duration) (context.Context, context.CancelFunc) {
	if timeoutMS <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(timeoutMS)*time.Millisecond+late)
}

// Remaining is what is left of a timeout in milliseconds that began at a time, at least 1; 0 stays "no limit".
func Remaining(timeoutMS int64, began time.Time) int64 {
	if timeoutMS <= 0 {
		return timeoutMS
	}
	return max(1, timeoutMS-time.Since(began).Milliseconds())
}
