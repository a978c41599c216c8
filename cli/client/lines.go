package client

import (
	"fmt"
	"io"
	"time"

	"kolu/cli"
	"kolu/fleet"
	"kolu/internal/fault"
)

// lines says on stderr when the line to a host was lost and when it is back: one line each.
type lines struct {
	w        io.Writer
	name     string
	lost     bool
	punished bool
}

// status hears of every change of a session, one at a time.
func (l *lines) status(st fleet.Status) {
	switch {
	case st.State == fleet.Disconnected && !l.lost:
		l.lost = true
		l.say("the line was lost (%v); trying again", st.Err)
	case st.State == fleet.Disconnected && !l.punished && fault.Is(st.Err, fault.Penalised):
		l.punished = true
		l.say("the server refuses this address for a while; trying again in %s", st.Retry.Round(time.Second))
	case st.State == fleet.Connected && l.lost:
		l.lost, l.punished = false, false
		note := ""
		if st.Note != "" {
			note = "; " + st.Note
		}
		l.say("the line is back after %s%s", st.Lost.Round(100*time.Millisecond), note)
	}
}

func (l *lines) say(format string, args ...any) {
	fmt.Fprintf(l.w, "— %s: %s\n", l.name, cli.Clean(fmt.Sprintf(format, args...)))
}
