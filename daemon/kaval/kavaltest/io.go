package kavaltest

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"kolu/daemon/kaval"
)

func testScreen(t *testing.T, s *suite) {
	id := s.spawn(t, numbered(40)+`; printf '\033[31mred\033[0m end'; cat`)
	s.await(t, id, "end")
	get := func(req kaval.ScreenRequest) kaval.Screen {
		t.Helper()
		screen, err := s.Screen(within(t), id, req)
		if err != nil {
			t.Fatal(err)
		}
		return screen
	}
	view := get(kaval.ScreenRequest{})
	if got := lines(view.Text); len(got) != 24 || got[23] != "red end" || got[22] != "line 40" {
		t.Errorf("viewport: %q", got)
	}
	if view.Cols != 80 || view.Rows != 24 || view.CursorX != 7 || view.CursorY != 23 || !view.CursorVisible || view.AltScreen || view.Offset == 0 {
		t.Errorf("viewport: %+v", view)
	}
	if got := lines(get(kaval.ScreenRequest{Extent: kaval.Full}).Text); len(got) != 41 || got[0] != "line 1" {
		t.Errorf("full: %d lines from %q", len(got), got[0])
	}
	if got := get(kaval.ScreenRequest{Extent: kaval.Tail, Lines: 2}).Text; got != "line 40\nred end" {
		t.Errorf("tail: %q", got)
	}
	if got := get(kaval.ScreenRequest{Extent: kaval.Tail}).Text; got != "" {
		t.Errorf("tail of no lines: %q", got)
	}
	if got := get(kaval.ScreenRequest{ANSI: true}).Text; !strings.Contains(got, "\x1b[") || !strings.Contains(got, "red") {
		t.Errorf("with colours: %q", got)
	}
	for _, req := range []kaval.ScreenRequest{{Extent: "page"}, {Extent: kaval.Tail, Lines: -1}} {
		_, err := s.Screen(within(t), id, req)
		wantErr(t, fmt.Sprintf("%+v", req), err, kaval.ErrInvalid)
	}
	blank := s.spawn(t, "echo top; cat")
	s.await(t, blank, "top")
	trimmed, err := s.Screen(within(t), blank, kaval.ScreenRequest{Extent: kaval.Tail, Lines: 5, Trim: true})
	if err != nil || trimmed.Text != "top" {
		t.Errorf("trimmed: %q, %v", trimmed.Text, err)
	}
}

func testWrite(t *testing.T, s *suite) {
	id := s.spawn(t, "stty -echo; echo ready; while read line; do echo \"got <$line>\"; done")
	s.await(t, id, "ready")
	s.write(t, id, "one\n")
	s.await(t, id, "got <one>")
	s.write(t, id, "") // nothing is no error
	s.write(t, id, "tw")
	s.write(t, id, "o\n")
	s.await(t, id, "got <two>")
	err := s.Write(within(t), id, kaval.Input{Data: make([]byte, kaval.MaxInput+1)})
	wantErr(t, "too much", err, kaval.ErrInvalid)
}

