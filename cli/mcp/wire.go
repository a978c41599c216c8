package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxLine bounds one message, in bytes. The SDK ends the session at 16 MiB; we answer before.
const maxLine = 15 << 20

// lines gives only the lines of a client that are messages, a batch as its messages one by one. Blank lines are skipped; what is too
// long, no JSON or no message of JSON-RPC is answered and skipped, since the SDK would end the session over it, and with it every
// call that is under way.
type lines struct {
	io.Closer
	in   *bufio.Reader
	out  io.Writer
	rest []byte
}

func newLines(in io.ReadCloser, out io.Writer) *lines {
	return &lines{Closer: in, in: bufio.NewReaderSize(in, 64<<10), out: out}
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, long, err := l.line()
		switch {
		case long:
			err = errors.Join(l.refuse(-32600, fmt.Sprintf("the line is longer than %d bytes", maxLine)), err)
		case len(line) > 0:
			err = errors.Join(l.take(line), err)
		}
		if err != nil && len(l.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// line gives the next line, trimmed. Of one that is too long it reads all and keeps nothing.
func (l *lines) line() (line []byte, long bool, err error) {
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var part []byte
		part, err = l.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
			continue
		}
		line = append(line, part...)
	}
	return bytes.TrimSpace(line), long, err
}

// take passes on the messages of a line, and answers for what is none. Its error is the answer's.
func (l *lines) take(line []byte) error {
	if (line[0] != '{' && line[0] != '[') || !json.Valid(line) {
		return l.refuse(-32700, "not a line of JSON")
	}
	messages := []json.RawMessage{line}
	if line[0] == '[' {
		if err := json.Unmarshal(line, &messages); err != nil || len(messages) == 0 {
			return l.refuse(-32600, "an empty batch")
		}
	}
	for _, m := range messages {
		if _, err := jsonrpc.DecodeMessage(m); err != nil {
			if err := l.refuse(-32600, "no message of JSON-RPC: "+err.Error()); err != nil {
				return err
			}
			continue
		}
		l.rest = append(append(l.rest, m...), '\n')
	}
	return nil
}

// refuse answers for what has no id that could be trusted.
func (l *lines) refuse(code int, why string) error {
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": why}})
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(answer, '\n'))
	return err
}

// whole lets one message be written at a time.
type whole struct {
	io.WriteCloser
	mu sync.Mutex
}

func (w *whole) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}
