package drive

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Dash stands for a value that is not there.
const Dash = "—"

// Clean makes a value safe for one cell or line: each run of control bytes becomes one space.
func Clean(s string) string {
	var b strings.Builder
	control := false
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			control = true
			continue
		}
		if control {
			b.WriteByte(' ')
			control = false
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// Age is a span in the largest whole unit: 12s, 5m, 3h, 2d. A negative one is 0s.
func Age(ms int64) string {
	s := max(ms, 0) / 1000
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm", s/60)
	case s < 86400:
		return fmt.Sprintf("%dh", s/3600)
	}
	return fmt.Sprintf("%dd", s/86400)
}

// Tilde writes home as ~ in front of a path inside it.
func Tilde(dir, home string) string {
	if home == "" || home == "/" {
		return dir
	}
	if dir == home {
		return "~"
	}
	if rest, ok := strings.CutPrefix(dir, home+"/"); ok {
		return "~/" + rest
	}
	return dir
}

// Base is the last part of a program's path, or the dash where there is none.
func Base(program string) string {
	if program = Clean(program); program == "" {
		return Dash
	}
	return path.Base(program)
}

// AlignRight pads the cells of columns on the left to the width of their column.
func AlignRight(rows [][]string, columns ...int) {
	for _, c := range columns {
		width := 0
		for _, row := range rows {
			width = max(width, utf8.RuneCountInString(row[c]))
		}
		for _, row := range rows {
			row[c] = strings.Repeat(" ", width-utf8.RuneCountInString(row[c])) + row[c]
		}
	}
}
