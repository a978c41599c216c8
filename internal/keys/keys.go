// Package keys knows the names of keys and the bytes a terminal sends for them. Every face that takes a key by name encodes it
// here; it holds no state and reads no terminal.
package keys

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// key is one named key. Names are those people may type; the first is the one that help shows.
type key struct {
	names []string
	bytes string
}

// table has the normal-cursor form of the arrows throughout: a sender does not know the mode of the program.
var table = []key{
	{[]string{"Enter", "Return"}, "\r"},
	{[]string{"Escape", "Esc"}, "\x1b"},
	{[]string{"Tab"}, "\t"},
	{[]string{"Up"}, "\x1b[A"},
	{[]string{"Down"}, "\x1b[B"},
	{[]string{"Left"}, "\x1b[D"},
	{[]string{"Right"}, "\x1b[C"},
	{[]string{"Home"}, "\x1b[H"},
	{[]string{"End"}, "\x1b[F"},
	{[]string{"Backspace"}, "\x7f"},
	{[]string{"Space"}, " "},
	{[]string{"Shift-Tab"}, "\x1b[Z"},
}

// Names are the named keys in the order that help shows them.
func Names() []string {
	names := make([]string, 0, len(table))
	for _, k := range table {
		names = append(names, k.names[0])
	}
	return names
}

// Help is one line that lists everything Encode takes.
func Help() string {
	return strings.Join(Names(), ", ") + ", or a chord: C-<char> (Control), M-<char> (Alt)"
}

// UnknownError is a key name that nothing encodes.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown key %q: use a name (%s) or a chord (C-c, M-b)", e.Name, strings.Join(Names(), ", "))
}

// Encode gives the bytes of one key. Names are matched whatever their case; the character of an M- chord keeps its own.
// Anything else is an *UnknownError.
func Encode(name string) (string, error) {
	for _, k := range table {
		for _, n := range k.names {
			if strings.EqualFold(n, name) {
				return k.bytes, nil
			}
		}
	}
	if seq, ok := chord(name); ok {
		return seq, nil
	}
	return "", &UnknownError{Name: name}
}

// EncodeAll gives the bytes of several keys in order, or none at all when one is unknown.
func EncodeAll(names []string) (string, error) {
	var b strings.Builder
	for _, n := range names {
		seq, err := Encode(n)
		if err != nil {
			return "", err
		}
		b.WriteString(seq)
	}
	return b.String(), nil
}

func chord(name string) (string, bool) {
	if len(name) < 3 || name[1] != '-' {
		return "", false
	}
	char := name[2:]
	r, size := utf8.DecodeRuneInString(char)
	if size != len(char) || (r == utf8.RuneError && size == 1) {
		return "", false
	}
	switch name[0] {
	case 'C', 'c':
		return control(r)
	case 'M', 'm':
		return "\x1b" + char, true
	}
	return "", false
}

// control maps the characters that have a control code: @, the letters, [ \ ] ^ _, and space for NUL.
func control(r rune) (string, bool) {
	if r == ' ' {
		return "\x00", true
	}
	if r >= 'a' && r <= 'z' {
		r -= 'a' - 'A'
	}
	if r < '@' || r > '_' {
		return "", false
	}
	return string(r & 0x1f), true
}
