package kavaltui

import "bytes"

// scanner looks for the escape character at the beginning of a line, as ssh does, in what the user types. It works on bytes, keeps
// its state over chunks, and is blind within a bracketed paste.
type scanner struct {
	escape byte
	inLine bool // something was typed since the last line end
	held   bool // the escape character was typed at a line start and waits for its second
	paste  bool
	marker []byte // the beginning of a paste marker that was seen last
}

// actions are what a chunk asks for beside the bytes to send.
type actions struct {
	send   []byte
	detach bool
	help   bool
}

var (
	pasteBegin = []byte("\x1b[200~")
	pasteEnd   = []byte("\x1b[201~")
)

// scan takes a chunk of input. After a detach the rest of the chunk is dropped.
func (s *scanner) scan(chunk []byte) actions {
	var a actions
	for _, c := range chunk {
		if s.held {
			s.held = false
			switch {
			case c == '.':
				a.detach = true
				return a
			case c == '?':
				a.help = true
				continue
			case c == s.escape:
				a.send = append(a.send, c)
				s.inLine = true
				continue
			}
			a.send = append(a.send, s.escape)
			s.inLine = true
		}
		if c == s.escape && !s.inLine && !s.paste {
			s.held = true
			continue
		}
		a.send = append(a.send, c)
		s.note(c)
	}
	return a
}

// note follows line ends and paste markers.
func (s *scanner) note(c byte) {
	s.inLine = c != '\r' && c != '\n'
	s.marker = append(s.marker, c)
	for len(s.marker) > 0 && !bytes.HasPrefix(pasteBegin, s.marker) && !bytes.HasPrefix(pasteEnd, s.marker) {
		s.marker = s.marker[1:]
	}
	switch {
	case bytes.Equal(s.marker, pasteBegin):
		s.paste, s.marker = true, nil
	case bytes.Equal(s.marker, pasteEnd):
		s.paste, s.inLine, s.marker = false, true, nil
	}
}
