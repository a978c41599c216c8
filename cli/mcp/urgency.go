package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/daemon/padi"
)

const (
	urgencyURI = "surface://cells/urgency"
	// finishedAfter is how long a terminal is quiet before the end of its agent's turn is taken for the end of the work.
	finishedAfter = 5 * time.Second
)

// urgency sorts the terminals that have an agent by how much they need somebody, each list in registry order.
type urgency struct {
	Awaiting []padi.TerminalID `json:"awaitingIds"`
	Finished []padi.TerminalID `json:"finishedIds"`
	Working  []padi.TerminalID `json:"workingIds"`
	Linger   []padi.TerminalID `json:"lingerIds"` // the turn has ended a moment ago
}

func urgencyOf(records []padi.Record) urgency {
	u := urgency{[]padi.TerminalID{}, []padi.TerminalID{}, []padi.TerminalID{}, []padi.TerminalID{}}
	for _, r := range records {
		if list := u.list(r); list != nil {
			*list = append(*list, r.ID)
		}
	}
	return u
}

// list is where a record belongs; nil is nowhere.
func (u *urgency) list(r padi.Record) *[]padi.TerminalID {
	if r.Agent == nil {
		return nil
	}
	switch r.Agent.State.Bucket() {
	case padi.BucketAwaiting:
		return &u.Awaiting
	case padi.BucketWorking:
		return &u.Working
	case padi.BucketWaiting:
		if r.IdleMS >= finishedAfter.Milliseconds() {
			return &u.Finished
		}
		return &u.Linger
	}
	return nil
}

func (s *server) readUrgency(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	var u urgency
	err := s.read(ctx, func(ctx context.Context, ws padi.Workspace) error {
		records, err := ws.Terminals(ctx)
		u = urgencyOf(records)
		return err
	})
	if err != nil {
		return nil, err
	}
	return document(req.Params.URI, u)
}
