package vt

import "unicode/utf8"

// Where in a sequence the parser is.
type parseState uint8

const (
	stGround parseState = iota
	stEscape            // after ESC, maybe with intermediates
	stCSI
	stCSIIgnore // a malformed CSI, up to its final byte
	stOSC
	stDCS     // parameters of a DCS
	stDCSData // its data
	stString  // SOS, PM, APC: skipped
)

const (
	maxParams = 64
	maxParam  = 99_999
	maxOSC    = 1 << 20
	maxDCS    = 64 << 10
	keepBuf   = 4 << 10 // a string buffer larger than this is let go after use
)

// A parser cuts the stream. All of it carries over from one Write to the next.
type parser struct {
	state   parseState
	carry   [utf8.UTFMax]byte // an incomplete character
	carried int

	params  [maxParams]int
	colons  uint64 // bit i: params[i] came after a colon
	nparams int
	marker  byte // one of < = > ? at the start of the parameters
	inter   [2]byte
	ninter  int

	str      []byte // of OSC and DCS
	overflow bool   // the string was longer than is allowed
	lastC2   bool   // the string's last byte was 0xc2, the first half of a C1 control in UTF-8
}

// Write takes output of the program. It always takes all of it and returns no error. However the output is cut into writes,
// the state is the same.
func (t *Terminal) Write(p []byte) (int, error) {
	if len(p) > 0 {
		t.gen++
	}
	for rest := p; len(rest) > 0; {
		var n int
		switch t.state {
		case stGround:
			n = t.ground(rest)
		case stEscape:
			n = t.escape(rest[0])
		case stCSI, stCSIIgnore, stDCS:
			n = t.sequence(rest)
		default:
			n = t.stringData(rest)
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// ground takes bytes up to the end or the start of a sequence, at least one.
func (t *Terminal) ground(p []byte) int {
	i := 0
	if t.carried > 0 {
		if i = t.completeRune(p); t.state != stGround {
			return i
		}
	}
	for i < len(p) {
		b := p[i]
		if b-0x20 < 0x5f {
			j := i + 1
			for j < len(p) && p[j]-0x20 < 0x5f {
				j++
			}
			t.printASCII(p[i:j])
			i = j
			continue
		}
		if b >= utf8.RuneSelf {
			n := t.wideRun(p[i:])
			i += n
			if t.state != stGround {
				return i
			}
			continue
		}
		i++
		if b == 0x1b {
			t.startEscape()
			if i+1 < len(p) && p[i] == '[' {
				t.state = stCSI
				i++
			}
			return i
		}
		t.control(b)
	}
	return i
}

// wideRun takes characters beyond ASCII. It stops at ASCII, after a C1 control, and before a character that is not complete,
// which it carries.
func (t *Terminal) wideRun(p []byte) int {
	i := 0
	for i < len(p) && p[i] >= utf8.RuneSelf {
		if r, ok := threeBytes(p[i:]); ok {
			i += 3
			t.printRune(r)
			continue
		}
		r, n := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && n == 1 && !utf8.FullRune(p[i:]) {
			t.carried = copy(t.carry[:], p[i:])
			return len(p)
		}
		i += n
		if r < 0xa0 {
			t.c1(byte(r))
			return i
		}
		t.printRune(r)
	}
	return i
}

// threeBytes decodes a character of three bytes that cannot be a surrogate or too long: most of what is not ASCII on a screen.
func threeBytes(p []byte) (rune, bool) {
	if len(p) < 3 {
		return 0, false
	}
	a, b, c := p[0], p[1], p[2]
	if a-0xe1 > 0xe || a == 0xed || b&0xc0 != 0x80 || c&0xc0 != 0x80 {
		return 0, false
	}
	return rune(a&0xf)<<12 | rune(b&0x3f)<<6 | rune(c&0x3f), true
}

// completeRune goes on with a character that an earlier write began. Each byte of one that turns out wrong is U+FFFD.
func (t *Terminal) completeRune(p []byte) int {
	for i, b := range p {
		t.carry[t.carried] = b
		r, n := utf8.DecodeRune(t.carry[:t.carried+1])
		switch {
		case n == t.carried+1:
			t.carried = 0
			if r < 0xa0 {
				t.c1(byte(r))
			} else {
				t.printRune(r)
			}
			return i + 1
		case utf8.FullRune(t.carry[:t.carried+1]):
			wrong := t.carried
			t.carried = 0
			for range wrong {
				t.printRune(utf8.RuneError)
			}
			return i
		}
		t.carried++
	}
	return len(p)
}

func (t *Terminal) startEscape() {
	t.state = stEscape
	t.clearSequence()
}

func (t *Terminal) clearSequence() {
	t.params[0] = 0
	t.colons, t.nparams, t.marker, t.ninter = 0, 0, 0, 0
}

// abort handles what ends or interrupts any sequence, and reports whether b did.
func (t *Terminal) abort(b byte) bool {
	switch b {
	case 0x18, 0x1a:
		t.state = stGround
	case 0x1b:
		t.startEscape()
	default:
		return false
	}
	return true
}

func (t *Terminal) escape(b byte) int {
	switch {
	case t.abort(b) || b == 0x7f:
	case b < 0x20:
		t.control(b)
	case b >= utf8.RuneSelf:
		t.state = stGround
		return 0
	case b < 0x30:
		t.intermediate(b)
	default:
		t.state = stGround
		t.escDispatch(b)
	}
	return 1
}

func (t *Terminal) intermediate(b byte) {
	if t.ninter < len(t.inter) {
		t.inter[t.ninter] = b
	}
	t.ninter++
}

// sequence takes the parameters of a CSI or DCS up to its final byte.
func (t *Terminal) sequence(p []byte) int {
	for i, b := range p {
		switch {
		case b-'0' < 10:
			if t.ninter > 0 {
				t.spoil()
			} else if t.nparams == 0 {
				t.nparams = 1
				t.params[0] = int(b - '0')
			} else if t.nparams <= maxParams {
				v := &t.params[t.nparams-1]
				*v = min(*v*10+int(b-'0'), maxParam)
			}
		case b == ';' || b == ':':
			if t.ninter > 0 {
				t.spoil()
			}
			t.nextParam(b == ':')
		case b >= 0x40 && b < 0x7f:
			t.finish(b)
			return i + 1
		case b >= 0x3c && b < 0x40:
			if t.nparams > 0 || t.marker != 0 || t.ninter > 0 {
				t.spoil()
			}
			t.marker = b
		case b >= 0x20 && b < 0x30:
			t.intermediate(b)
		case b == 0x18, b == 0x1a, b == 0x1b:
			t.abort(b)
			return i + 1
		case b < 0x20 && t.state != stDCS:
			t.control(b)
			if t.state != stCSI && t.state != stCSIIgnore {
				return i + 1
			}
		}
	}
	return len(p)
}

// spoil marks a malformed sequence, which does nothing once it ends. A DCS keeps its state and is spoilt by its intermediates.
func (t *Terminal) spoil() {
	if t.state == stCSI {
		t.state = stCSIIgnore
	} else {
		t.ninter = len(t.inter) + 1
	}
}

func (t *Terminal) nextParam(colon bool) {
	if t.nparams == 0 {
		t.nparams = 1
	}
	if t.nparams < maxParams {
		t.params[t.nparams] = 0
		if colon {
			t.colons |= 1 << t.nparams
		}
	}
	t.nparams = min(t.nparams+1, maxParams+1)
}

func (t *Terminal) finish(final byte) {
	t.nparams = min(t.nparams, maxParams)
	switch t.state {
	case stCSI:
		t.state = stGround
		if t.ninter <= len(t.inter) {
			t.csiDispatch(final)
		}
	case stDCS:
		t.startString(stDCSData)
		if t.ninter > len(t.inter) || final != 'q' || t.ninter != 1 {
			t.state = stString
		}
	default:
		t.state = stGround
	}
}

func (t *Terminal) startString(s parseState) {
	t.state = s
	t.str = t.str[:0]
	t.overflow, t.lastC2 = false, false
}

// stringData takes bytes of an OSC, DCS or skipped string up to its end: ST, BEL for an OSC, CAN, SUB or any ESC.
func (t *Terminal) stringData(p []byte) int {
	i := 0
	for i < len(p) {
		b := p[i]
		if b < 0x20 || b == 0x9c && t.lastAt(p, i) == 0xc2 {
			break
		}
		i++
	}
	t.keep(p[:i])
	if i == len(p) {
		return i
	}
	switch b := p[i]; {
	case b == 0x9c:
		if n := len(t.str); n > 0 {
			t.str = t.str[:n-1]
		}
		t.endString(false)
		t.state = stGround
	case b == 0x07 && t.state == stOSC:
		t.endString(true)
		t.state = stGround
	case b == 0x18 || b == 0x1a:
		t.dropString()
		t.state = stGround
	case b == 0x1b:
		t.endString(false)
		t.startEscape()
	default:
		t.lastC2 = false
	}
	return i + 1
}

// lastAt is the byte of the string before p[i].
func (t *Terminal) lastAt(p []byte, i int) byte {
	if i > 0 {
		return p[i-1]
	}
	if t.lastC2 {
		return 0xc2
	}
	return 0
}

func (t *Terminal) keep(p []byte) {
	if len(p) == 0 {
		return
	}
	t.lastC2 = p[len(p)-1] == 0xc2
	limit := maxOSC
	switch t.state {
	case stString:
		return
	case stDCSData:
		limit = maxDCS
	}
	if t.overflow || len(t.str)+len(p) > limit {
		t.overflow = true
		t.str = t.str[:0]
		return
	}
	t.str = append(t.str, p...)
}

func (t *Terminal) endString(bel bool) {
	if !t.overflow {
		switch t.state {
		case stOSC:
			t.oscDispatch(t.str, bel)
		case stDCSData:
			t.dcsDispatch(t.inter[0], t.str)
		}
	}
	t.dropString()
}

func (t *Terminal) dropString() {
	t.str = t.str[:0]
	if cap(t.str) > keepBuf {
		t.str = nil
	}
}

// control acts on a C0 control. NUL and DEL are nothing.
func (t *Terminal) control(b byte) {
	if b == 0 || b == 0x7f {
		return
	}
	t.last = 0
	switch b {
	case 0x07:
		t.emit(Event{Kind: EventBell})
	case 0x08:
		t.backspace()
	case 0x09:
		t.tab(1)
	case 0x0a, 0x0b, 0x0c:
		t.lineFeed()
		if t.modes.Newline {
			t.x = 0
		}
	case 0x0d:
		t.x, t.pend = 0, false
	case 0x0e:
		t.gl = 1
	case 0x0f:
		t.gl = 0
	}
}

// c1 acts on a C1 control, which is only one when it comes as UTF-8 or as ESC and a letter.
func (t *Terminal) c1(b byte) {
	if b != 0x9b { // a CSI decides by its final byte
		t.last = 0
	}
	switch b {
	case 0x84:
		t.lineFeed()
	case 0x85:
		t.lineFeed()
		t.x = 0
	case 0x88:
		t.tabs[t.x] = true
	case 0x8d:
		t.reverseIndex()
	case 0x8e:
		t.shift = 2
	case 0x8f:
		t.shift = 3
	case 0x90:
		t.clearSequence()
		t.state = stDCS
	case 0x98, 0x9e, 0x9f:
		t.startString(stString)
	case 0x9a:
		t.reply(deviceAttributes)
	case 0x9b:
		t.clearSequence()
		t.state = stCSI
	case 0x9d:
		t.startString(stOSC)
	}
}

func (t *Terminal) escDispatch(b byte) {
	if b != '[' || t.ninter > 0 {
		t.last = 0
	}
	if t.ninter > 0 {
		t.escIntermediate(b)
		return
	}
	switch b {
	case '7':
		t.saveCursor()
	case '8':
		t.restoreCursor()
	case '=':
		t.modes.ApplicationKeypad = true
	case '>':
		t.modes.ApplicationKeypad = false
	case 'c':
		t.reset()
	case 'n':
		t.gl = 2
	case 'o':
		t.gl = 3
	default:
		if b >= 0x40 && b < 0x60 {
			t.c1(b + 0x40)
		}
	}
}

func (t *Terminal) escIntermediate(b byte) {
	if t.ninter > 1 {
		return
	}
	switch i := t.inter[0]; i {
	case '#':
		if b == '8' {
			t.align()
		}
	case '(', ')', '*', '+':
		t.charsets[i-'('] = b
	case '-', '.', '/':
		t.charsets[i-'-'+1] = 'B'
	}
}
