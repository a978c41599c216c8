package shellquote_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"kolu/internal/shellquote"
)

func TestJoin(t *testing.T) {
	for _, tc := range []struct {
		words []string
		want  string
	}{
		{nil, ""},
		{[]string{"claude"}, "claude"},
		{[]string{""}, "''"},
		{[]string{"echo", "two words"}, "echo 'two words'"},
		{[]string{"it's"}, `'it'\''s'`},
		{[]string{`back\slash`}, `'back'\\'slash'`},
		{[]string{"~/notes", "a=b", "=ls"}, "~/notes a=b '=ls'"},
		{[]string{"$HOME", "`id`", "a;b", "!x", "#c", "*"}, "'$HOME' '`id`' 'a;b' '!x' '#c' '*'"},
	} {
		if got := shellquote.Join(tc.words); got != tc.want {
			t.Errorf("Join(%q) = %s, want %s", tc.words, got, tc.want)
		}
	}
}

func TestSplitIsTheInverseOfJoin(t *testing.T) {
	inverse := func(words []string) bool {
		got, err := shellquote.Split(shellquote.Join(words))
		return err == nil && slices.Equal(got, words)
	}
	if err := quick.Check(inverse, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	spiteful := func(picks []uint8) bool {
		const letters = `'"\ $` + "\t\n;=~a"
		var b strings.Builder
		for _, p := range picks {
			b.WriteByte(letters[int(p)%len(letters)])
		}
		return inverse([]string{b.String(), "", b.String()})
	}
	if err := quick.Check(spiteful, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		line string
		want []string
		err  error
	}{
		{`  a  b\ c "d e" 'f'g `, []string{"a", "b c", "d e", "fg"}, nil},
		{`"a\"b\\c\d"`, []string{`a"b\c\d`}, nil},
		{`'open`, nil, shellquote.ErrOpen},
		{`"open`, nil, shellquote.ErrOpen},
		{`open\`, nil, shellquote.ErrOpen},
		{"a\\\nb", []string{"ab"}, nil},
	} {
		got, err := shellquote.Split(tc.line)
		if !slices.Equal(got, tc.want) || !errors.Is(err, tc.err) {
			t.Errorf("Split(%s) = %q, %v; want %q, %v", tc.line, got, err, tc.want, tc.err)
		}
	}
}

// A shell reads exactly the words that were joined, in either form.
func TestShellsReadTheWords(t *testing.T) {
	words := []string{"", "a b", "it's", `b\s`, `\'`, "tab\there", "cr\rend", "nl\nin", "$HOME", "`id`", "*", "=ls", "über", "!!"}
	want := strings.Join(words, "\x1f") + "\x1f"
	for _, sh := range []string{"sh", "bash", "zsh", "fish"} {
		if _, err := exec.LookPath(sh); err != nil {
			t.Errorf("%s is not installed", sh)
			continue
		}
		for _, form := range []func([]string) string{shellquote.Join, shellquote.Typed} {
			line := "printf '%s\\037' " + form(words)
			out, err := exec.CommandContext(t.Context(), sh, "-c", line).Output()
			if err != nil || string(out) != want {
				t.Errorf("%s read %q, %v from %s", sh, out, err, line)
			}
		}
	}
}
