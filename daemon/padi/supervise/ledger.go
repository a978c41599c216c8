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
}

// Decision is what a verdict leads to. Its numbers are for the log.
type Decision struct {
	// Strike reports that a class reached its third strike.
	Strike bool
	// Repair asks for a new kaval. Only one that is gone is replaced: starting another beside a wedged one would end the
	// terminals of both.
	Repair bool
	// StandDown reports that the repairs are used up until a healthy probe.
	StandDown bool
	// Recovered reports the first healthy probe after a repair.
	Recovered bool
	Attempt   int
}

// Judge takes one verdict.
func (l *Ledger) Judge(v Verdict) Decision {
	switch v {
	case Healthy:
		d := Decision{Recovered: l.unrepaired > 0}
		*l = Ledger{}
		return d
	case Wedged:
		l.wedged++
		if l.wedged < strikes {
			return Decision{}
		}
		l.wedged = 0
		return Decision{Strike: true}
	}
	l.unreachable++
	if l.unreachable < strikes {
		return Decision{}
	}
	l.wedged, l.unreachable = 0, 0
	if l.unrepaired == repairs {
		return Decision{Strike: true, StandDown: true, Attempt: repairs}
	}
	l.unrepaired++
	return Decision{Strike: true, Repair: true, Attempt: l.unrepaired}
}