func testBytes(t *testing.T, s *suite) {
	for _, in := range []string{
		"run the tests;", `\`, "$(x) `x`", "%", "~", "\x00\x01\x7f\xff\xfe", "\x1b[200~a\rb\x1b[201~", "\xf0\x9f\xa6\x80é\xcc\x81", "\r", "\n", "\x03\x04\x1a\x11\x13",
	} {
		id := s.spawn(t, fmt.Sprintf("stty raw -echo; echo ready; head -c %d | od -An -tx1 -v; echo over", len(in)))
		s.await(t, id, "ready")
		a := s.attachFromStart(t, id)
		s.write(t, id, in)
		drain(t, a)
		var want []string
		for i := range len(in) {
			want = append(want, fmt.Sprintf("%02x", in[i]))
		}
		got := strings.Fields(strings.NewReplacer("ready", "", "over", "").Replace(a.data.String()))
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("sent %q, the program read %v", in, got)
		}
	}
}

// attachFromStart reads a terminal's output from its first byte; the terminal may not have ended.
func (s *suite) attachFromStart(t *testing.T, id kaval.TerminalID) *reader {
	t.Helper()
	return s.attach(t, id, kaval.AttachRequest{From: &beginning})
}

// A line that the terminal would cut is refused, whole, while the program reads by lines; to one that reads bytes it goes.
func testLongLine(t *testing.T, s *suite) {
	line := strings.Repeat("l", 5000)
	id := s.spawn(t, "stty -echo; echo lines; read x; stty raw; echo bytes; head -c 5000 | cksum; cat")
	s.await(t, id, "lines")
	err := s.Write(within(t), id, kaval.Input{Data: []byte("short\r" + line + "\r")})
	wantErr(t, "a line that would be cut", err, kaval.ErrInvalid)
	s.write(t, id, "\n")
	s.await(t, id, "bytes")
	s.write(t, id, line)
	s.await(t, id, "[0-9]+ 5000")
}

// noise is bytes that look like nothing, the same each time.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func testLarge(t *testing.T, s *suite) {
	data := noise(1 << 20)
	id := s.spawn(t, fmt.Sprintf(
		"stty raw -echo; echo ready; head -c %d | { sha256sum 2>/dev/null || shasum -a 256; }; cat", len(data)))
	s.await(t, id, "ready")
	s.write(t, id, string(data))
	want := fmt.Sprintf("%x", sha256.Sum256(data))
	if got := s.await(t, id, "[0-9a-f]{64}").MatchedLine; !strings.HasPrefix(got, want) {
		t.Errorf("the program read %s, want %s", got, want)
	}
}

// A program that echoes everything must not lock up with its writer: both directions go on at once.
func testEchoed(t *testing.T, s *suite) {
	data := noise(256 << 10)
	for i, b := range data { // nothing that a terminal answers
		data[i] = ' ' + b%95
	}
	id := s.spawn(t, "stty raw -echo; printf ready; exec cat")
	a := s.attach(t, id, kaval.AttachRequest{From: &beginning})
	a.contains(t, "ready")
	a.data.Reset()
	var writer sync.WaitGroup
	writer.Go(func() { s.write(t, id, string(data)) })
	defer writer.Wait()
	var got hash.Hash = sha256.New()
	for n := 0; n < len(data); {
		frame := a.until(t, kaval.FrameData)
		n += len(frame.Data)
		got.Write(frame.Data)
	}
	if want := sha256.Sum256(data); string(got.Sum(nil)) != string(want[:]) {
		t.Error("the echo differs from what was sent")
	}
}

func testWriters(t *testing.T, s *suite) {
	const writers, each = 8, 25
	id := s.spawn(t, fmt.Sprintf("stty raw -echo; echo ready; head -c %d; echo over; cat", writers*each*100))
	s.await(t, id, "ready")
	a := s.attachFromStart(t, id)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				s.write(t, id, fmt.Sprintf("%c%02d%s", 'a'+w, i, strings.Repeat(string(rune('a'+w)), 97)))
			}
		})
	}
	all.Wait()
	a.contains(t, "over")
	text := a.data.String()
	next := map[byte]int{}
	for text = text[strings.Index(text, "ready")+len("ready\n"):]; len(text) >= 100; text = text[100:] {
		w, piece := text[0], text[:100]
		if want := fmt.Sprintf("%c%02d%s", w, next[w], strings.Repeat(string(w), 97)); piece != want {
			t.Fatalf("inputs are mixed or out of order: %q", piece)
		}
		next[w]++
	}
	if len(next) != writers {
		t.Errorf("%d of %d writers were heard", len(next), writers)
	}
}

func testResize(t *testing.T, s *suite) {
	id := s.spawn(t, "trap 'stty size' WINCH; echo ready; while :; do read x || :; done")
	s.await(t, id, "ready")
	if err := s.Resize(within(t), id, kaval.Size{Cols: 100, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	s.write(t, id, "\n")
	s.await(t, id, "40 100")
	if got, _ := s.find(t, id); got.Cols != 100 || got.Rows != 40 {
		t.Errorf("listed as %dx%d", got.Cols, got.Rows)
	}
	if err := s.Resize(within(t), id, kaval.Size{Rows: 30}); err != nil { // the columns as they are
		t.Fatal(err)
	}
	if got, err := s.Screen(within(t), id, kaval.ScreenRequest{}); err != nil || got.Cols != 100 || got.Rows != 30 {
		t.Errorf("screen of %dx%d, %v", got.Cols, got.Rows, err)
	}
	if err := s.Resize(within(t), id, kaval.Size{Cols: 2, Rows: 1}); err != nil { // a stray window is raised to the floor
		t.Fatal(err)
	}
	if got, _ := s.find(t, id); got.Cols != kaval.MinCols || got.Rows != kaval.MinRows {
		t.Errorf("a window of 2x1 made it %dx%d", got.Cols, got.Rows)
	}
	for _, size := range []kaval.Size{{Cols: -1, Rows: 10}, {Cols: 80, Rows: kaval.MaxRows + 1}, {Cols: kaval.MaxCols + 1, Rows: 24}} {
		wantErr(t, fmt.Sprint(size), s.Resize(within(t), id, size), kaval.ErrInvalid)
	}
}

// A program that asks its terminal is answered once, with nobody attached and with two attached.
func testQueries(t *testing.T, s *suite) {
	for _, readers := range []int{0, 2} {
		id := s.spawn(t, `stty raw -echo min 0 time 30; printf ready; head -c 1 >/dev/null; printf '\033[6n'; printf 'reply:'
dd bs=1 count=6 2>/dev/null | od -An -c | tr -d ' \n'; stty min 0 time 3; printf ':more:'; dd bs=1 count=1 2>/dev/null | od -An -c | tr -d ' \n'; printf ':done'; stty min 1; cat`)
		s.await(t, id, "ready")
		for range readers {
			s.attach(t, id, kaval.AttachRequest{})
		}
		s.write(t, id, "x")
		s.await(t, id, ":done")
		if got := s.text(t, id); !strings.Contains(got, `reply:033[1;6R:more::done`) {
			t.Errorf("with %d readers the program got %q", readers, strings.TrimSpace(got))
		}
	}
}
