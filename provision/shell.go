package provision

import (
	"fmt"
	"strings"
)

// What reaches a login shell is one physical line: the word exec, /bin/sh, -c and words in single quotes. bash, zsh, fish, tcsh,
// dash, ash, ksh and nu all read that alike, as long as no word holds a quote, a backslash (fish), an exclamation mark (tcsh), a
// newline (tcsh) or is very long (csh). The script itself is POSIX and is cut into words that /bin/sh puts together again.

const maxWord = 900

// shLine wraps a script. It panics on one that a login shell would spoil: that is a mistake in this package, since
// everything from outside is checked by [carries] first.
func shLine(script string) string {
	if i := strings.IndexAny(script, "'!\\\n\r\x00"); i >= 0 {
		panic(fmt.Sprintf("provision: script has %q, which some login shells spoil", script[i]))
	}
	var words []string
	for len(script) > maxWord {
		cut := maxWord
		for cut > 1 && script[cut]&0xc0 == 0x80 { // not inside a character
			cut--
		}
		words, script = append(words, script[:cut]), script[cut:]
	}
	words = append(words, script)
	if len(words) == 1 {
		return "exec /bin/sh -c '" + words[0] + "'"
	}
	var join strings.Builder
	for i := range words {
		fmt.Fprintf(&join, "${%d}", i)
	}
	return `exec /bin/sh -c 'eval "` + join.String() + `"' '` + strings.Join(words, "' '") + "'"
}

// carries reports whether a path or word from a host may stand inside double quotes of a script.
func carries(s string) bool {
	for _, r := range s {
		if r < 0x20 || r == 0x7f || strings.ContainsRune("'\"!\\$`", r) {
			return false
		}
	}
	return s != ""
}

// script joins the statements of a script. Each is complete in itself.
func script(statements ...string) string { return strings.Join(statements, "; ") }

// setNonce puts the nonce together on the far side, so that an echo of the line can never look like an answer.
func setNonce(nonce string) string {
	half := len(nonce) / 2
	return `N=` + nonce[:half] + `; N=$N"` + nonce[half:] + `"`
}

// say defines the functions that print our lines: m WORD marks how far the script got, f KEY VALUE states a fact.
// Each is one write, so that a job in the background cannot come in between.
const say = `m(){ echo "@kolu $N mark $*"; }; f(){ k=$1; shift; echo "@kolu $N fact $k $*"; }`
