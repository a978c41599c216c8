package padi

import "time"

// FinishedAfter is how long a terminal is quiet before the end of its agent's turn is taken for the end of the work.
const FinishedAfter = 5 * time.Second

// Urgency says how much a terminal's agent needs somebody.
type Urgency string

// The urgencies: it asks; its work is over; it works; its turn has ended a moment ago, and it may go on by itself. None has no agent,
// or one of which nothing is known.
const (
	Awaiting  Urgency = "awaiting"
	Finished  Urgency = "finished"
	Working   Urgency = "working"
	Lingering Urgency = "lingering"
)
