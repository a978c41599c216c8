package kavaltui

import (
	"bytes"
	"regexp"
)

// stripper takes the answers of the user's own terminal out of what it sends: the daemon's screen answers the program's questions
// already. It keeps what may be the beginning of an answer until the rest comes, except for an ESC at the end, which is a key, and
// gives up on one that grows past maxHeld.
type stripper struct {
	held []byte
}

// maxHeld bounds an answer; a key like Alt-] looks like the beginning of one.
const maxHeld = 8192

// csiReply are answers to device and mode questions: a final y with $, c, n, R or t, with something before it; and the flags of the
// kitty keyboard, a u after a ?, which no key has.
var csiReply = regexp.MustCompile(`^\x1b\[(?:(?:[?>=][0-9;:]*|[0-9;:]+)(?:\$y|[cnRt])|\?[0-9;:]*u)$`)

// The beginnings of answers in strings; # stands for a digit.
var (
	oscReplies = []string{"4;", "1#;", "7501;"}
	dcsReplies = []string{">|", "0$r", "1$r", "0+r", "1+r"} // version, settings, terminfo
)

// strip takes a chunk and gives what is to be passed on.
func (s *stripper) strip(chunk []byte) []byte {
	in := append(s.held, chunk...)
	s.held = nil
	var out []byte
	for len(in) > 0 {
		esc := bytes.IndexByte(in, 0x1b)
		if esc < 0 {
			return append(out, in...)
		}
		out, in = append(out, in[:esc]...), in[esc:]
		n, reply := sequence(in)
		switch {
		case n == 0 && len(in) > maxHeld:
			return append(out, in...)
		case n == 0:
			s.held = bytes.Clone(in)
			return out
		}
		if !reply {
			out = append(out, in[:n]...)
		}
		in = in[n:]
	}
	return out
}

// sequence measures the escape sequence that in begins with, and says whether it is an answer. 0 means that its end is not
// there yet.
func sequence(in []byte) (n int, reply bool) {
	if len(in) == 1 {
		return 1, false // the Escape key
	}
	switch in[1] {
	case '[':
		return csi(in)
	case ']':
		return stringSequence(in, oscReplies)
	case 'P':
		return stringSequence(in, dcsReplies)
	}
	return 1, false
}

// csi ends with its final byte. What cannot be an answer any more is passed on at once.
func csi(in []byte) (int, bool) {
	for i := 2; i < len(in); i++ {
		c := in[i]
		switch {
		case c >= 0x40 && c <= 0x7e:
			return i + 1, csiReply.Match(in[:i+1])
		case c < 0x20 || c > 0x7e || i > 64:
			return i, false
		}
	}
	return 0, false
}

// stringSequence ends with BEL or ST. One that cannot be an answer is passed on at once, whatever its length.
func stringSequence(in []byte, answers []string) (int, bool) {
	if !mayBegin(in[2:], answers) {
		return 2, false
	}
	for i := 2; i < len(in); i++ {
		switch in[i] {
		case 0x07:
			return i + 1, true
		case 0x1b:
			if i+1 == len(in) {
				return 0, false
			}
			if in[i+1] == '\\' {
				return i + 2, true
			}
			return i, false
		}
	}
	return 0, false
}

// mayBegin reports whether body begins like one of the answers, or may once more of it is there.
func mayBegin(body []byte, answers []string) bool {
	for _, a := range answers {
		n := min(len(a), len(body))
		ok := true
		for i := range n {
			digit := a[i] == '#' && body[i] >= '0' && body[i] <= '9'
			ok = ok && (digit || a[i] == body[i])
		}
		if ok {
			return true
		}
	}
	return false
}
