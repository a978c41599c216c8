package ptyhost

import (
	"cmp"
	"context"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/vt"
)

// maxSnapshot bounds a snapshot in bytes: history is left out until it fits.
const maxSnapshot = 4 << 20

func newScreen(size kaval.Size, version string) *vt.Terminal {
	return vt.New(vt.Options{Cols: size.Cols, Rows: size.Rows, Scrollback: kaval.ScrollbackLines, Name: cmp.Or(version, "kolu")})
}

// snapshot gives the frame that draws the terminal as it is; t.mu is held. It is made once for all who ask before the next output.
func (t *terminal) snapshot() kaval.Frame {
	if t.snap == nil {
		lines := kaval.SnapshotLines
		data := t.screen.Render(lines)
		for len(data) > maxSnapshot && lines > 0 {
			lines /= 4
			data = t.screen.Render(lines)
		}
		t.snap = &kaval.Frame{Kind: kaval.FrameSnapshot, Data: data, Offset: t.out.end, Size: t.size}
	}
	return *t.snap
}

// Screen gives a terminal's text, or bytes that draw it.
func (h *Host) Screen(ctx context.Context, id kaval.TerminalID, req kaval.ScreenRequest) (kaval.Screen, error) {
	extent, err := extentOf(req)
	if err != nil {
		return kaval.Screen{}, err
	}
	t, err := h.find(ctx, id)
	if err != nil {
		return kaval.Screen{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.screen.Snapshot()
	out := kaval.Screen{
		Cols: s.Cols, Rows: s.Rows, CursorX: s.CursorX, CursorY: s.CursorY, CursorVisible: s.CursorVisible,
		AltScreen: s.Alt, BracketedPaste: s.Modes.BracketedPaste, Title: s.Title, Offset: t.out.end,
	}
	if req.ANSI {
		out.Text = string(t.screen.Render(historyLines(req, s)))
	} else {
		out.Text = t.screen.Text(extent)
	}
	return out, nil
}

func extentOf(req kaval.ScreenRequest) (vt.Extent, error) {
	switch req.Extent {
	case "", kaval.Viewport:
		return vt.Extent{Kind: vt.ExtentViewport, Trim: req.Trim}, nil
	case kaval.Full:
		return vt.Extent{Kind: vt.ExtentFull, Trim: req.Trim}, nil
	case kaval.Tail:
		if req.Lines < 0 {
			return vt.Extent{}, kaval.Invalidf("lines must be at least 0")
		}
		return vt.Extent{Kind: vt.ExtentTail, Lines: req.Lines, Trim: req.Trim}, nil
	}
	return vt.Extent{}, kaval.Invalidf("extent %q is none of full, viewport and tail", string(req.Extent))
}

// historyLines is how much above the screen a rendering of the extent takes.
func historyLines(req kaval.ScreenRequest, s vt.Snapshot) int {
	switch req.Extent {
	case kaval.Full:
		return s.HistoryLines
	case kaval.Tail:
		return max(0, req.Lines-s.Rows)
	}
	return 0
}

// History gives one page of the lines above the screen.
func (h *Host) History(ctx context.Context, id kaval.TerminalID, req kaval.HistoryRequest) (kaval.HistoryPage, error) {
	if req.Max < 1 {
		return kaval.HistoryPage{}, kaval.Invalidf("max must be at least 1")
	}
	if req.Before != nil && *req.Before < 0 {
		return kaval.HistoryPage{}, kaval.Invalidf("before must be at least 0")
	}
	t, err := h.find(ctx, id)
	if err != nil {
		return kaval.HistoryPage{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	epoch := t.screen.Epoch()
	if req.Epoch != nil && *req.Epoch != epoch {
		return kaval.HistoryPage{Stale: true, Epoch: epoch}, nil
	}
	chunk, lines, top, exhausted := t.screen.History(req.Before, min(req.Max, maxHistory))
	return kaval.HistoryPage{Chunk: string(chunk), Lines: lines, TopLine: top, Epoch: epoch, Exhausted: exhausted}, nil
}

// maxHistory is the most lines of one page; the next page has the rest.
const maxHistory = 2_000
