package vt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// streams are the kinds of output that speed is measured on, each about a megabyte.
func streams() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	const size = 1 << 20
	fill := func(next func(b []byte) []byte) []byte {
		b := make([]byte, 0, size+4096)
		for len(b) < size {
			b = next(b)
		}
		return b
	}
	words := []string{"error", "warning", "compiling", "main.go:12", "ok", "the", "quick", "brown", "fox", "1.234s"}
	return map[string][]byte{
		"ascii": fill(func(b []byte) []byte {
			n := len(b) + 40 + r.IntN(70)
			for len(b) < n {
				b = append(append(b, words[r.IntN(len(words))]...), ' ')
			}
			return append(b, "\r\n"...)
		}),
		"yes": bytes.Repeat([]byte("y\r\n"), size/3),
		"colour": fill(func(b []byte) []byte {
			return fmt.Appendf(b, "\x1b[38;2;%d;%d;%dm\x1b[48;2;%d;%d;%dm%c", r.IntN(256), r.IntN(256), r.IntN(256),
				r.IntN(256), r.IntN(256), r.IntN(256), 'a'+r.IntN(26))
		}),
		"tui": fill(func(b []byte) []byte {
			b = append(b, "\x1b[?2026h\x1b[?25l\x1b[H"...)
			for y := range 40 {
				b = fmt.Appendf(b, "\x1b[%d;1H\x1b[1;32m%-20s\x1b[m %-60s\x1b[38;5;%dm%10d\x1b[0m\x1b[K", y+1,
					words[r.IntN(len(words))], words[r.IntN(len(words))], r.IntN(256), r.IntN(1_000_000))
			}
			return append(b, "\x1b[?25h\x1b[?2026l"...)
		}),
		"mixed": fill(func(b []byte) []byte {
			return fmt.Appendf(b, "\x1b[1;32m✔\x1b[0m \x1b[38;5;%dm建て中\x1b[0m \x1b[2m%s\x1b[0m\x1b[K e\u0301 👍🏽 ⚠\ufe0f\r\n",
				r.IntN(256), words[r.IntN(len(words))])
		}),
		"cjk": fill(func(b []byte) []byte {
			for range 20 + r.IntN(30) {
				b = append(b, string(rune(0x4e00+r.IntN(8000)))...)
			}
			return append(b, "\r\n"...)
		}),
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, data := range streams() {
		b.Run(name, func(b *testing.B) {
			t := New(Options{Cols: 120, Rows: 40, Scrollback: 10_000})
			b.SetBytes(int64(len(data)))
			before := cpuTime(b)
			for b.Loop() {
				for rest := data; len(rest) > 0; {
					n := min(32<<10, len(rest))
					t.Write(rest[:n])
					rest = rest[n:]
				}
			}
			used := cpuTime(b) - before
			b.ReportMetric(float64(b.N)*float64(len(data))/1e6/used.Seconds(), "MB/cpu-s")
		})
	}
}

// cpuTime is what this process has used: on a machine that others use too, it says more than the clock.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fullScreen is a terminal whose screen and history have text and colours.
func fullScreen() *Terminal {
	t := New(Options{Cols: 120, Rows: 40, Scrollback: 10_000})
	all := streams()
	t.Write(all["ascii"])
	t.Write(all["tui"])
	return t
}

func BenchmarkRead(b *testing.B) {
	t := fullScreen()
	for name, read := range map[string]func(){
		"viewport text":     func() { t.Text(Extent{}) },
		"viewport ansi":     func() { t.Render(0) },
		"attach 1000 lines": func() { t.Render(1000) },
		"tail 40":           func() { t.Text(Extent{Kind: ExtentTail, Lines: 40}) },
		"full text":         func() { t.Text(Extent{Kind: ExtentFull}) },
		"history page":      func() { t.History(nil, 1000) },
		"snapshot":          func() { t.Snapshot() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}

func BenchmarkResize(b *testing.B) {
	t := fullScreen()
	for b.Loop() {
		t.Resize(80, 40)
		t.Resize(120, 40)
	}
}

// heap is the live heap after make, less what it was before; keep holds what was made.
func heap(make func() any) (bytes int64, keep any) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	keep = make()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), keep
}

func BenchmarkMemory(b *testing.B) {
	for name, mk := range map[string]func() any{
		"empty":          func() any { return New(Options{Cols: 120, Rows: 40, Scrollback: 10_000}) },
		"10000x120 text": func() any { return filled(plainCell) },
		"10000x120 256":  func() any { return filled(colourCell) },
		"10000x120 rgb":  func() any { return filled(denseCell) },
		"10000x68 text":  func() any { return filledWidth(plainCell, 68) },
	} {
		b.Run(name, func(b *testing.B) {
			var n int64
			for b.Loop() {
				got, keep := heap(mk)
				n = got
				runtime.KeepAlive(keep)
			}
			b.ReportMetric(float64(n), "B/terminal")
		})
	}
}

func plainCell(b []byte, x, y int) []byte { return append(b, byte('!'+(x+y)%90)) }

func colourCell(b []byte, x, y int) []byte {
	if x%8 == 0 {
		b = fmt.Appendf(b, "\x1b[38;5;%dm", (x+y)%256)
	}
	return append(b, 'x')
}

func denseCell(b []byte, x, y int) []byte {
	return fmt.Appendf(b, "\x1b[38;2;%d;%d;%d;48;2;%d;%d;%dmx", x, y&255, y>>8, y&255, x, y>>8)
}

func filled(put func([]byte, int, int) []byte) *Terminal { return filledWidth(put, 120) }

func filledWidth(put func([]byte, int, int) []byte, width int) *Terminal {
	return filledLines(put, width, 10_000)
}

// filledLines has n lines of history, and a screen, of the given width.
func filledLines(put func([]byte, int, int) []byte, width, n int) *Terminal {
	t := New(Options{Cols: 120, Rows: 40, Scrollback: 10_000})
	var b []byte
	for y := range n + 40 {
		b = b[:0]
		for x := range width {
			b = put(b, x, y)
		}
		t.Write(append(b, "\r\n"...))
	}
	return t
}
