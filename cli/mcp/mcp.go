// Package mcp is kolu's MCP server: a padi's contract as tools and resources over stdin and stdout, for an agent that drives
// other agents. The command `kolu mcp` calls [Serve] and hands it a way to reach a padi; this package dials nothing itself and
// knows neither hosts nor wires.
//
// # Connection
//
// One connection is shared by all calls. [Serve] makes it before it answers the handshake, so that no agent is offered tools
// that cannot work. When it breaks, the call in flight fails and says so, nothing is sent again, and the next call dials anew.
//
// # Results
//
// A result is given as text (JSON with an indent of two) and as structured content. Whatever is wrong with a call (its
// arguments, a refusal, the terminal) is a tool result with isError, so that the model reads it; refusals that a program may
// act on carry a kind in their structured content. No call lasts for ever: a wait without timeoutMs ends after a minute.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"kolu/daemon/padi"
)

// Conn is a connected padi.
type Conn interface {
	padi.Workspace
	io.Closer
}

// Options are what a server needs.
type Options struct {
	// Dial reaches the padi. It is called again after a connection broke, never twice at once.
	Dial    func(ctx context.Context) (Conn, error)
	Version string
	Log     *slog.Logger
}

// Serve speaks MCP over in and out until in ends or ctx does. It fails before the handshake when the padi cannot be reached.
func Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser, opts Options) error {
	w := &whole{WriteCloser: out}
	return serve(ctx, &sdk.IOTransport{Reader: newLines(in, w), Writer: w}, opts)
}

func serve(ctx context.Context, transport sdk.Transport, opts Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := newLink(opts.Dial)
	defer l.close()
	if err := l.use(ctx, func(context.Context, Conn) error { return nil }); err != nil {
		return err
	}
	s := newServer(l, opts)
	defer s.watch.wait()
	defer cancel()
	if err := s.mcp.Run(ctx, transport); err != nil && ctx.Err() == nil && !left(err) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// left reports whether an error says that the client has gone, which ends a server in order.
func left(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE)
}

type server struct {
	mcp   *sdk.Server
	link  *link
	watch *watcher
}

func newServer(l *link, opts Options) *server {
	s := &server{link: l}
	s.watch = newWatcher(l, func(ctx context.Context, uri string) {
		_ = s.mcp.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: uri}) // a session that left is no loss
	})
	s.mcp = sdk.NewServer(&sdk.Implementation{Name: "kolu-mcp", Version: opts.Version}, &sdk.ServerOptions{
		Instructions:       instructions,
		Logger:             opts.Log,
		Capabilities:       &sdk.ServerCapabilities{},
		SubscribeHandler:   s.subscribe,
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	all := tools()
	for i := range all {
		s.mcp.AddTool(all[i].describe(), s.handler(&all[i]))
	}
	s.addResources()
	s.mcp.AddReceivingMiddleware(unknownToolIsAResult(all))
	return s
}
