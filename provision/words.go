package provision

import (
	"regexp"
	"strings"
	"sync"
)

// What words may be made of. They are checked by hand rather than by regular expressions, whose counted repetitions each start of each
// program would pay for.
const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// madeOf reports whether s has least to most bytes, each of them one of chars.
func madeOf(s string, least, most int, chars string) bool {
	return len(s) >= least && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune(chars, r)
	})
}

// pattern is a regular expression that is compiled when it is first needed.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
