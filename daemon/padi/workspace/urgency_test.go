package workspace_test

import (
	"testing"
	"testing/synctest"
	"time"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/workspace"
)

func TestUrgencyOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		is := func(when string, want padi.Urgency) {
			t.Helper()
			synctest.Wait()
			if got := one(t, w, "a").Urgency; got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		host.put(kaval.Terminal{ID: "a", PID: 1, ForegroundPID: 1})
		is("a shell", "")
		host.put(claude("a", "working"))
		is("a turn", padi.Working)
		host.put(claude("a", "blocked"))
		is("a question", padi.Awaiting)
		host.put(claude("a", "working"))
		host.put(claude("a", "done"))
		is("its end", padi.Lingering)
		time.Sleep(3 * time.Second)
		host.output("a") // a subagent goes on
		time.Sleep(3 * time.Second)
		is("output since", padi.Lingering)
		time.Sleep(2 * time.Second)
		is("quiet for five seconds", padi.Finished)
		host.output("a")
		host.put(claude("a", "done"))
		is("a repaint", padi.Finished)
		host.put(claude("a", "working"))
		is("the next turn", padi.Working)
		host.put(claude("a", "done"))
		host.put(claude("a", "blocked"))
		is("a question after the end", padi.Awaiting)
		time.Sleep(time.Minute)
		is("and no rest ends that", padi.Awaiting)
	})
}

// Nothing is finished because nobody could see that it goes on; and what was over before padi looked is over.
func TestUrgencyWithoutALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newFake()
		old := claude("old", "done")
		old.IdleMS = 60_000
		host.put(old)
		w, stop := run(t, workspace.Options{Kaval: host})
		defer stop()
		if got := one(t, w, "old").Urgency; got != padi.Finished {
			t.Errorf("what was over before: %q", got)
		}
		host.put(claude("a", "working"))
		host.put(claude("a", "done"))
		synctest.Wait()
		host.cut(true, false)
		time.Sleep(time.Minute)
		if got := one(t, w, "a").Urgency; got != padi.Lingering {
			t.Errorf("without a line: %q", got)
		}
		host.up()
		time.Sleep(40 * time.Second)
		if got := one(t, w, "a").Urgency; got != padi.Finished {
			t.Errorf("with a line again: %q", got)
		}
	})
}
