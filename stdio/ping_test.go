package stdio

import (
	"testing"
	"testing/synctest"
	"time"
)

// An uplink so slow that the question waits behind what was written before it is alive as long as that moves, for a minute; one on which
// nothing moves is given up after the answer's time.
func TestSlowUplinkIsAlive(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes time.Duration // one ends every so often
		dies   time.Duration
	}{
		{"each write takes 8 s", 8 * time.Second, time.Minute},
		{"nothing moves", time.Hour, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPinger(&link{pipe: &pipe{start: time.Now()}}, nil, usual)
				time.Sleep(time.Second)
				p.question()
				asked := time.Now()
				stop := make(chan struct{})
				go func() {
					for tick := time.NewTicker(c.writes); ; {
						select {
						case <-tick.C:
							p.link.pipe.lastWrote.Store(p.now())
						case <-stop:
							return
						}
					}
				}()
				defer close(stop)
				time.Sleep(time.Second / 2)
				for p.check(false) == nil {
					time.Sleep(time.Second)
				}
				if took := time.Since(asked); took < c.dies || took > c.dies+2*time.Second {
					t.Errorf("given up after %s, want %s", took, c.dies)
				}
			})
		})
	}
}
