package vt

import (
	"bytes"
	"encoding/hex"
	"strconv"
)

const (
	maxReplies = 64 << 10
	// deviceAttributes is a VT220 with colours.
	deviceAttributes = "\x1b[?62;22c"
)

func itoa(n int) string                { return strconv.Itoa(n) }
func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

// output is what the terminal says: replies to the program, events to the caller.
type output struct {
	replies    []byte
	events     []Event
	eventBytes int
}

// reply queues an answer to the program. Answers that nobody takes are bounded: what comes then is not answered.
func (t *Terminal) reply(s string) {
	if len(t.out.replies)+len(s) <= maxReplies {
		t.out.replies = append(t.out.replies, s...)
	}
}

// Drain gives the answers to the program's queries since the last call, nil for none. They belong into the program's input.
func (t *Terminal) Drain() []byte {
	b := t.out.replies
	t.out.replies = nil
	return b
}

func (t *Terminal) statusReport() {
	switch t.param(0, 0) {
	case 5:
		t.reply("\x1b[0n")
	case 6:
		t.cursorReport("\x1b[")
	}
}

func (t *Terminal) cursorReport(prefix string) {
	y := t.y
	if t.modes.Origin {
		y -= t.top
	}
	t.reply(prefix + itoa(y+1) + ";" + itoa(t.x+1) + "R")
}

// dcsDispatch answers DECRQSS (intermediate $) and XTGETTCAP (+).
func (t *Terminal) dcsDispatch(inter byte, data []byte) {
	switch inter {
	case '$':
		t.settingReport(string(data))
	case '+':
		for name := range bytes.SplitSeq(data, []byte{';'}) {
			t.capabilityReport(name)
		}
	}
}

func (t *Terminal) settingReport(what string) {
	var value string
	switch what {
	case "m":
		value = "0" + string(t.pen.appendSGR(nil))
	case "r":
		value = itoa(t.top+1) + ";" + itoa(t.bottom+1)
	case " q":
		value = itoa(t.cursorStyle)
	case `"p`:
		value = "62;1"
	case `"q`:
		value = "0"
		if t.pen.attrs&attrProtected != 0 {
			value = "1"
		}
	default:
		t.reply("\x1bP0$r\x1b\\")
		return
	}
	t.reply("\x1bP1$r" + value + what + "\x1b\\")
}

// capabilityReport answers for one capability, whose name is in hexadecimal.
func (t *Terminal) capabilityReport(name []byte) {
	decoded, err := hex.DecodeString(string(name))
	if err != nil || len(decoded) > 64 {
		return
	}
	var value string
	switch string(decoded) {
	case "TN", "name":
		value = "xterm-256color"
	case "Co", "colors":
		value = "256"
	case "RGB":
		value = "8/8/8"
	default:
		t.reply("\x1bP0+r" + string(name) + "\x1b\\")
		return
	}
	t.reply("\x1bP1+r" + string(name) + "=" + hex.EncodeToString([]byte(value)) + "\x1b\\")
}
