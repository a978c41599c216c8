package supervise

// Verdict is what a probe found.
type Verdict string

// The verdicts. Wedged accepted the connection and then did not answer right; Unreachable is nobody there.
const (
	Healthy     Verdict = "healthy"
	Wedged      Verdict = "wedged"
	Unreachable Verdict = "unreachable"
)

const (
	strikes = 3 // of one class in a row, but for healthy probes
	repairs = 3 // without a healthy probe between them
)

// Ledger judges a sequence of verdicts. The classes are counted apart and neither count ends the other's, so that a kaval which
// alternates between refusing and hanging is noticed all the same.
type Ledger struct {
	wedged, unreachable int
	unrepaired          int
	standing            bool // down
}

// Decision is what a verdict leads to. Its numbers are for the log.
type Decision struct {
	// Repair asks for a new kaval in the place of the one that reached its third strike.
	Repair bool
	// StandDown reports a third strike when the repairs are used up until a healthy probe.
	StandDown bool
	// Recovered reports the first healthy probe after a repair.
	Recovered bool
	// Down reports that the repairs were used up before, and no probe was healthy since.
	Down    bool
	Attempt int
}

// Judge takes one verdict. Launching a repair clears the strikes: the next one needs three of its own.
func (l *Ledger) Judge(v Verdict) Decision {
	count := &l.wedged
	switch v {
	case Healthy:
		d := Decision{Recovered: l.unrepaired > 0}
		*l = Ledger{}
		return d
	case Unreachable:
		count = &l.unreachable
	}
	if *count++; *count < strikes {
		return Decision{Down: l.standing}
	}
	l.wedged, l.unreachable = 0, 0
	if l.unrepaired == repairs {
		l.standing = true
		return Decision{StandDown: true, Attempt: repairs}
	}
	l.unrepaired++
	return Decision{Repair: true, Attempt: l.unrepaired}
}
