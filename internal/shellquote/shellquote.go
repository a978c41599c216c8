// Package shellquote turns words into one shell command line and back. [Split] is the exact inverse of [Join]; [Typed] is Join
// for a line that is typed at an interactive shell, where a tab would complete instead of arriving.
package shellquote

import (
	"errors"
	"fmt"
	"strings"
)

// ErrOpen is the error of a line that ends within a quotation or after a backslash.
var ErrOpen = errors.New("quotation is not closed")

const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%_+=:,./~-"

// Join quotes each word so that bash, zsh, fish and any POSIX shell read exactly these words. A leading tilde stays bare, so that
// a shell expands it.
func Join(words []string) string { return join(words, verbatim) }

// Typed is Join with control characters other than newline written as a printf, for line editors that would act on them.
func Typed(words []string) string { return join(words, spelled) }

func join(words []string, inside func(byte) string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w, inside)
	}
	return strings.Join(out, " ")
}

// quote keeps quotes and backslashes outside the single quotes: fish, unlike POSIX, gives a backslash a meaning within them.
func quote(w string, inside func(byte) string) string {
	if isBare(w) {
		return w
	}
	var b strings.Builder
	b.WriteByte('\'')
	for i := range len(w) {
		b.WriteString(inside(w[i]))
	}
	b.WriteByte('\'')
	return b.String()
}

// isBare reports whether no shell changes the word. One that begins with "=" is a command look-up in zsh.
func isBare(w string) bool {
	return w != "" && w[0] != '=' && strings.Trim(w, bare) == ""
}

func verbatim(c byte) string {
	switch c {
	case '\'':
		return `'\''`
	case '\\':
		return `'\\'`
	}
	return string([]byte{c})
}

func spelled(c byte) string {
	if (c < 0x20 && c != '\n') || c == 0x7f {
		return fmt.Sprintf(`'"$(printf '\%03o')"'`, c)
	}
	return verbatim(c)
}

// Split reads a line as a POSIX shell splits it into words, with quotes and backslashes and nothing else: no expansion, no
// operators, no comments.
func Split(line string) ([]string, error) {
	var words []string
	s := scanner{line: line}
	for s.skipBlanks() {
		w, err := s.word()
		if err != nil {
			return words, err
		}
		words = append(words, w)
	}
	return words, nil
}

type scanner struct {
	line string
	at   int
}

const blanks = " \t\n"

func (s *scanner) skipBlanks() bool {
	for s.at < len(s.line) && strings.IndexByte(blanks, s.line[s.at]) >= 0 {
		s.at++
	}
	return s.at < len(s.line)
}

func (s *scanner) word() (string, error) {
	var b strings.Builder
	for s.at < len(s.line) && strings.IndexByte(blanks, s.line[s.at]) < 0 {
		c := s.line[s.at]
		s.at++
		var err error
		switch c {
		case '\'':
			err = s.single(&b)
		case '"':
			err = s.double(&b)
		case '\\':
			err = s.escaped(&b)
		default:
			b.WriteByte(c)
		}
		if err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func (s *scanner) single(b *strings.Builder) error {
	end := strings.IndexByte(s.line[s.at:], '\'')
	if end < 0 {
		return ErrOpen
	}
	b.WriteString(s.line[s.at : s.at+end])
	s.at += end + 1
	return nil
}

func (s *scanner) double(b *strings.Builder) error {
	for s.at < len(s.line) {
		c := s.line[s.at]
		s.at++
		switch {
		case c == '"':
			return nil
		case c == '\\' && s.at < len(s.line) && strings.IndexByte("$`\"\\\n", s.line[s.at]) >= 0:
			if s.line[s.at] != '\n' {
				b.WriteByte(s.line[s.at])
			}
			s.at++
		default:
			b.WriteByte(c)
		}
	}
	return ErrOpen
}

func (s *scanner) escaped(b *strings.Builder) error {
	if s.at >= len(s.line) {
		return ErrOpen
	}
	if s.line[s.at] != '\n' {
		b.WriteByte(s.line[s.at])
	}
	s.at++
	return nil
}
