package fleet

import (
	"math/rand/v2"
	"time"

	"kolu/internal/fault"
)

// The plan of a session: faults of the network are tried without end, with a growing pause; what a host's software gets wrong five
// times in a row; what a host refuses never, since asking again would not change it and servers punish it.
const (
	firstWait   = 2 * time.Second
	mostWait    = time.Minute
	flaps       = 3                // of the tries before a line count on after it: whoever was reached is reachable, in 8 s at most
	healthy     = 30 * time.Second // a line that stood so long starts the plan anew
	mostRemote  = 5
	firstPunish = 15 * time.Second
	mostPunish  = 10 * time.Minute
)

// plan decides when the next try comes, and whether one comes at all.
type plan struct {
	tries    int // since a line was healthy
	remote   int // failures of the host's software in a row
	punished int // penalties in a row
}

// lost takes note of a line that stood for so long.
func (p *plan) lost(stood time.Duration) {
	p.tries = min(p.tries, flaps)
	if stood >= healthy {
		p.tries = 0
	}
	p.remote, p.punished = 0, 0
}

// pause is how long to wait before the next try, which it counts. The first one comes at once.
func (p *plan) pause() time.Duration {
	p.tries++
	switch {
	case p.punished > 0: // never less than the server asks for
		return more(grow(firstPunish, mostPunish, p.punished-1))
	case p.tries == 1:
		return 0
	}
	return about(grow(firstWait, mostWait, p.tries-2))
}

// failed takes note of a try that failed, and reports whether there shall be another.
func (p *plan) failed(err error) bool {
	switch asFault(err) {
	case fault.Unresolved, fault.Unreachable, fault.Timeout, fault.Interrupted:
		p.remote, p.punished = 0, 0
		return true
	case fault.Penalised:
		p.remote = 0
		p.punished++
		return true
	case fault.FrontDied, fault.FrontRefused, fault.NoDaemon, fault.NoShell, fault.Noise, fault.DiskFull, fault.NixDaemonDown,
		fault.NixRefused, fault.Internal:
		p.punished = 0
		p.remote++
		return p.remote < mostRemote
	}
	return false
}

// grow doubles first n times, up to most.
func grow(first, most time.Duration, n int) time.Duration {
	if n > 20 {
		return most
	}
	return min(first<<n, most)
}

// about is d give or take a fifth, so that many clients of one host do not come back at one moment.
func about(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5) }

// more is d and up to a fifth on top.
func more(d time.Duration) time.Duration { return d + rand.N(d/5) }
