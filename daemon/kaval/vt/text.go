package vt

import (
	"bytes"
	"unicode/utf8"
)

// Text gives rows as plain text, joined by newlines, without one at the end. A row that was wrapped stays a row. Blanks at the
// end of each row are left off.
func (t *Terminal) Text(e Extent) string {
	start, end := t.extent(e)
	if start >= end {
		return ""
	}
	b := make([]byte, 0, int(end-start)*(t.cols+1))
	above := t.above()
	for n := start; n < end; n++ {
		at := len(b)
		if i := n - t.hist.first(); i < int64(above) && t.cur == &t.main {
			b = t.hist.text(b, int(i))
		} else {
			b = t.rowText(b, t.cur.rows[n-t.hist.end()])
		}
		b = append(b[:at], bytes.TrimRight(b[at:], " ")...)
		if n+1 < end {
			b = append(b, '\n')
		}
	}
	return string(b)
}

// above is how many lines of history belong to the active buffer.
func (t *Terminal) above() int {
	if t.cur == &t.alt {
		return 0
	}
	return t.hist.len()
}

// extent gives the absolute numbers of the rows that are asked for; those of the alternate screen are counted as if it were the main one.
func (t *Terminal) extent(e Extent) (start, end int64) {
	screen := t.hist.end()
	first := screen - int64(t.above())
	end = screen + int64(t.rows)
	if e.Trim {
		for end > first && t.blankLine(end-1) {
			end--
		}
	}
	switch e.Kind {
	case ExtentFull:
		return first, end
	case ExtentTail:
		return max(first, end-int64(max(e.Lines, 0))), end
	case ExtentRange:
		return max(first, e.Start), min(end, e.End)
	}
	return screen, end
}

func (t *Terminal) blankLine(n int64) bool {
	if i := n - t.hist.end(); i >= 0 {
		r := t.cur.rows[i]
		for _, c := range r.cells[:r.used] {
			if !c.isEmpty() {
				return false
			}
		}
		return true
	}
	return len(bytes.TrimRight(t.hist.text(nil, int(n-t.hist.first())), " ")) == 0
}

func (t *Terminal) rowText(b []byte, r *row) []byte {
	for _, c := range r.cells[:r.used] {
		if v := uint32(c); v < utf8.RuneSelf && v != 0 {
			b = append(b, byte(v))
		} else {
			b = t.appendText(b, c)
		}
	}
	return b
}
