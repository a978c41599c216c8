package ptyhost_test

import (
	"fmt"
	"testing"

	"kolu/daemon/kaval"
	"kolu/daemon/kaval/ptyhost"
)

func benchHost(b *testing.B) *ptyhost.Host {
	h := ptyhost.New(ptyhost.Options{RunDir: b.TempDir()})
	b.Cleanup(h.Close)
	return h
}

func spawn(b *testing.B, h kaval.Host, script, until string) kaval.TerminalID {
	b.Helper()
	term, err := h.Spawn(b.Context(), kaval.SpawnRequest{Argv: []string{"/bin/sh", "-c", script}})
	if err != nil {
		b.Fatal(err)
	}
	from := int64(0)
	if _, err := h.Wait(b.Context(), term.ID, kaval.WaitRequest{Match: until, After: &from}); err != nil {
		b.Fatal(err)
	}
	return term.ID
}

// BenchmarkCreate starts a program beside so many that run.
func BenchmarkCreate(b *testing.B) {
	for _, live := range []int{0, 200} {
		b.Run(fmt.Sprint(live), func(b *testing.B) {
			h := benchHost(b)
			for range live {
				if _, err := h.Spawn(b.Context(), kaval.SpawnRequest{Argv: []string{"/bin/cat"}}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := h.Spawn(b.Context(), kaval.SpawnRequest{Argv: []string{"/bin/true"}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEcho is one key to an attached program and back.
func BenchmarkEcho(b *testing.B) {
	h := benchHost(b)
	id := spawn(b, h, "stty raw -echo; echo ready; exec cat", "ready")
	a, err := h.Attach(b.Context(), id, kaval.AttachRequest{})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Next(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := a.Write(b.Context(), []byte("k")); err != nil {
			b.Fatal(err)
		}
		if _, err := a.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAttach is an attach to a terminal that has printed 100,000 lines, with a snapshot of its own each time.
func BenchmarkAttach(b *testing.B) {
	h := benchHost(b)
	id := spawn(b, h, "stty raw -echo; seq 100000; echo over; exec cat", "over")
	rows := 24
	for b.Loop() {
		rows = 24 + 25 - rows // a change of the grid, so that no snapshot is shared
		a, err := h.Attach(b.Context(), id, kaval.AttachRequest{Size: kaval.Size{Cols: 80, Rows: rows}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := a.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
		a.Close()
	}
}

// BenchmarkOutput is a flood from a program through the screen, with nobody attached.
func BenchmarkOutput(b *testing.B) {
	const size = 8 << 20
	h := benchHost(b)
	b.SetBytes(size)
	for b.Loop() {
		id := spawn(b, h, fmt.Sprintf("yes 'a line of output as a compiler prints it' | head -c %d; echo over", size), "over")
		if err := h.Kill(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTail reads the last lines of a terminal beside little and much history.
func BenchmarkTail(b *testing.B) {
	for _, lines := range []int{100, 10_000} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			h := benchHost(b)
			id := spawn(b, h, fmt.Sprintf("seq %d; echo over; exec cat", lines), "over")
			for b.Loop() {
				if _, err := h.Screen(b.Context(), id, kaval.ScreenRequest{Extent: kaval.Tail, Lines: 40, Trim: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
