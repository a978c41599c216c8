package keys

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestEncode(t *testing.T) {
	for name, want := range map[string]string{
		"Enter": "\r", "Return": "\r", "enter": "\r", "ENTER": "\r",
		"Tab": "\t", "Escape": "\x1b", "Esc": "\x1b", "Space": " ", "Backspace": "\x7f",
		"Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D",
		"Home": "\x1b[H", "End": "\x1b[F", "Shift-Tab": "\x1b[Z", "shift-tab": "\x1b[Z",
		"C-c": "\x03", "C-C": "\x03", "c-c": "\x03", "C-@": "\x00", "C- ": "\x00", "C-[": "\x1b", "C-\\": "\x1c",
		"C-]": "\x1d", "C-^": "\x1e", "C-_": "\x1f", "C-z": "\x1a",
		"M-b": "\x1bb", "M-B": "\x1bB", "m-b": "\x1bb", "M-.": "\x1b.", "M-é": "\x1bé", "M--": "\x1b-",
	} {
		got, err := Encode(name)
		if err != nil || got != want {
			t.Errorf("Encode(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestEncodeUnknown(t *testing.T) {
	for _, name := range []string{
		"", " ", "Foo", "Ctrl-C", "^C", "F1", "PageUp", "Delete", "C-", "M-", "C", "C-1", "C-?", "C-ab", "M-ab", "C-M-x", "C-é", "C-`", "C-{",
		"constructor", "__proto__", "C-__proto__", "M-constructor", "toString", "Enter ", "M-\xff",
	} {
		got, err := Encode(name)
		if _, ok := errors.AsType[*UnknownError](err); !ok || got != "" {
			t.Errorf("Encode(%q) = %q, %v; want an UnknownError", name, got, err)
		}
	}
}

func TestEncodeAllIsAllOrNothing(t *testing.T) {
	if got, err := EncodeAll([]string{"Up", "C-c", "Enter"}); err != nil || got != "\x1b[A\x03\r" {
		t.Errorf("EncodeAll = %q, %v", got, err)
	}
	if got, err := EncodeAll([]string{"Enter", "Foo", "Enter"}); err == nil || got != "" {
		t.Errorf("EncodeAll with an unknown key = %q, %v; want nothing and an error", got, err)
	}
}

// Help and table must say the same, both ways.
func TestHelpMatchesTheTable(t *testing.T) {
	help := Help()
	advertised := map[string]bool{}
	for _, name := range Names() {
		seq, err := Encode(name)
		if err != nil {
			t.Errorf("help advertises %q, which does not encode: %v", name, err)
		}
		if !strings.Contains(help, name) {
			t.Errorf("help does not show %q", name)
		}
		advertised[seq] = true
	}
	for _, k := range table {
		if !advertised[k.bytes] {
			t.Errorf("the bytes %q (%v) have no advertised name", k.bytes, k.names)
		}
	}
	names := slices.Sorted(slices.Values(Names()))
	if len(slices.Compact(names)) != len(table) {
		t.Errorf("names repeat: %v", names)
	}
}
