package mcp

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// Lines that are no messages are answered or skipped, and the next message is served.
func TestStrayLinesCostNothing(t *testing.T) {
	in := io.NopCloser(strings.NewReader("garbage\n\n42\n" +
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"))
	var out strings.Builder
	err := Serve(t.Context(), in, nopCloser{&out}, Options{
		Dial: func(context.Context) (Conn, error) { return newConn(fakePadi()), nil }, Version: "1", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Error(err)
	}
	if got := out.String(); strings.Count(got, "-32700") != 2 || !strings.Contains(got, `"kolu-mcp"`) {
		t.Errorf("%s", got)
	}
}
