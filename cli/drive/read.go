package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kolu/daemon/kaval"
)

// HistoryPageLines is how many lines one page of a whole history has.
const HistoryPageLines = 1000

// HistoryReader is the part of both contracts that pages need.
type HistoryReader interface {
	History(ctx context.Context, id kaval.TerminalID, req kaval.HistoryRequest) (kaval.HistoryPage, error)
}

// ErrStale says that the terminal changed its width between two pages, so that they do not fit together.
var ErrStale = errors.New("the terminal was reflowed while its history was read — run it again")

// History gives the lines above the screen, oldest first, with colours: one page of lines when lines is above 0, else all. It
// also says how many pages that took. Nothing is given in part: a reflow in the middle is ErrStale.
func History(ctx context.Context, r HistoryReader, id kaval.TerminalID, lines int) (text string, pages int, err error) {
	req := kaval.HistoryRequest{Max: HistoryPageLines}
	if lines > 0 {
		req.Max = lines
	}
	var chunks []string
	for {
		page, err := r.History(ctx, id, req)
		if err != nil {
			return "", 0, err
		}
		if page.Stale {
			return "", 0, ErrStale
		}
		if chunk, ok := pageText(page); ok {
			chunks = append(chunks, chunk)
		}
		stuck := req.Before != nil && page.TopLine >= *req.Before
		if lines > 0 || page.Exhausted || stuck {
			break
		}
		req.Before, req.Epoch = &page.TopLine, &page.Epoch
	}
	slices.Reverse(chunks)
	return strings.Join(chunks, ""), len(chunks), nil
}

// pageText is a page with a newline at its end; a page of blank lines has its rows back. The empty page that has no rows is
// left out.
func pageText(page kaval.HistoryPage) (string, bool) {
	switch {
	case page.Chunk != "":
		return strings.TrimSuffix(page.Chunk, "\n") + "\n", true
	case page.Lines > 0:
		return strings.Repeat("\n", page.Lines), true
	}
	return "", false
}

// EndLine gives text with exactly one newline added if it does not end with one; an empty text stays empty.
func EndLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// CountLines is how many lines text has when newlines at its end are left out.
func CountLines(text string) int {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return 0
	}
	return strings.Count(text, "\n") + 1
}

// Given is a number flag that was given, else nil.
func Given(n int, given bool) *int {
	if !given {
		return nil
	}
	return &n
}

// SnapshotRequest reads the flags of a snapshot, which exclude each other.
func SnapshotRequest(viewport bool, tail, lines *int) (kaval.ScreenRequest, error) {
	n := 0
	if viewport {
		n++
	}
	for _, flag := range []struct {
		name  string
		count *int
	}{{"tail", tail}, {"lines", lines}} {
		if flag.count == nil {
			continue
		}
		n++
		if *flag.count < 0 {
			return kaval.ScreenRequest{}, fmt.Errorf("--%s: want a whole number from 0 on", flag.name)
		}
	}
	switch {
	case n > 1:
		return kaval.ScreenRequest{}, errors.New("--viewport, --tail and --lines exclude each other")
	case viewport:
		return kaval.ScreenRequest{Extent: kaval.Viewport}, nil
	case tail != nil:
		return kaval.ScreenRequest{Extent: kaval.Tail, Lines: *tail}, nil
	case lines != nil:
		return kaval.ScreenRequest{Extent: kaval.Tail, Lines: *lines}, nil
	}
	return kaval.ScreenRequest{Extent: kaval.Full}, nil
}
