package vt

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxTitle      = 2048
	maxTitles     = 16
	maxText       = 64 << 10 // of a command, a path, a notification
	maxStatus     = 4096     // of a whole OSC 7501
	maxStatusText = 2048     // of its decoded message
	maxEvents     = 512
	maxEventBytes = 2 << 20
)

// Events gives what the program said since the last call, in order. When nobody calls, the oldest are dropped; of titles, directories
// and bells in a row only the last is kept.
func (t *Terminal) Events() []Event {
	e := t.out.events
	t.out.events, t.out.eventBytes = nil, 0
	return e
}

func (e Event) size() int { return len(e.Text) + len(e.Title) + len(e.Host) + 128 }

func (t *Terminal) emit(e Event) {
	o := &t.out
	if n := len(o.events); n > 0 && o.events[n-1].Kind == e.Kind {
		switch e.Kind {
		case EventTitle, EventCWD, EventBell:
			o.eventBytes += e.size() - o.events[n-1].size()
			o.events[n-1] = e
			return
		}
	}
	o.events = append(o.events, e)
	o.eventBytes += e.size()
	if len(o.events) > maxEvents || o.eventBytes > maxEventBytes {
		o.dropOldest()
	}
}

// dropOldest drops a quarter of the events, and more as long as they are too many bytes.
func (o *output) dropOldest() {
	drop := 0
	for drop < len(o.events)-1 && (drop <= maxEvents/4 || o.eventBytes > maxEventBytes) {
		o.eventBytes -= o.events[drop].size()
		drop++
	}
	o.events = slices.Delete(o.events, 0, drop)
}

// plain makes text safe to show anywhere: valid UTF-8 without control characters, of at most limit bytes.
func plain(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n == 1 {
			s = s[:len(s)-1]
		}
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

func (t *Terminal) setTitle(s string) {
	t.title = plain(s, maxTitle)
	t.emit(Event{Kind: EventTitle, Text: t.title})
}

func (t *Terminal) oscDispatch(data []byte, bel bool) {
	t.last = 0
	number, rest, _ := strings.Cut(string(data), ";")
	switch number {
	case "0", "2":
		t.setTitle(rest)
	case "7":
		t.oscDirectory(rest)
	case "8":
		t.oscLink(rest)
	case "9":
		t.oscNotify(rest)
	case "777":
		t.oscNotifyTitled(rest)
	case "52":
		t.oscClipboard(rest)
	case "133", "633":
		t.oscMark(number, rest)
	case "7501":
		t.oscStatus(rest, bel)
	}
}

// oscDirectory takes file URLs only, with an absolute path.
func (t *Terminal) oscDirectory(s string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "file" || !strings.HasPrefix(u.Path, "/") || len(s) > maxText {
		return
	}
	if path := plain(u.Path, maxText); path == u.Path {
		t.emit(Event{Kind: EventCWD, Text: path, Host: plain(u.Host, maxTitle)})
	}
}

// oscLink sets the hyperlink of what is printed next: "params;uri".
func (t *Terminal) oscLink(s string) {
	params, uri, ok := strings.Cut(s, ";")
	if !ok {
		return
	}
	l := link{uri: plain(uri, maxLinkURI)}
	for p := range strings.SplitSeq(params, ":") {
		if id, ok := strings.CutPrefix(p, "id="); ok {
			l.id = plain(id, 256)
		}
	}
	if l.uri == "" {
		l.id = ""
	}
	if t.full() {
		t.sweep()
	}
	t.pen.link = t.linkID(l)
	t.penStale = true
}

// oscNotify is OSC 9: a notification, or "4;state;percent" for progress. Other numbers first are other terminals' commands.
func (t *Terminal) oscNotify(s string) {
	if p, ok := strings.CutPrefix(s, "4;"); ok {
		t.emit(Event{Kind: EventProgress, Text: plain(p, maxTitle)})
		return
	}
	if first, _, ok := strings.Cut(s, ";"); ok {
		if _, err := strconv.Atoi(first); err == nil {
			return
		}
	}
	t.emit(Event{Kind: EventNotify, Text: plain(s, maxText)})
}

// oscNotifyTitled is OSC 777: "notify;title;body".
func (t *Terminal) oscNotifyTitled(s string) {
	s, ok := strings.CutPrefix(s, "notify;")
	if !ok {
		return
	}
	title, body, _ := strings.Cut(s, ";")
	t.emit(Event{Kind: EventNotify, Title: plain(title, maxTitle), Text: plain(body, maxText)})
}

// oscClipboard takes what a program puts into the clipboard. A question for its content is not answered here.
func (t *Terminal) oscClipboard(s string) {
	target, data, ok := strings.Cut(s, ";")
	if !ok || data == "?" {
		return
	}
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		if text, err = base64.RawStdEncoding.DecodeString(data); err != nil {
			return
		}
	}
	t.emit(Event{Kind: EventClipboard, Target: plain(target, 16), Text: string(text)})
}

// oscMark is what a shell says of its prompt and commands.
func (t *Terminal) oscMark(number, s string) {
	mark, rest, _ := strings.Cut(s, ";")
	switch mark {
	case "A":
		t.emit(Event{Kind: EventPrompt})
	case "C":
		t.emit(Event{Kind: EventCommandStart})
	case "D":
		e := Event{Kind: EventCommandEnd}
		code, _, _ := strings.Cut(rest, ";")
		if n, err := strconv.Atoi(code); err == nil {
			e.Exit = &n
		}
		t.emit(e)
	case "E":
		if number == "633" {
			t.emit(Event{Kind: EventCommand, Text: plain(unescapeMark(rest), maxText)})
		}
	}
}

// unescapeMark undoes what shells do to a command line in an OSC 633: \xHH for a byte and \\ for a backslash. Other backslashes
// stand for themselves. Control characters become spaces.
func unescapeMark(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			if s[i+1] == '\\' {
				i++
			} else if s[i+1] == 'x' && i+3 < len(s) {
				if v, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
					c = byte(v)
					i += 3
				}
			}
		}
		if c < 0x20 || c == 0x7f {
			c = ' '
		}
		b = append(b, c)
	}
	return string(b)
}

// oscStatus is the program status protocol: a question, which is answered with itself, or "key=value:key=value".
func (t *Terminal) oscStatus(s string, bel bool) {
	if s == "?" {
		end := "\x1b\\"
		if bel {
			end = "\a"
		}
		t.reply("\x1b]7501;?" + end)
		return
	}
	if len(s) > maxStatus {
		return
	}
	st := &ProgramStatus{}
	for field := range strings.SplitSeq(s, ":") {
		key, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		if !ok {
			continue
		}
		switch key {
		case "state":
			st.State = plain(value, 64)
		case "app":
			st.App = plain(value, 256)
		case "kind":
			st.Kind = plain(value, 64)
		case "id":
			st.ID = plain(value, 256)
		case "msg":
			st.Message = decodeMessage(value)
		}
	}
	switch st.State {
	case "idle", "working", "blocked", "done", "error", "clear":
		t.emit(Event{Kind: EventProgramStatus, Status: st})
	}
}

// decodeMessage gives the text of a base64 message, empty if it is none or too long.
func decodeMessage(s string) string {
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil || len(text) > maxStatusText {
		return ""
	}
	return plain(string(text), maxStatusText)
}
