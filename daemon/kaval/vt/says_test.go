package vt

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestReplies(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"DA1", "\x1b[c", "\x1b[?62;22c"},
		{"DA1 with 0", "\x1b[0c", "\x1b[?62;22c"},
		{"DA1 with another", "\x1b[1c", ""},
		{"DECID", "\x1bZ", "\x1b[?62;22c"},
		{"DA2", "\x1b[>c", "\x1b[>0;276;0c"},
		{"DA3", "\x1b[=c", ""},
		{"DSR", "\x1b[5n", "\x1b[0n"},
		{"CPR", "\x1b[2;3H\x1b[6n", "\x1b[2;3R"},
		{"CPR in origin mode", "\x1b[2;4r\x1b[?6h\x1b[2;3H\x1b[6n", "\x1b[2;3R"},
		{"DECXCPR", "\x1b[2;3H\x1b[?6n", "\x1b[?2;3R"},
		{"XTVERSION", "\x1b[>q", "\x1bP>|kolu(test)\x1b\\"},
		{"XTVERSION with 0", "\x1b[>0q", "\x1bP>|kolu(test)\x1b\\"},
		{"XTVERSION with another", "\x1b[>1q", ""},
		{"DECRQM set", "\x1b[?2004h\x1b[?2004$p", "\x1b[?2004;1$y"},
		{"DECRQM unknown", "\x1b[?9999$p", "\x1b[?9999;0$y"},
		{"DECRQM of clusters", "\x1b[?2027$p", "\x1b[?2027;3$y"},
		{"DECRQM ANSI", "\x1b[20$p", "\x1b[20;2$y"},
		{"DECRQSS pen", "\x1b[1;4:3;38;5;9;48;2;1;2;3m\x1bP$qm\x1b\\", "\x1bP1$r0;1;4:3;91;48;2;1;2;3m\x1b\\"},
		{"DECRQSS region", "\x1b[2;4r\x1bP$qr\x1b\\", "\x1bP1$r2;4r\x1b\\"},
		{"DECRQSS cursor", "\x1b[5 q\x1bP$q q\x1b\\", "\x1bP1$r5 q\x1b\\"},
		{"DECRQSS unknown", "\x1bP$qz\x1b\\", "\x1bP0$r\x1b\\"},
		{"XTGETTCAP", "\x1bP+q436f;5A5A\x1b\\", "\x1bP1+r436f=323536\x1b\\\x1bP0+r5A5A\x1b\\"},
		{"kitty keyboard", "\x1b[?u\x1b[>5u\x1b[?u\x1b[<u\x1b[?u", "\x1b[?0u\x1b[?5u\x1b[?0u"},
		{"program status, ST", "\x1b]7501;?\x1b\\", "\x1b]7501;?\x1b\\"},
		{"program status, BEL", "\x1b]7501;?\a", "\x1b]7501;?\a"},
		{"colours", "\x1b]4;1;?\a\x1b]10;?\a\x1b]11;?\x1b\\", ""},
		{"size in pixels and cells", "\x1b[14t\x1b[16t\x1b[18t\x1b[21t", ""},
		{"clipboard", "\x1b]52;c;?\a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term := small()
			term.Write([]byte(tt.in))
			if got := string(term.Drain()); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if again := term.Drain(); again != nil {
				t.Errorf("answered twice: %q", again)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	two := 2
	for _, tt := range []struct {
		name, in string
		want     []Event
	}{
		{"title", "\x1b]2;a \x01b\xff\a", []Event{{Kind: EventTitle, Text: "a b\ufffd"}}},
		{"title of both kinds, the last counts", "\x1b]0;a\a\x1b]2;b\a", []Event{{Kind: EventTitle, Text: "b"}}},
		{"icon name", "\x1b]1;a\a", nil},
		{"titles saved", "\x1b]2;a\a\x1b[22;0t\x1b]2;b\a\a\x1b[23;0t",
			[]Event{{Kind: EventTitle, Text: "b"}, {Kind: EventBell}, {Kind: EventTitle, Text: "a"}}},
		{"directory", "\x1b]7;file://box/home/u/d%20x%e4%b8%ad\a", []Event{{Kind: EventCWD, Text: "/home/u/d x中", Host: "box"}}},
		{"directory, no file", "\x1b]7;http://box/x\a\x1b]7;/home\a\x1b]7;file://box/%zz\a\x1b]7;file:rel\a", nil},
		{"command", "\x1b]633;E;echo a\\x3b echo \\\\ \\n\a", []Event{{Kind: EventCommand, Text: `echo a; echo \ \n`}}},
		{"command of several lines", "\x1b]633;E;a\\x0ab\a", []Event{{Kind: EventCommand, Text: "a b"}}},
		{"marks", "\x1b]133;A\a\x1b]133;B\a\x1b]133;C\a\x1b]133;D;2\a\x1b]633;D\a\x1b]633;A\a",
			[]Event{{Kind: EventPrompt}, {Kind: EventCommandStart}, {Kind: EventCommandEnd, Exit: &two}, {Kind: EventCommandEnd}, {Kind: EventPrompt}}},
		{"bells", "\a\a\a", []Event{{Kind: EventBell}}},
		{"clipboard", "\x1b]52;c;aGkK\a", []Event{{Kind: EventClipboard, Target: "c", Text: "hi\n"}}},
		{"clipboard, no base64", "\x1b]52;c;!\a", nil},
		{"notifications", "\x1b]9;hello\a\x1b]777;notify;T;body;x\a",
			[]Event{{Kind: EventNotify, Text: "hello"}, {Kind: EventNotify, Title: "T", Text: "body;x"}}},
		{"progress", "\x1b]9;4;1;50\a", []Event{{Kind: EventProgress, Text: "1;50"}}},
		{"other numbers of OSC 9", "\x1b]9;9;C:\\\a", nil},
		{"program status", "\x1b]7501;state=blocked:app=codex:kind=permission:msg=cnVuIGxzPw==\x1b\\",
			[]Event{{Kind: EventProgramStatus, Status: &ProgramStatus{State: "blocked", App: "codex", Kind: "permission", Message: "run ls?"}}}},
		{"program status of a child", "\x1b]7501;state=working:id=7\a",
			[]Event{{Kind: EventProgramStatus, Status: &ProgramStatus{State: "working", ID: "7"}}}},
		{"program status, unknown", "\x1b]7501;state=dancing\a\x1b]7501;app=x\a", nil},
		{"program status, message too long", "\x1b]7501;state=done:msg=" + strings.Repeat("QUJD", 900) + "\a",
			[]Event{{Kind: EventProgramStatus, Status: &ProgramStatus{State: "done"}}}},
		{"program status, too long", "\x1b]7501;state=done:app=" + strings.Repeat("a", 5000) + "\a", nil},
		{"cancelled", "\x1b]2;a\x18\x1b]2;b\x1a", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term := small()
			term.Write([]byte(tt.in))
			if diff := cmp.Diff(tt.want, term.Events()); diff != "" {
				t.Error(diff)
			}
			if got := term.Text(Extent{Trim: true}); got != "" {
				t.Errorf("the screen shows %q", got)
			}
		})
	}
}

