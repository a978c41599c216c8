package daemon

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchSelf(t *testing.T) {
	bad := errors.New("no answer")
	tests := []struct {
		name    string
		answers []error
		fault   bool
	}{
		{"well", []error{nil, nil, nil, nil}, false},
		{"three in a row", []error{bad, bad, bad}, true},
		{"never three in a row", []error{bad, bad, nil, bad, bad, nil}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start, asked := time.Now(), 0
				check := func(context.Context) error {
					asked++
					if asked == len(tt.answers) {
						defer time.AfterFunc(time.Second, cancel)
					}
					return tt.answers[asked-1]
				}
				err := watchSelf(ctx, check, time.Now, newWorld(t).log())
				if (err != nil) != tt.fault {
					t.Errorf("got %v", err)
				}
				if tt.fault && time.Since(start) != 30*time.Second {
					t.Errorf("it took %v", time.Since(start))
				}
			})
		})
	}
}

func TestWatchSelfBoundsEachQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := watchSelf(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, time.Now, newWorld(t).log())
		if err == nil || time.Since(start) != 45*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestWatchSelfForgetsMissesOverSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var slept atomic.Int64 // what the wall clock gained while the process did not run
		asked := 0
		check := func(context.Context) error {
			asked++
			switch asked {
			case 2, 4:
				time.AfterFunc(5*time.Second, func() { slept.Add(int64(time.Minute)) })
			case 6:
				cancel()
			}
			return errors.New("no answer")
		}
		now := func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
		if err := watchSelf(ctx, check, now, newWorld(t).log()); err != nil || asked != 6 {
			t.Errorf("got %v after %d questions", err, asked)
		}
	})
}

func TestWatchAnchor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir() + "/state"
		start := time.Now()
		named := func() string { // first while it is not there yet, which is no anchor; in the end no more
			if at := time.Since(start); at < 12*time.Second || at > 52*time.Second {
				return ""
			}
			return root
		}
		time.AfterFunc(22*time.Second, func() { os.Mkdir(root, 0o700) })
		time.AfterFunc(32*time.Second, func() { os.Remove(root) })
		time.AfterFunc(36*time.Second, func() { os.Mkdir(root, 0o700) }) // one miss
		time.AfterFunc(62*time.Second, func() { os.Remove(root); os.WriteFile(root, nil, 0o600) })
		time.AfterFunc(82*time.Second, func() { os.Remove(root) })
		err := watchAnchor(t.Context(), named)
		if !errors.Is(err, errAnchorGone) || time.Since(start) != 90*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestBoundProcess(t *testing.T) {
	for _, value := range []string{"", " 12", "012", "+12", "0", "-1", "2147483648", "me"} {
		if _, err := boundProcess(func(string) (string, bool) { return value, true }); err == nil {
			t.Errorf("%q was taken", value)
		}
	}
	alive, err := boundProcess(func(string) (string, bool) { return "", false })
	if alive != nil || err != nil {
		t.Errorf("absent: got a binding, %v", err)
	}
}

// A daemon that is ending does not take its own silence for a fault, not even when it is asked for the last time.
func TestWatchSelfEndsWithTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		asked := 0
		check := func(context.Context) error {
			if asked++; asked == selfMisses {
				cancel() // the listener closes, and that is why nobody answers
			}
			return errors.New("no answer")
		}
		if err := watchSelf(ctx, check, time.Now, newWorld(t).log()); err != nil || asked != selfMisses {
			t.Errorf("asked %d times, got %v", asked, err)
		}
	})
}
