package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"kolu/internal/fault"
)

const (
	prefix    = "@kolu "
	maxNoise  = 64 << 10 // bytes that are not ours
	maxLines  = 64 << 10 // bytes that are
	maxLine   = 16 << 10
	maxBanner = 8 << 10
)

// Preamble is what the far side printed before yamux.
type Preamble struct {
	// Banner is nil when the facts came instead.
	Banner *Banner
	// Facts are the fact lines, KEY to VALUE. A key that came twice has both values, a newline between them.
	Facts map[string]string
	// Noise is everything that was not ours, as it came.
	Noise string
	// LastMark is the text of the last mark line, "" if none came.
	LastMark string
	// Heard reports that at least one line of ours came.
	Heard bool
}

// ReadPreamble reads up to and including the banner or the end of the facts, and never a byte further. What was read is
// returned with every error. Errors are *fault.Error: no-shell (r ended before any line of ours), front-died (it
// ended later), noise (more than 64 KiB that was not ours), pty-on-wire, front-refused (a banner that does not decode).
// When ctx ends, r is closed if it is an io.Closer, and the error wraps the cause of ctx.
func ReadPreamble(ctx context.Context, r io.Reader, nonce string) (Preamble, error) {
	if err := checkNonce(nonce); err != nil {
		return Preamble{}, err
	}
	if c, ok := r.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() { c.Close() })
		defer stop()
	}
	s := scanner{r: r, marker: prefix + nonce + " "}
	err := s.run()
	s.p.Noise = string(s.noise)
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("read preamble: %w", context.Cause(ctx))
	}
	return s.p, err
}

type scanner struct {
	r      io.Reader
	marker string
	p      Preamble
	noise  []byte
	ours   int // bytes of our lines
}

func (s *scanner) run() error {
	for {
		line, err := s.line()
		if err != nil {
			return s.ended(err)
		}
		done, err := s.take(line)
		if done || err != nil {
			return err
		}
	}
}

// line reads one line, newline included, byte by byte: what follows it belongs to someone else. A line that is not ours
// comes in pieces when it is long.
func (s *scanner) line() (string, error) {
	var (
		line []byte
		one  [1]byte
	)
	for {
		if n, err := s.r.Read(one[:]); n == 0 {
			if err == nil {
				continue
			}
			s.noise = append(s.noise, line...)
			return "", err
		}
		line = append(line, one[0])
		if one[0] == '\n' {
			return string(line), nil
		}
		if len(line) >= maxLine || len(s.noise)+len(line) > maxNoise+maxLine {
			return string(line), nil
		}
	}
}

// take sorts one line in. Noise without a newline may stand before our marker on the same line.
func (s *scanner) take(line string) (done bool, err error) {
	before, ours, found := strings.Cut(line, s.marker)
	s.noise = append(s.noise, before...)
	if len(s.noise) > maxNoise {
		return false, s.fault(fault.Noise, fmt.Sprintf("the login shell printed more than %d KiB and nothing of ours", maxNoise>>10),
			"make the shell's start-up files print only when the shell is interactive")
	}
	if !found {
		return false, nil
	}
	s.p.Heard = true
	if s.ours += len(ours); s.ours > maxLines {
		return false, s.fault(fault.Noise, "the host's facts are longer than allowed", "")
	}
	text, whole := strings.CutSuffix(ours, "\n")
	if !whole {
		return false, s.fault(fault.FrontDied, "a line of the host is longer than allowed", "")
	}
	text, cr := strings.CutSuffix(text, "\r")
	if cr {
		return false, s.fault(fault.PTYOnWire, "the server put a terminal on the session, which changes the bytes",
			"remove RequestTTY from the ssh configuration, or the forced command on the server")
	}
	word, rest, _ := strings.Cut(text, " ")
	return s.word(word, rest)
}

func (s *scanner) word(word, rest string) (done bool, err error) {
	switch word {
	case "mark":
		s.p.LastMark = rest
	case "fact":
		s.fact(rest)
	case "end":
		return true, nil
	case "banner":
		var b Banner
		if err := json.Unmarshal([]byte(rest), &b); err != nil {
			e := s.fault(fault.FrontRefused, "the banner of the front does not decode", "")
			e.Err = err
			return false, e
		}
		s.p.Banner = &b
		return true, nil
	}
	return false, nil // a word of a later version
}

func (s *scanner) fact(text string) {
	key, value, _ := strings.Cut(text, " ")
	if s.p.Facts == nil {
		s.p.Facts = map[string]string{}
	}
	if old, twice := s.p.Facts[key]; twice {
		value = old + "\n" + value
	}
	s.p.Facts[key] = value
}

func (s *scanner) ended(err error) error {
	e := s.fault(fault.NoShell, "the login shell ended without running our command", "ssh to the host and see what the shell does with a command")
	if s.p.Heard {
		e = s.fault(fault.FrontDied, "the front ended before it said anything", "")
		if s.p.LastMark != "" {
			e.Detail = "the front ended before it said anything; the last step was " + fault.Printable(s.p.LastMark, 240)
		}
	}
	if !errors.Is(err, io.EOF) {
		e.Err = err
	}
	return e
}

func (s *scanner) fault(code fault.Code, detail, remedy string) *fault.Error {
	return &fault.Error{Code: code, Stage: "probe", Who: fault.Host, Detail: detail, Remedy: remedy,
		Evidence: fault.Printable(string(s.noise), 600)}
}
