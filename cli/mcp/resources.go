package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/daemon/kaval"
	"kolu/daemon/padi"
)

const (
	terminalsURI = "surface://collections/terminals"
	terminalURI  = terminalsURI + "/"
	mimeJSON     = "application/json"
)

func (s *server) addResources() {
	s.mcp.AddResource(&sdk.Resource{
		URI: terminalsURI, Name: "terminals", MIMEType: mimeJSON,
		Description: "The ids of all terminals of this padi, in registry order.",
	}, s.readTerminals)
	s.mcp.AddResource(&sdk.Resource{
		URI: urgencyURI, Name: "urgency", MIMEType: mimeJSON,
		Description: "Which agents ask (awaitingIds), have finished (finishedIds), work (workingIds), or ended their turn within the last " +
			"5 s (lingerIds): ids of terminals, in registry order.",
	}, s.readUrgency)
	s.mcp.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: terminalURI + "{id}", Name: "terminal", MIMEType: mimeJSON,
		Description: "The record of one terminal: intent, directory, git, pull request, agent and its state, parent, foreground program.",
	}, s.readTerminal)
}

func (s *server) readTerminals(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	var ids []padi.TerminalID
	err := s.read(ctx, func(ctx context.Context, ws padi.Workspace) error {
		records, err := ws.Terminals(ctx)
		ids = make([]padi.TerminalID, 0, len(records))
		for _, r := range records {
			ids = append(ids, r.ID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return document(req.Params.URI, ids)
}

func (s *server) readTerminal(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	id := padi.TerminalID(strings.TrimPrefix(req.Params.URI, terminalURI))
	var rec padi.Record
	err := s.read(ctx, func(ctx context.Context, ws padi.Workspace) (err error) {
		rec, err = ws.Terminal(ctx, id)
		return err
	})
	if errors.Is(err, kaval.ErrNoTerminal) {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	if err != nil {
		return nil, err
	}
	return document(req.Params.URI, rec)
}

func (s *server) read(ctx context.Context, fn func(ctx context.Context, ws padi.Workspace) error) error {
	_, err := s.perform(ctx, action{bound: callBound, run: func(ctx context.Context, ws padi.Workspace) (any, error) {
		return nil, fn(ctx, ws)
	}})
	return err
}

func document(uri string, v any) (*sdk.ReadResourceResult, error) {
	s, err := encode(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", uri, err)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: mimeJSON, Text: s}}}, nil
}

func (s *server) subscribe(_ context.Context, req *sdk.SubscribeRequest) error {
	uri := req.Params.URI
	if uri != terminalsURI && uri != urgencyURI && (!strings.HasPrefix(uri, terminalURI) || uri == terminalURI) {
		return sdk.ResourceNotFoundError(uri)
	}
	s.watch.start()
	return nil
}
