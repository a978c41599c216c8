package padirpc

import (
	"context"
	"iter"
	"reflect"
	"slices"

	"kolu/daemon/call"
	"kolu/daemon/padi"
)

// Watch yields the roster's events; see padi.Workspace. Breaking off frees the connection. Over a daemon.Redialer it goes on on
// the next line with what is different from what it has yielded.
func (c *Client) Watch(ctx context.Context) iter.Seq2[padi.Event, error] {
	return func(yield func(padi.Event, error) bool) {
		call.Events(ctx, c.calls, "/v1/watch", (&roll{}).take)(yield)
	}
}

// roll is what a watch has yielded.
type roll struct {
	begun   bool
	order   []padi.TerminalID
	records map[padi.TerminalID]padi.Record
	live    map[padi.TerminalID]bool
}

// take gives what an event says that was not said before: of every snapshot but the first, the differences alone.
func (v *roll) take(ev padi.Event) []padi.Event {
	if v.records == nil {
		v.records, v.live = map[padi.TerminalID]padi.Record{}, map[padi.TerminalID]bool{}
	}
	switch ev.Kind {
	case padi.EventSnapshot:
		return v.snapshot(ev)
	case padi.EventChanged:
		if ev.Record != nil {
			v.put(*ev.Record)
		}
	case padi.EventRemoved:
		v.remove(ev.ID)
	case padi.EventActivity:
		return v.activity(ev)
	}
	return []padi.Event{ev}
}

func (v *roll) put(r padi.Record) {
	if _, known := v.records[r.ID]; !known {
		v.order = append(v.order, r.ID)
	}
	v.records[r.ID] = r
}

func (v *roll) remove(id padi.TerminalID) {
	delete(v.records, id)
	delete(v.live, id)
	v.order = slices.DeleteFunc(v.order, func(o padi.TerminalID) bool { return o == id })
}

// activity says nothing when the terminal was live before.
func (v *roll) activity(ev padi.Event) []padi.Event {
	if v.live[ev.ID] == ev.Live {
		return nil
	}
	v.live[ev.ID] = ev.Live
	return []padi.Event{ev}
}

// longQuiet is after how long without output a terminal is not live, in milliseconds: padi says so after one second.
const longQuiet = 1000

func (v *roll) snapshot(ev padi.Event) (news []padi.Event) {
	if !v.begun {
		v.begun = true
		for _, r := range ev.Records {
			v.put(r)
		}
		return []padi.Event{ev}
	}
	now := map[padi.TerminalID]bool{}
	for _, r := range ev.Records {
		now[r.ID] = true
	}
	for _, id := range slices.Clone(v.order) {
		if !now[id] {
			v.remove(id)
			news = append(news, padi.Event{Kind: padi.EventRemoved, ID: id, Seq: ev.Seq, At: ev.At})
		}
	}
	for _, r := range ev.Records {
		old, known := v.records[r.ID]
		v.put(r)
		if !known || !sameRecord(old, r) {
			news = append(news, padi.Event{Kind: padi.EventChanged, ID: r.ID, Seq: ev.Seq, At: ev.At, Record: &r})
		}
		if v.live[r.ID] && r.IdleMS > longQuiet {
			v.live[r.ID] = false
			news = append(news, padi.Event{Kind: padi.EventActivity, ID: r.ID, Seq: ev.Seq, At: ev.At})
		}
	}
	return news
}

// sameRecord reports whether two records say the same, save for when the last output was.
func sameRecord(a, b padi.Record) bool {
	a.IdleMS, b.IdleMS, a.LastActivityAt, b.LastActivityAt = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}
