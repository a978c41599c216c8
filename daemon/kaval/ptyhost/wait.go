package ptyhost

import (
	"bytes"
	"context"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"kolu/daemon/kaval"
)

// Wait blocks until the condition, the timeout or the terminal's end. A match sees the raw bytes after the call (or After), "$"
// means the end of the output so far, and "^" the place where the match began to look. A waiter whose expression cannot keep up
// with the output for longer than the ring holds goes on with what the ring has.
func (h *Host) Wait(ctx context.Context, id kaval.TerminalID, req kaval.WaitRequest) (kaval.WaitResult, error) {
	began := time.Now()
	w, err := newWaiter(req, began)
	if err != nil {
		return kaval.WaitResult{}, err
	}
	result := kaval.WaitResult{ID: id}
	t, err := h.find(ctx, id)
	if err != nil {
		return h.lateWait(result, err)
	}
	if err := t.await(ctx, w, &result); err != nil {
		return kaval.WaitResult{}, err
	}
	result.ElapsedMS = time.Since(began).Milliseconds()
	return result, nil
}

// lateWait answers for a terminal that had ended before the call.
func (h *Host) lateWait(result kaval.WaitResult, err error) (kaval.WaitResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tomb, ok := h.tombs.find(result.ID)
	if !ok {
		return kaval.WaitResult{}, err
	}
	result.Result, result.ExitCode, result.Offset = kaval.Gone, &tomb.code, tomb.offset
	return result, nil
}

// waiter is the condition of one wait and what it has seen.
type waiter struct {
	req   kaval.WaitRequest
	began time.Time
	idle  time.Duration
	match *matcher
	pos   int64 // output before it was seen, or does not count
}

func newWaiter(req kaval.WaitRequest, began time.Time) (*waiter, error) {
	if (req.IdleMS != 0) == (req.Match != "") {
		return nil, kaval.Invalidf("a wait takes either a time of silence or an expression")
	}
	if req.IdleMS < 0 || req.IdleMS > kaval.MaxWaitMS || req.TimeoutMS < 0 || req.TimeoutMS > kaval.MaxWaitMS {
		return nil, kaval.Invalidf("a time is not within 1..%d ms", int64(kaval.MaxWaitMS))
	}
	if req.After != nil && *req.After < 0 {
		return nil, kaval.Invalidf("after must be at least 0")
	}
	w := &waiter{req: req, began: began, idle: time.Duration(req.IdleMS) * time.Millisecond}
	var err error
	if req.Match != "" {
		w.match, err = newMatcher(req.Match)
	}
	return w, err
}

func (t *terminal) await(ctx context.Context, w *waiter, result *kaval.WaitResult) error {
	var timeout <-chan time.Time
	if w.req.TimeoutMS > 0 {
		timer := time.NewTimer(time.Duration(w.req.TimeoutMS) * time.Millisecond)
		defer timer.Stop()
		timeout = timer.C
	}
	quiet := time.NewTimer(time.Hour)
	defer quiet.Stop()
	t.begin(w)
	moving := t.host.movingNow()
	for {
		s := t.look(w)
		if w.judge(s, result) {
			return nil
		}
		if s.left > 0 {
			quiet.Reset(s.left)
		}
		select {
		case <-s.change:
		case <-quiet.C:
		case <-timeout:
			result.Result = kaval.Timeout
			return nil
		case <-t.host.closing:
			result.Result = kaval.Closed
			return nil
		case <-moving:
			result.Result, result.Moved = kaval.Closed, true
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin says from where output counts.
func (t *terminal) begin(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.pos = t.out.end
	if w.req.After != nil {
		w.pos = min(*w.req.After, t.out.end)
	}
}

// sight is what a waiter sees in one moment.
type sight struct {
	data   []byte          // output that it had not seen, if it has an expression
	offset int64           // after that
	left   time.Duration   // of the silence that it waits for
	change <-chan struct{} // closed when there is more to see
	ended  bool
	code   int
}

// atOnce is a change that has happened.
var atOnce = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

func (t *terminal) look(w *waiter) sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.match == nil {
		since := t.quiet
		if w.began.After(since) {
			since = w.began
		}
		return sight{offset: t.out.end, left: w.idle - time.Since(since), change: t.change(), ended: t.ended, code: t.code}
	}
	w.pos = max(w.pos, t.out.start())
	data := t.out.read(w.pos, ringSize)
	w.pos += int64(len(data))
	if len(data) > 0 { // the expression takes its time; look again after it
		return sight{data: data, offset: w.pos, change: atOnce}
	}
	return sight{offset: w.pos, change: t.change(), ended: t.ended, code: t.code}
}

// judge reports whether the wait is over, and how. What was printed before the end counts before the end.
func (w *waiter) judge(s sight, result *kaval.WaitResult) bool {
	result.Offset = s.offset
	if len(s.data) > 0 {
		line, ok := w.match.feed(s.data)
		if ok {
			result.Result, result.Fired, result.MatchedLine = kaval.Met, "match", line
		}
		return ok
	}
	switch {
	case s.ended:
		result.Result, result.ExitCode = kaval.Gone, &s.code
	case w.match == nil && s.left <= 0:
		result.Result, result.Fired = kaval.Met, "idle"
	}
	return result.Result != ""
}

// matcher looks for an expression in a stream. It keeps a window of the stream's end, so that a match may span reads.
type matcher struct {
	re     *regexp.Regexp
	inside *regexp.Regexp // re for a window that is not the stream's beginning, where "^" holds no more
	window []byte
	cut    bool
}

func newMatcher(expr string) (*matcher, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, kaval.Invalidf("match: %v", err)
	}
	if re.MatchString("") {
		return nil, kaval.Invalidf("match %q also matches nothing at all, so it would be met at once", expr)
	}
	inside, err := withoutBegin(expr)
	if err != nil {
		return nil, kaval.Invalidf("match: %v", err)
	}
	return &matcher{re: re, inside: inside}, nil
}

// withoutBegin is the expression with every "beginning of text" replaced by what never matches.
func withoutBegin(expr string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	var walk func(*syntax.Regexp)
	walk = func(n *syntax.Regexp) {
		if n.Op == syntax.OpBeginText {
			n.Op = syntax.OpNoMatch
		}
		for _, sub := range n.Sub {
			walk(sub)
		}
	}
	walk(tree)
	return regexp.Compile(tree.String())
}

// feed adds output and gives the line of the first match.
func (m *matcher) feed(data []byte) (line string, ok bool) {
	m.window = append(m.window, data...)
	re := m.re
	if m.cut {
		re = m.inside
	}
	if at := re.FindIndex(m.window); at != nil {
		return lineAt(m.window, at[0]), true
	}
	if extra := len(m.window) - kaval.MatchWindow; extra > 0 {
		m.window = append(m.window[:0:0], m.window[extra:]...)
		m.cut = true
	}
	return "", false
}

// maxLine bounds a matched line, in bytes.
const maxLine = 4 << 10

// lineAt is the line that holds the byte at, as far as it was written, without escapes.
func lineAt(text []byte, at int) string {
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	end := len(text)
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		end = at + n
	}
	line := plain(text[start:end])
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	return line
}

// escapes are the sequences that draw nothing: CSI, strings (OSC, DCS, SOS, PM, APC) up to their end or the end of the line, and
// the short ones.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(\x07|\x1b\\|$)|\x1b[ -/]*[0-~]`)

func plain(line []byte) string {
	line = escapes.ReplaceAll(line, nil)
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(line), "\ufffd")))
}
