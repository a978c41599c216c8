package agents

import (
	"testing"

	"kolu/daemon/padi"
)

// TestOwners: a conversation belongs to one terminal; what is provably of an earlier run is given up for what began in this one.
func TestOwners(t *testing.T) {
	old, mine, other := Session{ID: "old", CreatedAt: 10}, Session{ID: "mine", CreatedAt: 110}, Session{ID: "other", CreatedAt: 120}
	o := owners{}
	pick := func(terminal string, since int64, candidates ...Session) string {
		t.Helper()
		if s := o.choose(padi.TerminalID(terminal), since, candidates); s != nil {
			return s.ID
		}
		return ""
	}
	for _, step := range []struct {
		what, got, want string
	}{
		{"the first of two takes the latest", pick("a", 0, mine, old), "mine"},
		{"the second takes what is free", pick("b", 0, mine, old), "old"},
		{"the first keeps what it has, whatever comes", pick("a", 0, other, mine, old), "mine"},
		{"nothing is free", pick("c", 0, mine, old), ""},
		{"an adopted terminal's run has no known start, so it keeps an old one", pick("b", 0, other, old), "old"},
		{"a run that was seen to start moves to what began in it", pick("b", 100, other, old), "other"},
		{"and lets the old one go", pick("c", 0, old), "old"},
		{"what is no longer offered is let go", pick("a", 0), ""},
		{"and is free", pick("d", 0, mine), "mine"},
		{"what nobody went on with in this run is not taken", pick("e", 500, Session{ID: "stale", CreatedAt: 5, UpdatedAt: 400}), ""},
		{"what was resumed in it is", pick("e", 500, Session{ID: "stale", CreatedAt: 5, UpdatedAt: 600}), "stale"},
		{"a process that is bound to one is certain", pick("f", 0, Session{ID: "mine", Certain: true}), "mine"},
		{"so who only guessed it has none", pick("d", 0, mine), ""},
	} {
		if step.got != step.want {
			t.Errorf("%s: %q, want %q", step.what, step.got, step.want)
		}
	}
}
