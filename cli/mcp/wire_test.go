package mcp

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// Lines that are no messages are answered or skipped, and the next message is served.
func TestStrayLinesCostNothing(t *testing.T) {
	in, typed := io.Pipe()
	said, out := io.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		defer out.Close()
		err := Serve(t.Context(), in, out, Options{
			Dial: func(context.Context) (Conn, error) { return newConn(fakePadi()), nil }, Version: "1", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Error(err)
		}
	})
	serving.Go(func() {
		_, _ = io.WriteString(typed, "garbage\n\n42\n[]\n[1]\n{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}\n"+
			strings.Repeat("[", 1<<15)+"\n"+`{"a":"`+strings.Repeat("a", maxLine)+"\"}\n"+ // what is missing shows in the answers
			`[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}},`+
			`{"jsonrpc":"2.0","method":"notifications/initialized"}]`+"\n"+`[{"jsonrpc":"2.0","id":2,"method":"ping"}]`+"\n")
	})
	answers := bufio.NewScanner(said)
	for _, want := range []string{
		"-32700", "-32700", "empty batch", "-32600", "-32600", "-32600", "-32700", "longer than", `"kolu-mcp"`, `"id":2`,
	} {
		if !answers.Scan() || !strings.Contains(answers.Text(), want) {
			t.Errorf("want %s, got %q, %v", want, answers.Text(), answers.Err())
		}
	}
	typed.Close()
	said.Close()
	serving.Wait()
}
