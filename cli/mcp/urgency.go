package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/daemon/padi"
)

const urgencyURI = "surface://cells/urgency"

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

// list is where a record belongs, by padi's word; nil is nowhere.
func (u *urgency) list(r padi.Record) *[]padi.TerminalID {
	return map[padi.Urgency]*[]padi.TerminalID{
		padi.Awaiting: &u.Awaiting, padi.Finished: &u.Finished, padi.Working: &u.Working, padi.Lingering: &u.Linger,
	}[r.Urgency]
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
