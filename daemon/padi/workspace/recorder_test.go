package workspace_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
	"kolu/daemon/padi/workspace"
)

// memoryRecord is a record in memory.
type memoryRecord struct {
	mu   sync.Mutex
	kept []padi.Sending
	data []string
	text bool
}

func (m *memoryRecord) Add(s padi.Sending, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Bytes = len(data)
	m.kept, m.data = append(m.kept, s), append(m.data, string(data))
}

func (m *memoryRecord) Read(padi.RecordedRequest) (padi.Recorded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return padi.Recorded{Sendings: m.kept, Text: m.text}, nil
}

func (m *memoryRecord) KeepText(keep bool) error {
	m.text = keep
	return nil
}

func TestWhoSentWhatIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, record := newFake(), &memoryRecord{}
		host.put(kaval.Terminal{ID: "b", PID: 1})
		w, stop := run(t, workspace.Options{Kaval: host, Record: record})
		defer stop()
		synctest.Wait()
		from := padi.Sender{Face: "kolu mcp", Terminal: "a", Host: "far"}
		ctx := padi.WithSender(t.Context(), from)
		if err := w.Write(ctx, "b", kaval.Input{Data: []byte("hello")}); err != nil {
			t.Fatal(err)
		}
		host.writeErr = kaval.ErrStalled
		if err := w.Write(t.Context(), "b", kaval.Input{Data: []byte("x")}); !errors.Is(err, kaval.ErrStalled) {
			t.Fatal(err)
		}
		host.writeErr = nil
		made, err := w.Create(ctx, padi.CreateRequest{Placement: padi.Placement{Toplevel: true}, Run: []string{"echo", "a b"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Kill(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(ctx, "b", kaval.Input{Data: []byte("late")}); err == nil {
			t.Error("a write to a killed terminal went well")
		}
		got, err := w.Recorded(t.Context(), padi.RecordedRequest{})
		if err != nil {
			t.Fatal(err)
		}
		want := []padi.Sending{
			{Kind: padi.SendInput, To: "b", From: from, Bytes: 5},
			{Kind: padi.SendInput, To: "b", Bytes: 1, Code: "stalled"},
			{Kind: padi.SendCreate, To: made.ID, From: from, Bytes: 10},
			{Kind: padi.SendKill, To: "b", From: from},
			{Kind: padi.SendInput, To: "b", From: from, Bytes: 4, Code: got.Sendings[len(got.Sendings)-1].Code},
		}
		for i := range got.Sendings {
			if got.Sendings[i].At == 0 {
				t.Errorf("no time in %+v", got.Sendings[i])
			}
			got.Sendings[i].At = 0
		}
		if diff := cmp.Diff(want, got.Sendings); diff != "" {
			t.Error(diff)
		}
		if err := w.RecordText(t.Context(), true); err != nil || !record.text {
			t.Errorf("texts: %v", err)
		}
	})
}

func TestAPadiWithoutARecordSaysSo(t *testing.T) {
	w := workspace.New(workspace.Options{Kaval: newFake(), Log: discard})
	if _, err := w.Recorded(t.Context(), padi.RecordedRequest{}); !errors.Is(err, kaval.ErrRefused) {
		t.Errorf("%v", err)
	}
	if err := w.RecordText(t.Context(), true); !errors.Is(err, kaval.ErrRefused) {
		t.Errorf("%v", err)
	}
}
