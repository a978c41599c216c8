package mcp

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/cli/clitest"
	"kolu/daemon/padi"
)

func TestUrgency(t *testing.T) {
	rec := func(id padi.TerminalID, urgency padi.Urgency) padi.Record {
		return padi.Record{ID: id, State: padi.Active, Agent: &padi.Agent{Kind: "codex"}, Urgency: urgency}
	}
	s := open(t, &clitest.Workspace{Records: []padi.Record{
		rec("z", padi.Awaiting), rec("done", padi.Finished), rec("a", padi.Awaiting), {ID: "shell", IdleMS: 9000},
		rec("think", padi.Working), rec("moment", padi.Lingering), rec("tool", padi.Working), rec("what", ""),
	}})
	res, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: urgencyURI})
	if err != nil {
		t.Fatal(err)
	}
	want, err := encode(map[string][]string{
		"awaitingIds": {"z", "a"}, "finishedIds": {"done"}, "workingIds": {"think", "tool"}, "lingerIds": {"moment"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Contents[0]; !sameJSON(t, got.Text, want) || got.MIMEType != mimeJSON {
		t.Errorf("got %+v, want %s", got, want)
	}
	list, err := s.ListResources(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(list.Resources, func(r *sdk.Resource) bool { return r.URI == urgencyURI }) {
		t.Errorf("it is not listed: %+v, %v", list, err)
	}
	res, err = open(t, &clitest.Workspace{}).ReadResource(t.Context(), &sdk.ReadResourceParams{URI: urgencyURI})
	if none := `{"awaitingIds":[],"finishedIds":[],"workingIds":[],"lingerIds":[]}`; err != nil || !sameJSON(t, res.Contents[0].Text, none) {
		t.Errorf("no terminals: %+v, %v", res, err)
	}
}

func TestUrgencySubscription(t *testing.T) {
	ws := fakePadi()
	ws.Events = []padi.Event{{Kind: padi.EventSnapshot, Records: ws.Records}, {Kind: padi.EventActivity, ID: idA}}
	heard := make(chan string, 100)
	s := session(t, func(context.Context) (Conn, error) { return newConn(ws), nil }, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *sdk.ResourceUpdatedNotificationRequest) { heard <- req.Params.URI },
	})
	if err := s.Subscribe(t.Context(), &sdk.SubscribeParams{URI: urgencyURI}); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != urgencyURI {
		t.Errorf("heard %s", got)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}
