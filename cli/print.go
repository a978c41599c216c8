package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Table prints rows in columns with two spaces between them and no space at the end of a line. Control characters in a
// cell become spaces, so a title can't break out of its row.
func Table(w io.Writer, rows [][]string) error {
	var widths []int
	clean := make([][]string, len(rows))
	for r, row := range rows {
		for c, cell := range row {
			cell = Clean(cell)
			clean[r] = append(clean[r], cell)
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range clean {
		var line strings.Builder
		for c, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Clean makes a string safe for one line of a terminal: control characters become spaces and broken UTF-8 U+FFFD.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// Duration is a duration as a table shows it: 2s, 1m, 5h, 3d, rounded down.
func Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// JSON prints a value as one line of JSON, with <, > and & as they are.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// IsTTY reports whether a stream of an Env is a terminal.
func IsTTY(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// stdoutWriter notices that the reader has gone.
type stdoutWriter struct {
	w      io.Writer
	gone   atomic.Bool
	closed func()
}

func (s *stdoutWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		s.left()
	}
	return n, err
}

// left notes that nobody reads any more.
func (s *stdoutWriter) left() {
	s.gone.Store(true)
	s.closed()
}

func (s *stdoutWriter) isClosed() bool { return s.gone.Load() }

// Fd is the descriptor of the stream below, or one that no terminal has.
func (s *stdoutWriter) Fd() uintptr {
	if f, ok := s.w.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