func TestRecordingsTellTheProgramStatus(t *testing.T) {
	for _, r := range loadRecordings(t) {
		if r.name != "codex-permission" && r.name != "claude-program-status" {
			continue
		}
		var states []string
		r.play(func(term *Terminal, p []byte) {
			term.Write(p)
			for _, e := range term.Events() {
				if e.Kind == EventProgramStatus {
					states = append(states, strings.TrimSuffix(e.Status.State+"/"+e.Status.Kind, "/"))
				}
			}
		})
		got := strings.Join(states, " ")
		for _, want := range []string{"working blocked/permission", "done"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s tells %q, want %q in it", r.name, got, want)
			}
		}
	}
}

func TestWidths(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		want int
	}{
		{"ASCII", "a", 1}, {"no-break space", "\u00a0", 1}, {"soft hyphen", "\u00ad", 1}, {"Latin", "é", 1},
		{"combining", "e\u0301", 1}, {"enclosing", "a\u20dd", 1}, {"Thai", "กำ", 2}, {"Thai mark", "กิ", 1},
		{"Devanagari", "नमस्ते", 4}, {"Arabic number sign", "\u0600", 1}, {"zero width space", "a\u200bb", 2},
		{"CJK", "中", 2}, {"Hangul", "한", 2}, {"Hangul by parts", "\u1112\u1161\u11ab", 2}, {"kana", "カ", 2}, {"half kana", "ｶ", 1},
		{"fullwidth", "Ａ", 2}, {"CJK extension", "\U00020000", 2}, {"ideographic space", "\u3000", 2},
		{"emoji", "😀", 2}, {"skin tone", "👍🏽", 2}, {"skin tone alone", "🏽", 2}, {"narrow hand with skin tone", "☝🏽", 2},
		{"heart", "❤", 1}, {"heart as emoji", "❤\ufe0f", 2}, {"heart as text", "❤\ufe0e", 1}, {"warning sign", "\u26a0\ufe0f", 2},
		{"keycap", "1\ufe0f\u20e3", 2}, {"VS16 on a letter", "a\ufe0f", 1}, {"family", "👨\u200d👩\u200d👧\u200d👦", 2},
		{"rainbow flag", "🏳\ufe0f\u200d🌈", 2}, {"woman judge", "👩\u200d⚖\ufe0f", 2}, {"flag", "🇩🇪", 2}, {"half a flag", "🇩", 1},
		{"two flags", "🇩🇪🇫🇷", 4}, {"private use", "\ue0b0", 1}, {"box", "─", 1}, {"hexagram", "䷀", 1}, {"no character", "\U000e0001", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term := small()
			term.Write([]byte(tt.in))
			if got := term.Snapshot().CursorX; got != tt.want {
				t.Errorf("%+q takes %d columns, want %d", tt.in, got, tt.want)
			}
		})
	}
}

func TestWidthTableIsWhole(t *testing.T) {
	for r := rune(0x20); r <= 0x10ffff; r++ {
		p := propsOf(r)
		if p&widthMask == 3 || p&widthMask == 0 && p != 0 || r >= 0x20 && r < 0x7f && p&widthMask != 1 {
			t.Fatalf("%U has %08b", r, p)
		}
	}
	if propsOf(0x110000) != 1 || propsOf(-1) != 1 {
		t.Error("no character has no width")
	}
}

func TestThreeBytesDecodeAsInTheStandardLibrary(t *testing.T) {
	for r := rune(0x800); r <= 0xffff; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		b := utf8.AppendRune(nil, r)
		if got, ok := threeBytes(b); ok && got != r || !ok && b[0] != 0xe0 && b[0] != 0xed {
			t.Fatalf("%U decodes as %U, %v", r, got, ok)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 1_000_000 {
		b := []byte{byte(rnd.Uint32()) | 0x80, byte(rnd.Uint32()), byte(rnd.Uint32())}
		got, ok := threeBytes(b)
		if want, n := utf8.DecodeRune(b); ok && (got != want || n != 3) {
			t.Fatalf("%x decodes as %U, want %U of %d bytes", b, got, want, n)
		}
	}
}
