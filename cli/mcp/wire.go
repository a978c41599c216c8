package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"sync"
)

// lines gives only the lines of a client that are messages. Blank ones are skipped; one that is no JSON object or batch is
// answered and skipped, so that a stray line of a wrapper costs nobody the session.
type lines struct {
	io.Closer
	in   *bufio.Reader
	out  io.Writer
	rest []byte
}

func newLines(in io.ReadCloser, out io.Writer) *lines {
	return &lines{Closer: in, in: bufio.NewReader(in), out: out}
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.in.ReadBytes('\n')
		text := bytes.TrimSpace(line)
		switch {
		case len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(text):
			l.rest = append(text, '\n')
		case len(text) > 0:
			if _, err := io.WriteString(l.out, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not a line of JSON"}}`+"\n"); err != nil {
				return 0, err
			}
			fallthrough
		default:
			if err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
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
